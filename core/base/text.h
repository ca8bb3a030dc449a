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

/* How many letters of @wanted are changed, added, left out or swapped with the next one to make
 * @name, upper or lower case; of the first TEXT_DISTANCE_LENGTH characters.  0 where @name holds
 * @wanted; TEXT_NOT_CLOSE where it is more than one letter in three. */
#define TEXT_DISTANCE_LENGTH 64
#define TEXT_NOT_CLOSE	     1000
unsigned int text_distance(const char *wanted, const char *name);

#endif
