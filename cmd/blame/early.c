// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/blame/early.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/block/in_flight.h"
#include "cmd/block/stuck_row.h"
#include "core/base/array.h"
#include "core/base/clock.h"

/* ---- the first walk ---- */

static const char *keep(struct early *e, const char *text)
{
	return text_keep(&e->texts, text);
}

static void find(void *ctx, const struct stuck_row *row)
{
	const uint64_t now = clock_mono_ns();
	struct early *e = ctx;
	struct early_request *r;
	/* Without a time of its own: the device has had it for at least this long. */
	const uint64_t age = row->age_ns ? row->age_ns : row->device_ns;
	char comm[PROCESS_NAME_SIZE];

	if (strcmp(row->kind, STUCK_KIND_REQUEST) != 0 || age >= now || now - age >= e->begin_ns ||
	    e->n == EARLY_MOST)
		return;
	r = ARRAY_ADD(e->requests, e->n);
	if (!r)
		return;
	process_names_escape(row->comm, comm);
	*r = (struct early_request){
		.labels = { .disk = keep(e, row->disk),
			    .comm = keep(e, row->pid ? comm : KEYS_UNKNOWN),
			    .cgroup = keep(e, row->cgroup),
			    .unit = keep(e, row->unit),
			    .container = keep(e, row->container),
			    .user = KEYS_UNKNOWN,
			    .pid = row->pid },
		.op = keep(e, row->op),
		.since_ns = now - age,
		.sector = row->sector,
		.bytes = row->bytes,
		.tag = row->tag,
		.in_flight = true,
		.at_device = row->device_ns != 0,
	};
	if (!r->labels.disk || !r->labels.comm || !r->labels.cgroup || !r->labels.unit ||
	    !r->labels.container || !r->op)
		e->n--; /* without memory: like one whose owner is not known */
}

void early_begin(struct early *e, struct tool_run *t, uint64_t begin_ns)
{
	e->begin_ns = begin_ns;
	in_flight_each(t, find, e);
	if (!e->n)
		in_flight_unwatch(t);
	e->looking = e->n;
}

/* ---- later ones ---- */

struct look {
	struct early *e;
	bool *found;
};

static void mark(void *ctx, const struct stuck_row *row)
{
	const struct look *look = ctx;
	const struct early *e = look->e;

	if (strcmp(row->kind, STUCK_KIND_REQUEST) != 0)
		return;
	for (size_t i = 0; i < e->n; i++) {
		struct early_request *r = &e->requests[i];

		if (r->taken || r->tag != row->tag || r->sector != row->sector ||
		    strcmp(r->labels.disk, row->disk) != 0)
			continue;
		look->found[i] = true;
		r->at_device = row->device_ns != 0;
	}
}

void early_look(struct early *e, struct tool_run *t)
{
	struct look look = { e, e->looking ? calloc(e->n, sizeof(bool)) : NULL };
	size_t left = 0;

	if (!look.found)
		return;
	if (!in_flight_each(t, mark, &look))
		memset(look.found, 0, e->n * sizeof(bool));
	for (size_t i = 0; i < e->n; i++) {
		e->requests[i].in_flight = look.found[i] && !e->requests[i].taken;
		left += e->requests[i].in_flight;
	}
	free(look.found);
	e->looking = left;
	if (!left)
		in_flight_unwatch(t);
}

const struct early_request *early_take(struct early *e, const char *disk, const char *op,
				       uint64_t bytes, const uint64_t *sector)
{
	for (size_t i = 0; i < e->n; i++) {
		struct early_request *r = &e->requests[i];

		if (r->taken || r->bytes != bytes || (sector && r->sector != *sector) ||
		    strcmp(r->op, op) != 0 || strcmp(r->labels.disk, disk) != 0)
			continue;
		r->taken = true;
		r->in_flight = false;
		return r;
	}
	return NULL;
}

void early_free(struct early *e)
{
	free(e->requests);
	text_set_free(&e->texts);
}
