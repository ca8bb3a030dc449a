// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/outfile.h"
#include "output/render.h"

int report_error(const struct error *err)
{
	if (err->hint[0])
		fprintf(stderr, "iotrace: %s (%s)\n", err->what, err->hint);
	else
		fprintf(stderr, "iotrace: %s\n", err->what);
	return err->status;
}

static const char *output_path; /* NULL: standard output */

void report_output_is(const char *path)
{
	output_path = path;
}

int report_output(int code)
{
	struct error err;

	if (code == -EPIPE)
		return STATUS_OK;
	if (output_path)
		outfile_error(output_path, code, &err);
	else
		error_set(&err, STATUS_FAILED, code, "cannot write to standard output: %s",
			  strerror(-code));
	return report_error(&err);
}

int report_stdout(void)
{
	int r = render_flush(stdout);

	return r ? report_output(r) : STATUS_OK;
}

void report_verbose(const char *line)
{
	fprintf(stderr, "iotrace: %s\n", line);
}
