/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_FUZZ_SHOWN_H
#define IOTRACE_TEST_FUZZ_SHOWN_H

/* What may be in an output, whatever the names in it: else the fuzzer aborts.  Nothing of output/
 * is used to find out.  shown_on_terminal: that is where it goes. */

#include <ctype.h>
#include <stdbool.h>
#include <unistd.h>

#include "fuzz.h"

enum shown_form {
	SHOWN_TEXT,   /* lines of bounded length */
	SHOWN_FREE,   /* lines of many names */
	SHOWN_FOLDED, /* names between ';', and a number at the end of each line */
	SHOWN_JSON,   /* a value a line */
	SHOWN_TRACE,  /* one value */
	SHOWN_CSV,    /* records of as many fields each */
	SHOWN_SVG,    /* well-formed XML */
};

/* Bytes: a name has at most 512 characters, which are at most 4 bytes each, and "...". */
#define SHOWN_NAME 2080
#define SHOWN_LINE (5 * SHOWN_NAME)
#define SHOWN_DATA (2 * 4096 + 8) /* characters of a string in JSON, bytes / 2 of CSV */

static bool shown_on_terminal;

static inline void shown_fail(const char *what, const char *text, size_t at)
{
	fprintf(stderr, "output: %s at byte %zu of:\n%s\n", what, at, text);
	abort();
}

/* The length of the character at @s, and the character; 0: not UTF-8. */
static inline size_t shown_character(const unsigned char *s, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = s[0] < 0x80	     ? 1
		     : (s[0] & 0xe0) == 0xc0 ? 2
		     : (s[0] & 0xf0) == 0xe0 ? 3
		     : (s[0] & 0xf8) == 0xf0 ? 4
					     : 0;

	*code = len == 1 ? s[0] : len ? s[0] & (0x7fU >> len) : 0;
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	if (len && (*code < least[len] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)))
		return 0;
	return len;
}

/* Does a terminal or its reader take it for something else than a character? */
static inline bool shown_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
	       (c >= 0xe0000 && c <= 0xe007f);
}

/* Is a character kept out of @form?  Files of JSON and CSV have names as they are. */
static inline bool shown_is_refused(enum shown_form form, uint32_t c)
{
	if (c == '\n' || (form == SHOWN_SVG && c == '\t'))
		return false;
	if (shown_on_terminal || (form != SHOWN_JSON && form != SHOWN_TRACE && form != SHOWN_CSV))
		return shown_is_control(c);
	return form != SHOWN_CSV && c < 0x20;
}

static inline void shown_check_characters(enum shown_form form, const char *text, size_t size)
{
	size_t at = 0, line = 0, len;
	uint32_t code;

	for (; at < size; at += len) {
		len = shown_character((const unsigned char *)text + at, &code);
		if (!len)
			shown_fail("not UTF-8", text, at);
		if (shown_is_refused(form, code))
			shown_fail("a control character", text, at);
		if (code == '\n')
			line = at + 1;
		if (form == SHOWN_TEXT && at > line + SHOWN_LINE)
			shown_fail("a long line", text, at);
	}
	if (size && text[size - 1] != '\n')
		shown_fail("no end of the line", text, size);
}

static inline void shown_check_folded(const char *text)
{
	unsigned char before = 0;
	size_t name = 0, at = 0;

	for (; text[at]; at++) {
		if (text[at] == ';' || text[at] == '\n')
			name = at + 1;
		if (text[at] == '\n' && !isdigit(before))
			shown_fail("no number", text, at);
		if (at > name + SHOWN_NAME + 32)
			shown_fail("a long name", text, at);
		before = (unsigned char)text[at];
	}
}

/* ---- JSON ---- */

static inline const char *shown_json_string(const char *all, const char *s)
{
	size_t units = 0;

	if (*s++ != '"')
		shown_fail("no string", all, (size_t)(s - all));
	while (*s != '"') {
		units += ((unsigned char)*s & 0xc0) != 0x80; /* begins a character */
		if (!*s || units > SHOWN_DATA)
			shown_fail("no end of a string", all, (size_t)(s - all));
		if (*s != '\\') {
			s++;
		} else if (s[1] == 'u' && strspn(s + 2, "0123456789abcdefABCDEF") >= 4) {
			s += 6;
		} else if (s[1] && strchr("\"\\/bfnrt", s[1])) {
			s += 2;
		} else {
			shown_fail("an escape that is none", all, (size_t)(s - all));
		}
	}
	return s + 1;
}

static inline const char *shown_json_value(const char *all, const char *s, int depth)
{
	size_t len;
	char *end;

	if (depth > 16)
		shown_fail("too deep", all, (size_t)(s - all));
	if (*s == '"')
		return shown_json_string(all, s);
	if (*s == '{' || *s == '[') {
		const char close = *s == '{' ? '}' : ']';

		if (s[1] == close)
			return s + 2;
		do {
			s++;
			if (close == '}') {
				s = shown_json_string(all, s);
				if (*s++ != ':')
					shown_fail("no colon", all, (size_t)(s - all));
			}
			s = shown_json_value(all, s, depth + 1);
		} while (*s == ',');
		if (*s != close)
			shown_fail("no end of a list", all, (size_t)(s - all));
		return s + 1;
	}
	for (len = 4; len < 6; len++)
		if (strncmp(s, len == 4 ? "true" : "false", len) == 0)
			return s + len;
	strtod(s, &end);
	if (end == s || !isdigit((unsigned char)end[-1]))
		shown_fail("no value", all, (size_t)(s - all));
	return end;
}

static inline void shown_check_json(const char *text)
{
	for (const char *s = text; *s; s++) {
		s = shown_json_value(text, s, 0);
		if (*s != '\n')
			shown_fail("no end of a value", text, (size_t)(s - text));
	}
}

/* ---- CSV ---- */

static inline void shown_check_csv(const char *text)
{
	size_t fields = 1, first = 0;

	for (const char *s = text; *s; s++) {
		if (*s == '"') {
			for (s++; *s && (*s != '"' || s[1] == '"'); s += *s == '"' ? 2 : 1)
				;
			if (*s++ != '"')
				shown_fail("no end of a field", text, (size_t)(s - text));
		} else {
			s += strcspn(s, ",\n\"");
		}
		if (*s != ',' && *s != '\n')
			shown_fail("a quote within a field", text, (size_t)(s - text));
		if (*s == ',') {
			fields++;
			continue;
		}
		if (first && fields != first)
			shown_fail("another number of fields", text, (size_t)(s - text));
		first = fields;
		fields = 1;
	}
}

/* ---- XML ---- */

static inline const char *shown_xml_text(const char *all, const char *s)
{
	static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };
	const char *from = s;
	size_t i;

	for (; *s && *s != '<'; s++) {
		if (*s == '>')
			shown_fail("a bare '>'", all, (size_t)(s - all));
		if (strncmp(s, "\xef\xbf\xbe", 3) == 0 || strncmp(s, "\xef\xbf\xbf", 3) == 0)
			shown_fail("no character of XML", all, (size_t)(s - all));
		for (i = 0; *s == '&' && i < 5; i++)
			if (strncmp(s, entities[i], strlen(entities[i])) == 0)
				break;
		if (*s == '&' && i == 5)
			shown_fail("a bare '&'", all, (size_t)(s - all));
	}
	if (s - from > 2 * SHOWN_NAME)
		shown_fail("a long name", all, (size_t)(from - all));
	return s;
}

/* Returns the position after the end of an element's tag. */
static inline const char *shown_xml_attributes(const char *all, const char *s)
{
	while (*s == ' ') {
		s += 1 + strspn(s + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:-");
		if (s[0] != '=' || s[1] != '"')
			shown_fail("no attribute", all, (size_t)(s - all));
		s += 2 + strcspn(s + 2, "\"<&");
		if (*s++ != '"')
			shown_fail("no end of an attribute", all, (size_t)(s - all));
	}
	return s;
}

static inline const char *shown_xml_element(const char *all, const char *s, int depth)
{
	const char *name = s + 1;
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz");

	if (*s != '<' || !len || depth > 8)
		shown_fail("no element", all, (size_t)(s - all));
	s = shown_xml_attributes(all, name + len);
	if (strncmp(s, "/>", 2) == 0)
		return s + 2;
	if (*s++ != '>')
		shown_fail("no end of a tag", all, (size_t)(s - all));
	for (;;) {
		if (len == 5 && strncmp(name, "style", 5) == 0)
			s += strcspn(s, "<");
		else
			s = shown_xml_text(all, s);
		if (strncmp(s, "<![CDATA[", 9) == 0 && strstr(s, "]]>"))
			s = strstr(s, "]]>") + 3;
		else if (s[0] == '<' && s[1] == '/')
			break;
		else
			s = shown_xml_element(all, s, depth + 1);
	}
	if (strncmp(s + 2, name, len) != 0 || s[2 + len] != '>')
		shown_fail("another end tag", all, (size_t)(s - all));
	return s + 3 + len;
}

static inline void shown_check_svg(const char *text)
{
	const char *s = strchr(text, '\n');

	if (strncmp(text, "<?xml ", 6) != 0 || !s)
		shown_fail("no XML", text, 0);
	s = shown_xml_element(text, s + 1, 0);
	if (strcmp(s, "\n") != 0)
		shown_fail("something behind the end", text, (size_t)(s - text));
}

/* One value of JSON, on several lines. */
static inline void shown_check_trace(const char *text, size_t size)
{
	char *line = strdup(text), *to = line;

	if (!line)
		abort();
	for (size_t i = 0; i < size; i++)
		if (text[i] != '\n' || i + 1 == size)
			*to++ = text[i];
	*to = 0;
	shown_check_json(line);
	free(line);
}

/* An output that is whole. */
static inline void shown_check(enum shown_form form, const char *text, size_t size)
{
	if (strlen(text) != size)
		shown_fail("a NUL", text, strlen(text));
	shown_check_characters(form, text, size);
	if (form == SHOWN_FOLDED)
		shown_check_folded(text);
	else if (form == SHOWN_JSON)
		shown_check_json(text);
	else if (form == SHOWN_TRACE)
		shown_check_trace(text, size);
	else if (form == SHOWN_CSV)
		shown_check_csv(text);
	else if (form == SHOWN_SVG)
		shown_check_svg(text);
}

/* ---- a stream ---- */

struct shown_output {
	FILE *stream;
	char *text;
	size_t size;
};

static inline FILE *shown_begin(struct shown_output *out)
{
	out->stream = open_memstream(&out->text, &out->size);
	if (!out->stream)
		abort();
	return out->stream;
}

/* Checks the text that was written to it. */
static inline void shown_end(struct shown_output *out, enum shown_form form)
{
	if (fclose(out->stream))
		abort();
	shown_check(form, out->text, out->size);
	free(out->text);
}

#endif
