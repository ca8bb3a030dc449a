/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_TEXT_H
#define IOTRACE_CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the well-formed UTF-8 sequence at @text, its code point in @code; 0, and @code
 * left alone, where there is none.  At the end of @text that is U+0000. */
size_t utf8_decode(const char *text, uint32_t *code);

/*
 * Has @code nothing to show, only an effect: Unicode's general categories Cc, Cf, Zl and Zp?
 * Terminals act on control characters, on overrides of the writing direction (U+202E) and on line
 * separators; with invisible ones two names look like one.
 */
bool unicode_is_control(uint32_t code);

/*
 * Text that the user gave, made fit for an error message: at most 64
 * characters, and nothing that could drive a terminal (what is not printable
 * ASCII becomes '?').  Used as text_shown(arg).text within one expression.
 */
struct shown {
	char text[65];
};
struct shown text_shown(const char *text);

/* @name without @mark at its end, which only iotrace may put there: "x-wb" is "x\\x2dwb" then.
 * Returns @buf, at most @size bytes with the NUL. */
char *text_unmarked(const char *name, const char *mark, char *buf, size_t size);

/* A set of strings that live until text_set_free(), each stored once.
 * { NULL } is an empty set. */
struct text_set {
	void *root;
};

/* The stored copy of @text; NULL when there is no memory. */
const char *text_keep(struct text_set *set, const char *text);
/* Bytes of memory in use, about. */
size_t text_set_memory(const struct text_set *set);
void text_set_free(struct text_set *set);

/* The names that are closest to @wanted, the closest first, of those that were added. */
#define TEXT_CLOSE_NAMES     3
#define TEXT_CLOSE_SIZE	     512
#define TEXT_DISTANCE_LENGTH 64 /* characters that are compared */
struct text_close {
	const char *wanted;
	char names[TEXT_CLOSE_NAMES][TEXT_CLOSE_SIZE]; /* "": no more */
	/* How many letters of @wanted are changed, added, left out or swapped with the next one to
	 * make the name, upper or lower case; 0 where the name holds @wanted. */
	unsigned int how_far[TEXT_CLOSE_NAMES];
};

/* Takes @name if that is at most one letter in three.  *close begins as { wanted }. */
void text_close_add(struct text_close *close, const char *name);

#endif
