/* SPDX-License-Identifier: MIT */
/* Nothing: its target has GoogleTest's headers compiled with the options of the unit tests. */
