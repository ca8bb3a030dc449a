/* SPDX-License-Identifier: GPL-2.0-or-later */
/* UTF-8, names made safe to print, strings stored once, similar names. */
#ifndef IOTRACE_CORE_BASE_TEXT_H
#define IOTRACE_CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the well-formed UTF-8 sequence at @text, its code point in @code; 0 for an
 * invalid sequence, and @code unchanged.  At the end of @text the code point is U+0000. */
size_t utf8_decode(const char *text, uint32_t *code);

/*
 * Does @code have no glyph, only an effect: Unicode's general categories Cc, Cf, Zl and Zp?
 * Terminals act on control characters, on overrides of the writing direction (U+202E) and on line
 * separators; with invisible characters two names look like one.
 */
bool unicode_is_control(uint32_t code);

/*
 * User text, made safe for an error message: at most 64 characters, and nothing that could control
 * a terminal (everything but printable ASCII becomes '?').  Used as text_shown(arg).text within one
 * expression.
 */
struct shown {
	char text[65];
};
struct shown text_shown(const char *text);

/* Escapes @mark at the end of @name, since only iotrace may put it there: "x-wb" becomes
 * "x\\x2dwb".  Returns @buf, at most @size bytes with the NUL. */
char *text_unmarked(const char *name, const char *mark, char *buf, size_t size);

/* A set of strings that live until text_set_free(), each stored once. { NULL } is an empty set. */
struct text_set {
	void *root;
};

/* The stored copy of @text; NULL: out of memory. */
const char *text_keep(struct text_set *set, const char *text);
/* The same if it is stored already; NULL: it is not. */
const char *text_find(const struct text_set *set, const char *text);
/* Bytes of memory in use, approximately. */
size_t text_set_memory(const struct text_set *set);
void text_set_free(struct text_set *set);

/* Names that there are, for the message that another one is not: each once, as it is shown; { 0 }
 * is empty. */
#define TEXT_SEEN 32
struct text_seen {
	struct shown list[TEXT_SEEN];
	size_t n;
};

/* "" is no name; beyond TEXT_SEEN names none is added. */
void text_seen_add(struct text_seen *seen, const char *name);

/* "a, b": the first six; if there are more, ", ..." follows.  "": none.  Returns @buf. */
#define TEXT_SEEN_TOLD 6
#define TEXT_SEEN_SIZE (TEXT_SEEN_TOLD * (sizeof(struct shown) + 2) + 8)
char *text_seen_told(const struct text_seen *seen, char buf[TEXT_SEEN_SIZE]);

/* Of the names that were added, the ones closest to @wanted, closest first. */
#define TEXT_CLOSE_NAMES     3
#define TEXT_CLOSE_SIZE	     512
#define TEXT_DISTANCE_LENGTH 64 /* number of compared characters */
struct text_close {
	const char *wanted;
	char names[TEXT_CLOSE_NAMES][TEXT_CLOSE_SIZE]; /* "": end of the list */
	/* The edit distance to @wanted: letters changed, added, left out or swapped with the next
	 * one, ignoring case; 0 if the name contains @wanted. */
	unsigned int how_far[TEXT_CLOSE_NAMES];
};

/* Considers @name if the distance is at most one letter in three. *close begins as { wanted }. */
void text_close_add(struct text_close *close, const char *name);

#endif
