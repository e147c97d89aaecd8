/* SPDX-License-Identifier: MIT */
#ifndef SLUB_VERSION_H
#define SLUB_VERSION_H

#define SLUB_VERSION_MAJOR 0
#define SLUB_VERSION_MINOR 1
#define SLUB_VERSION_PATCH 0
#define SLUB_VERSION_STRING "0.1.0"

#endif
