// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/export/stuck_metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/stuck_row.h"
#include "core/base/array.h"
#include "core/base/text.h"
#include "output/columns.h"

#define PREFIX "iotrace_block_io"

struct state_row {
	const char *disk, *state;
	uint32_t requests;
};

struct age_row {
	const char *disk;
	uint64_t oldest_ns;
};

#define ROW struct state_row
static const struct column state_columns[] = {
	LABEL(disk, NULL, 0, "disk, named as in /proc/diskstats"),
	LABEL(state, NULL, 0, "device, queued or held (by io.max)"),
	GAUGE(requests, NULL, 0, "",
	      "block I/O requests in flight: at the device, queued, or bios held by io.max",
	      .metric = "in_flight"),
};
#undef ROW

#define ROW struct age_row
static const struct column age_columns[] = {
	LABEL(disk, NULL, 0, "disk, named as in /proc/diskstats"),
	GAUGE(oldest_ns, NULL, 0, "ns", "age of the oldest block I/O request in flight",
	      .metric = "oldest"),
};
#undef ROW

struct stuck_metrics {
	struct metrics_source *states, *ages;
	const char **busy; /* disks that were not idle at the last call */
	size_t n_busy;
	struct text_set texts; /* their names */
};

int stuck_metrics_open(struct metrics *m, struct stuck_metrics **out)
{
	const struct schema states = SCHEMA(state_columns, struct state_row),
			    ages = SCHEMA(age_columns, struct age_row);
	struct stuck_metrics *s = calloc(1, sizeof(*s));

	*out = s;
	if (!s || metrics_source(m, PREFIX, &states, NULL, 3, &s->states) ||
	    metrics_source(m, PREFIX, &ages, NULL, 1, &s->ages))
		return -ENOMEM;
	return 0;
}

struct metrics_source *stuck_metrics_source(const struct stuck_metrics *s, size_t i)
{
	return i ? s->ages : s->states;
}

void stuck_metrics_free(struct stuck_metrics *s)
{
	if (!s)
		return;
	text_set_free(&s->texts);
	free(s->busy);
	free(s);
}

static int set(struct stuck_metrics *s, const struct stuck_row *row)
{
	const struct state_row states[] = { { row->disk, "device", row->in_flight },
					    { row->disk, "queued", row->queued },
					    { row->disk, "held", row->held } };
	int r = metrics_add(s->states, states, ARRAY_SIZE(states));

	return r ? r : metrics_add(s->ages, &(struct age_row){ row->disk, row->age_ns }, 1);
}

int stuck_metrics_set(struct stuck_metrics *s, const struct stuck_row *rows, size_t n)
{
	int r = 0;

	for (size_t i = 0; !r && i < s->n_busy; i++)
		r = set(s, &(struct stuck_row){ .disk = s->busy[i] });
	s->n_busy = 0;
	text_set_free(&s->texts);
	for (size_t i = 0; !r && i < n; i++) {
		const char **name;

		if (strcmp(rows[i].kind, STUCK_KIND_DISK) != 0)
			continue;
		name = ARRAY_ADD(s->busy, s->n_busy);
		if (!name)
			return -ENOMEM;
		*name = text_keep(&s->texts, rows[i].disk);
		r = *name ? set(s, &rows[i]) : -ENOMEM;
	}
	return r;
}
