/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The messages between the helper process and its client. */
#ifndef IOTRACE_CORE_SYMBOLS_SYMBOL_WIRE_H
#define IOTRACE_CORE_SYMBOLS_SYMBOL_WIRE_H

#include <stdint.h>

#include "core/symbols/elf_symbols.h"
#include "core/symbols/elf_unwind.h"

/*
 * What symbol_client and symbol_server say to each other over a SOCK_SEQPACKET socket; each message
 * is one packet and begins with its type.
 *
 *   server  READY                      the sandbox is entered
 *   client  ELF or PERF_MAP, with the file; then PLACES until there are as many as it said
 *   server  QUERY                      any number of times: a debug file is wanted
 *   client  FILE, with it, or without
 *   server  NAMES                      until each place has been answered once
 *   server  DONE
 *
 *   client  UNWIND, with the file
 *   server  RULES and ROWS             until all are sent; neither, where there is no table
 *   server  DONE
 *
 * The client trusts nothing that the server says: the server has parsed hostile files.
 */
enum wire_type {
	WIRE_READY = 1,
	WIRE_ELF,
	WIRE_PERF_MAP,
	WIRE_PLACES,
	WIRE_QUERY,
	WIRE_FILE,
	WIRE_NAMES,
	WIRE_DONE,
	WIRE_UNWIND,
	WIRE_RULES,
	WIRE_ROWS,
};

#define WIRE_MESSAGE	65536U	    /* bytes */
#define WIRE_MAX_PLACES (1U << 20)  /* of a request */
#define WIRE_ALL_NAMES	(16U << 20) /* bytes of the names of a request */

struct wire_request { /* ELF, PERF_MAP, UNWIND */
	uint32_t type;
	uint32_t n_places;
	uint32_t n_roots;   /* ELF: of debug_query */
	struct build_id id; /* ELF: see elf_symbols() */
};

#define WIRE_PLACES_EACH 4096U

struct wire_places {
	uint32_t type;
	uint32_t n;
	uint64_t at[WIRE_PLACES_EACH]; /* n of them are sent */
};

struct wire_query {
	uint32_t type;
	struct debug_query query;
};

/* Messages with one number: READY, DONE, FILE */
struct wire_status {
	uint32_t type;
	int32_t status;	 /* 0 or -errno */
	uint32_t unread; /* DONE: enum unread, as far as the server may set it */
};

struct wire_names {
	uint32_t type;
	uint32_t n; /* records, which follow each other without a gap */
};

/* Parts of a struct unwind_table, in order. */
#define WIRE_RULES_EACH 4000U
#define WIRE_ROWS_EACH	8000U

struct wire_rules {
	uint32_t type;
	uint32_t n;
	struct unwind_rule rules[WIRE_RULES_EACH]; /* n of them are sent */
};

struct wire_rows {
	uint32_t type;
	uint32_t n;
	uint64_t rows[WIRE_ROWS_EACH]; /* n of them are sent */
};

#define WIRE_NO_NAME   UINT32_MAX
#define WIRE_SAME_NAME (UINT32_MAX - 1) /* like the last record of the request that had one */

/* One record, followed by the name. */
struct wire_name {
	uint64_t address; /* ELF: in the file's own numbering */
	uint32_t place;	  /* its number in the request */
	uint32_t size;	  /* length of the name, without a 0 at its end; or one of these */
};

_Static_assert(sizeof(struct wire_names) + sizeof(struct wire_name) + MAX_SYMBOL_NAME <=
		   WIRE_MESSAGE,
	       "the longest name fits into a message");
_Static_assert(sizeof(struct wire_places) <= WIRE_MESSAGE, "so do places");
_Static_assert(sizeof(struct wire_rules) <= WIRE_MESSAGE, "and rules");
_Static_assert(sizeof(struct wire_rows) <= WIRE_MESSAGE, "and rows");

#endif
