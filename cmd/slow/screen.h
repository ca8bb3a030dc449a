/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Properties of its rows for the full screen. */
#ifndef IOTRACE_CMD_SLOW_SCREEN_H
#define IOTRACE_CMD_SLOW_SCREEN_H

#include "cmd/engine/table_screen.h"

/* The full screen of slow: the slowest I/Os since the start. */
extern const struct table_screen_spec slow_screen;

#endif
