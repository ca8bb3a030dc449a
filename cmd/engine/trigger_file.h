/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The triggers of iotrace record: a text file in the directory of its recordings. */
#ifndef IOTRACE_CMD_ENGINE_TRIGGER_FILE_H
#define IOTRACE_CMD_ENGINE_TRIGGER_FILE_H

#include <stddef.h>
#include <stdint.h>

#define TRIGGER_DETAIL	  "detail" /* the stream that they keep */
#define TRIGGER_TEXT_SIZE 96

/* A line: "2026-11-30T03:12:05.123Z p99>100ms: 153.0 ms, read of sda". */
struct trigger_event {
	uint64_t epoch_ns;
	char text[TRIGGER_TEXT_SIZE]; /* printable ASCII */
};

struct trigger_events {
	struct trigger_event *list; /* by time */
	size_t n;
};

/* All lines of a directory have fewer bytes. */
#define TRIGGER_FILES_SIZE (128 << 10)

#define TRIGGER_FILE	  "triggers"
#define TRIGGER_LINE_SIZE (TRIGGER_TEXT_SIZE + 64)

/* Such a line, with its end.  Returns @buf. */
char *trigger_line(uint64_t epoch_ns, const char *text, char buf[TRIGGER_LINE_SIZE]);

/* Adds a line to the file in directory @dir_fd; the oldest lines make room.  0 or -errno. */
int trigger_file_add(int dir_fd, uint64_t epoch_ns, const char *text);

/* Reads all lines; none if there is no such file.  0 or -errno; trigger_events_free() in any case.
 */
int trigger_file_read(int dir_fd, struct trigger_events *out);
void trigger_events_free(struct trigger_events *events);

#endif
