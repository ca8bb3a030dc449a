/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reasons why a file of symbols was not fully read. */
#ifndef IOTRACE_CORE_SYMBOLS_UNREAD_H
#define IOTRACE_CORE_SYMBOLS_UNREAD_H

/* Why a file of symbols was not read, or not fully. */
enum unread {
	UNREAD_NOTHING,
	/* found by the helper process (core/symbols/symbol_server.h) */
	UNREAD_DAMAGED,	  /* or there is no memory for one of its parts */
	UNREAD_PACKED,	  /* it cannot be unpacked within MAX_UNPACKED bytes */
	UNREAD_DEBUGDATA, /* .gnu_debugdata has more than MAX_DEBUGDATA bytes */
	UNREAD_CHECKSUM,  /* the debug file has more than MAX_CHECKED bytes */
	UNREAD_NAMES,	  /* of a name, or of all names together */
	UNREAD_MAP,	  /* more than MAX_PERF_MAP */
	UNREAD_LINE,	  /* of a perf map */
	UNREAD_MEMORY,
	UNREAD_BY_SERVER, /* all of its reasons are below this */
	/* found by its client (core/symbols/symbol_client.h) */
	UNREAD_CPU = UNREAD_BY_SERVER,
	UNREAD_WALL,
	UNREAD_NO_TIME, /* while the deadline was near */
	UNREAD_DIED,
	UNREAD_LIED,
	UNREAD_NO_HELPER,
	UNREAD_REASONS,
};

/* The first reason stays. */
static inline void unread_because(enum unread *unread, enum unread why)
{
	if (*unread == UNREAD_NOTHING)
		*unread = why;
}

#endif
