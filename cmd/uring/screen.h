/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Properties of its rows for the full screen. */
#ifndef IOTRACE_CMD_URING_SCREEN_H
#define IOTRACE_CMD_URING_SCREEN_H

#include "cmd/engine/table_screen.h"

extern const struct table_screen_spec uring_screen;

#endif
