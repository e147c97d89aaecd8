/* SPDX-License-Identifier: MIT */
#include "arch/slot.h"

uintptr_t link_secret;
