/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The report as text, or as a web page. */
#ifndef IOTRACE_CMD_REPORT_PAGE_H
#define IOTRACE_CMD_REPORT_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/isolation/outfile.h"

struct page {
	const char *path; /* of the web page; NULL: text on standard output */
	struct outfile file;
	FILE *stream;
	bool in_text; /* private: of page_text() */
};

/* Opens @path (NULL: standard output), and writes the beginning.  @by: "recorded by ...".  -errno
 * with @err; page_close() in any case. */
int page_open(struct page *page, const char *path, const char *by, const char *dir,
	      uint64_t start_ns, uint64_t end_ns, int32_t utc_offset, struct error *err);

void page_heading(struct page *page, const char *heading);
/* Lines of text, as they are, below the lines of the call before; of page_lines() at most @most,
 * unless it is a web page. */
void page_text(struct page *page, const char *text);
void page_lines(struct page *page, char *text, size_t most);
/* How to get the same again. */
void page_command(struct page *page, const char *subcommand, const char *dir, const char *from,
		  const char *to, const char *const *more);
/* Lines of standard error: losses and notes; "" has none. */
void page_messages(struct page *page, const char *errors);
/* A picture that iotrace made; not in text. */
void page_svg(struct page *page, const char *svg);

/* The end: the file gets its name.  -errno with @err. */
int page_end(struct page *page, struct error *err);
void page_close(struct page *page);

#endif
