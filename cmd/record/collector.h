/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A subcommand whose intervals become segments of a ring. */
#ifndef IOTRACE_CMD_RECORD_COLLECTOR_H
#define IOTRACE_CMD_RECORD_COLLECTOR_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/engine/tool.h"
#include "cmd/record/ring.h"
#include "cmd/record/triggers.h"
#include "core/base/error.h"

#define RECORD_COLLECTORS 16
#define COLLECTOR_NAMES	  "top, breakdown, slow, blame, stuck"

#define COLLECTOR_WORDS 16
#define COLLECTOR_SIZE	256

/* Its name, and its command line: "slow", "-m", "5". */
struct collector_words {
	char name[RING_NAME_SIZE];
	char text[COLLECTOR_SIZE]; /* the words, each with a NUL */
	const struct tool *tool;
};

/* Parses "COLLECTOR", "SUBCOMMAND OPTION..." or "NAME=..." of these. -errno with @err. */
int collector_parse(const char *arg, struct collector_words *out, struct error *err);

/* The default collectors; returns how many. */
size_t collector_defaults(struct collector_words out[RECORD_COLLECTORS]);

struct collector {
	const struct collector_words *words;
	struct tool_run *tool; /* NULL: not attached, or given up */
	struct ring *ring;
	size_t stream; /* of the ring */
	uint64_t segment_ns;
	struct triggers *triggers;
	/* Of the present segment: */
	struct recorder *recorder; /* NULL: no segment */
	FILE *file;		   /* writes to @bytes */
	char *bytes;		   /* what the ring has not got yet */
	size_t n, room;
	uint64_t size, part; /* which one of @segment_ns */
	/* Options, in writable memory. */
	char interval[32], text[COLLECTOR_SIZE], tool_name[64];
	char *argv[COLLECTOR_WORDS + 4];
};

/* Opens it with outputs every @interval_ns. -errno with @err; collector_close() in any case. */
int collector_open(struct collector *c, const struct collector_words *words, uint64_t interval_ns,
		   struct error *err);

/* Attaches it to @run; its intervals go to @stream of @ring, in segments of @segment_ns, and to
 * @triggers.  -errno with @err. */
int collector_attach(struct collector *c, struct run *run, struct ring *ring, size_t stream,
		     uint64_t segment_ns, struct triggers *triggers, struct error *err);

/* Ends its segment, and frees it. */
void collector_close(struct collector *c);

#endif
