/* SPDX-License-Identifier: MIT */
#ifndef SLUB_VERSION_H
#define SLUB_VERSION_H

#define SLUB_VERSION_MAJOR 0
#define SLUB_VERSION_MINOR 2
#define SLUB_VERSION_PATCH 0
#define SLUB_VERSION_STRING "0.2.0"

#endif
