/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_TEXT_H
#define IOTRACE_CORE_TEXT_H

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
void text_set_free(struct text_set *set);

#endif
