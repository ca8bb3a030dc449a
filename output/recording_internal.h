/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_OUTPUT_RECORDING_INTERNAL_H
#define IOTRACE_OUTPUT_RECORDING_INTERNAL_H

#include "output/schema.h"

/* Private to output/: shared by the writer and the reader of recordings. */

enum recording_block {
	RECORDING_HEAD = 1,
	RECORDING_TABLE,
	RECORDING_ROWS,
	RECORDING_INTERVAL,
	RECORDING_END,
};

/* Types in the file. */
enum {
	RECORDED_U64 = 1,
	RECORDED_U32,
	RECORDED_BOOL,
	RECORDED_STR,
	RECORDED_HIST,
	RECORDED_FRAMES,
	RECORDED_TYPES, /* behind the last */
};

static inline unsigned int recorded_type(enum column_type type)
{
	switch (type) {
	case COLUMN_U64:
		return RECORDED_U64;
	case COLUMN_U32:
		return RECORDED_U32;
	case COLUMN_BOOL:
		return RECORDED_BOOL;
	case COLUMN_STR:
		return RECORDED_STR;
	case COLUMN_HIST:
		return RECORDED_HIST;
	case COLUMN_FRAMES:
		return RECORDED_FRAMES;
	}
	return 0;
}

/* A number takes 7 bits per byte, the lowest first; the top bit says that more follow. */
#define RECORDED_NUMBER_SIZE 10

/* No stack is deeper: twice the limit of the kernel and of iotrace's tables (output/stacks.c). */
#define RECORDED_FRAMES_MAX 1024

#endif
