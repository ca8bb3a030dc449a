// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/libbpf_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

static libbpf_log_line *log_line;

__attribute__((format(printf, 2, 0))) static int on_libbpf_log(enum libbpf_print_level level,
							       const char *fmt, va_list args)
{
	char *text, *line, *rest;

	/* The verifier's log comes as one message of many lines. */
	if (level == LIBBPF_DEBUG || !log_line || vasprintf(&text, fmt, args) < 0)
		return 0;
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_line(line);
	free(text);
	return 0;
}

libbpf_log_line *libbpf_log(libbpf_log_line *verbose)
{
	libbpf_log_line *before = log_line;

	log_line = verbose;
	libbpf_set_print(on_libbpf_log);
	return before;
}
