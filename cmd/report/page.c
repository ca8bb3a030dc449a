// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/report/page.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"

static const char style[] =
    "body{font:15px/1.45 system-ui,sans-serif;max-width:76em;margin:1.5em auto;padding:0 1em;"
    "color:#1b1b1b;background:#fff}"
    "h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.15em;margin:1.6em 0 .3em}"
    "pre{font:13px/1.35 ui-monospace,monospace;overflow-x:auto;background:#f4f5f7;padding:.7em .9em;"
    "border-radius:4px;margin:.3em 0}"
    "code{font:12px ui-monospace,monospace;color:#555}.note{color:#8a4b00}"
    "svg{max-width:100%;height:auto}@media print{pre{white-space:pre-wrap;background:none}}";

static void put_character(struct page *page, const char *text, size_t len)
{
	if (page->path && *text == '&')
		fputs("&amp;", page->stream);
	else if (page->path && *text == '<')
		fputs("&lt;", page->stream);
	else if (page->path && *text == '>')
		fputs("&gt;", page->stream);
	else
		fwrite(text, 1, len, page->stream);
}

/* Names of CSV may have control characters: bytes as "\\xNN". */
static void put_bytes(struct page *page, const char *text, size_t n)
{
	const char *end = text + n;
	uint32_t code;
	size_t len;

	for (; text < end; text += len) {
		len = utf8_decode(text, &code);
		if (*text == '\n' || (len && !unicode_is_control(code))) {
			put_character(page, text, len);
			continue;
		}
		fprintf(page->stream, "\\x%02x", (unsigned char)*text);
		len = 1;
	}
}

static void put(struct page *page, const char *text)
{
	put_bytes(page, text, strlen(text));
}

/* Only in a web page. */
static void tag(struct page *page, const char *text)
{
	if (!page->path)
		return;
	if (page->in_text)
		fputs("</pre>\n", page->stream);
	page->in_text = false;
	fputs(text, page->stream);
}

int page_open(struct page *page, const char *path, const char *by, const char *dir,
	      uint64_t start_ns, uint64_t end_ns, int32_t utc_offset, struct error *err)
{
	char from[CLOCK_TEXT_SIZE], to[CLOCK_TEXT_SIZE];
	int r;

	page->path = path;
	page->stream = stdout;
	if (path) {
		r = outfile_open(&page->file, path, 0666, err);
		if (r)
			return r;
		page->stream = page->file.stream;
	}
	tag(page, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		  "<meta name=\"viewport\" content=\"width=device-width\"><title>");
	tag(page, "I/O report</title><style>");
	tag(page, style);
	tag(page, "</style></head><body>\n<h1>");
	put(page, "I/O from ");
	put(page, clock_date(start_ns, utc_offset, from));
	put(page, " to ");
	put(page, clock_date(end_ns, utc_offset, to));
	tag(page, "</h1>\n<code>");
	put(page, path ? "" : "\n");
	put(page, by);
	put(page, ", in ");
	put(page, dir);
	put(page, path ? "" : "\n");
	tag(page, "</code>\n");
	return 0;
}

void page_heading(struct page *page, const char *heading)
{
	tag(page, "<h2>");
	put(page, page->path ? "" : "\n");
	put(page, heading);
	put(page, page->path ? "" : "\n");
	tag(page, "</h2>\n");
}

void page_text(struct page *page, const char *text)
{
	if (!page->in_text)
		tag(page, "<pre>");
	page->in_text = true;
	put(page, text);
}

void page_lines(struct page *page, char *text, size_t most)
{
	size_t more = 0;
	char *end = text;

	while (most-- && *end)
		end += strcspn(end, "\n") + (strchr(end, '\n') != NULL);
	for (const char *at = end; (at = strchr(at, '\n')); at++)
		more++;
	if (page->path || !more) {
		page_text(page, text);
		return;
	}
	*end = 0;
	page_text(page, text);
	fprintf(page->stream, "(and %zu lines)\n", more);
}

static void put_word(struct page *page, const char *word)
{
	const char *quote = strpbrk(word, " '\"\\$`*?[~#!{;&|<>()") ? "'" : "";

	put(page, " ");
	put(page, quote);
	for (const char *at; *quote && (at = strchr(word, '\'')); word = at + 1) {
		put_bytes(page, word, (size_t)(at - word));
		put(page, "'\\''");
	}
	put(page, word);
	put(page, quote);
}

void page_command(struct page *page, const char *subcommand, const char *dir, const char *from,
		  const char *to, const char *const *more)
{
	tag(page, "<code>");
	put(page, "iotrace");
	put_word(page, subcommand);
	put(page, " --replay");
	put_word(page, dir);
	if (*from) {
		put(page, " --begin");
		put_word(page, from);
	}
	if (*to) {
		put(page, " --end");
		put_word(page, to);
	}
	while (*more)
		put_word(page, *more++);
	put(page, page->path ? "" : "\n");
	tag(page, "</code>\n");
}

void page_messages(struct page *page, const char *errors)
{
	if (!*errors)
		return;
	tag(page, "<pre class=\"note\">");
	put(page, errors);
	tag(page, "</pre>\n");
}

void page_svg(struct page *page, const char *svg)
{
	const char *begin = strstr(svg, "<svg");

	if (begin)
		tag(page, begin);
}

int page_end(struct page *page, struct error *err)
{
	tag(page, "</body></html>\n");
	return page->path ? outfile_commit(&page->file, err) : 0;
}

void page_close(struct page *page)
{
	outfile_discard(&page->file, false);
}
