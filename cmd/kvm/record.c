// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/record.h"

#include <errno.h>

#include "core/base/array.h"
#include "output/render.h"

/* More events than any kernel has, and more rows of times than the probe. */
#define EVENTS_MAX 16384

/* ---- columns ---- */

#define KEYED_FIELD(of, key, member, type, role, meaning)                                          \
	{                                                                                          \
		key, NULL, type, role, "", meaning, offsetof(struct of, member), 0, false, NULL    \
	}

#define FIELD(of, member, type, role, meaning) KEYED_FIELD(of, #member, member, type, role, meaning)

static const struct column event_columns[] = {
	FIELD(kvm_event, number, COLUMN_U32, ROLE_LABEL,
	      "the event's; one that is not there is as it was, and has counted nothing"),
	FIELD(kvm_event, name, COLUMN_STR, ROLE_LABEL, "name of the event"),
	KEYED_FIELD(kvm_event, "parent", parent_number, COLUMN_U32, ROLE_LABEL,
		    "number of its parent plus 1; 0: it has none"),
	FIELD(kvm_event, listed, COLUMN_BOOL, ROLE_STATE, "shown though it is 0"),
	FIELD(kvm_event, off, COLUMN_BOOL, ROLE_STATE, "not counted"),
	FIELD(kvm_event, hidden, COLUMN_BOOL, ROLE_STATE, "hidden by the run's -f"),
	FIELD(kvm_event, others_hidden, COLUMN_BOOL, ROLE_STATE, "the same of NAME(other)"),
	FIELD(kvm_event, total, COLUMN_U64, ROLE_GAUGE, "since the start"),
};

static const struct column process_columns[] = {
	FIELD(kvm_count, pid, COLUMN_U32, ROLE_LABEL, "process that has met the event"),
	FIELD(kvm_count, event, COLUMN_U32, ROLE_LABEL, "number of the event"),
	FIELD(kvm_count, total, COLUMN_U64, ROLE_GAUGE,
	      "since the start; rows of one event add up"),
	FIELD(kvm_count, guest, COLUMN_STR, ROLE_LABEL, "name of the guest that the process runs"),
};

static const struct column latency_columns[] = {
	FIELD(latency_row, class, COLUMN_U32, ROLE_LABEL, "table that the reason is of"),
	FIELD(latency_row, reason, COLUMN_U32, ROLE_LABEL, "reason of the exit, as a number"),
	FIELD(latency_row, pid, COLUMN_U32, ROLE_LABEL, "process that runs the guest"),
	FIELD(latency_row, vcpu, COLUMN_U32, ROLE_LABEL,
	      "number of the vCPU; 4294967295: not known"),
	FIELD(latency_row, exits, COLUMN_U64, ROLE_GAUGE, "exits since the start"),
	FIELD(latency_row, times, COLUMN_HIST, ROLE_HISTOGRAM, "their times to the next entry"),
	FIELD(latency_row, name, COLUMN_STR, ROLE_LABEL, "name of the reason"),
	FIELD(latency_row, guest, COLUMN_STR, ROLE_LABEL, "name of the guest"),
};

static const struct schema event_schema = SCHEMA(event_columns, struct kvm_event),
			   latency_schema = SCHEMA(latency_columns, struct latency_row),
			   process_schema = SCHEMA(process_columns, struct kvm_count);

const struct recording_table kvm_recorded_tables[KVM_RECORDED_TABLES] = {
	{ "events", &event_schema },
	{ "latencies", &latency_schema },
	{ "processes", &process_schema },
};

/* ---- recording ---- */

int kvm_name_guests(struct guest_names *names, uint32_t pid, struct kvm_counts *counts,
		    struct latency *latency)
{
	struct latency_row *rows = latency ? latency->rows : NULL;
	const size_t n_rows = latency ? latency->n : 0;
	int r = 0;

	guest_names_next_round(names, pid);
	for (size_t i = 0; !r && i < n_rows; i++)
		if (rows[i].pid)
			r = guest_names_add(names, rows[i].pid, NULL);
	for (size_t i = 0; !r && i < counts->n; i++)
		r = guest_names_add(names, counts->v[i].pid, NULL);
	for (size_t i = 0; i < n_rows; i++)
		rows[i].guest = guest_names_find(names, rows[i].pid);
	for (size_t i = 0; i < counts->n; i++)
		counts->v[i].guest = guest_names_find(names, counts->v[i].pid);
	return r;
}

static int fill_events(struct kvm_record *record, struct kvm_events *e, struct recording_rows *out)
{
	size_t n = 0;

	free(record->events);
	record->events = calloc(e->n + 1, sizeof(*record->events));
	if (!record->events)
		return -ENOMEM;
	for (size_t i = 0; i < e->n; i++) {
		struct kvm_event *from = &e->v[i];

		if (i < record->n_known && from->total == from->recorded)
			continue;
		from->recorded = from->total;
		record->events[n] = *from;
		record->events[n].number = (uint32_t)i;
		record->events[n++].parent_number = (uint32_t)(from->parent + 1);
	}
	record->n_known = e->n;
	*out = (struct recording_rows){ record->events, n };
	return 0;
}

int kvm_record_fill(struct kvm_record *record, struct kvm_events *e,
		    const struct kvm_counts *counts, const struct latency *latency,
		    struct recording_interval *out)
{
	if (latency)
		out->tables[1] = (struct recording_rows){ latency->rows, latency->n };
	out->tables[2] = (struct recording_rows){ counts->v, counts->n };
	return fill_events(record, e, &out->tables[0]);
}

void kvm_record_free(struct kvm_record *record)
{
	free(record->events);
	*record = (struct kvm_record){ 0 };
}

/* ---- replay ---- */

static int no_such_run(const char *what, struct error *err)
{
	return error_set(err, STATUS_FAILED, -EINVAL, "the recording is damaged: %s", what);
}

/* The event that @from is about: there already, or the next one. */
static int take_event(const struct kvm_event *from, struct kvm_events *e, struct error *err)
{
	const char *name = from->name;
	int at;

	if (strlen(name) >= EVENT_NAME_SIZE)
		return no_such_run("the name of an event is too long", err);
	if (from->number > e->n || from->parent_number > from->number || from->number >= EVENTS_MAX)
		return no_such_run("events out of their order", err);
	if (from->number < e->n && strcmp(e->v[from->number].name, name) == 0)
		at = (int)from->number;
	else
		at = events_add(e, name, (int)from->parent_number - 1, from->listed);
	if (at == -ENOMEM)
		return error_no_memory(err);
	if (at != (int)from->number || e->v[at].parent != (int)from->parent_number - 1)
		return no_such_run("events out of their order", err);
	return at;
}

int kvm_replay_events(const struct recording_interval *in, struct kvm_events *e, bool as_filtered,
		      struct error *err)
{
	const struct kvm_event *from = in->tables[0].rows;

	for (size_t i = 0; i < in->tables[0].n; i++, from++) {
		int at = take_event(from, e, err);

		if (at < 0)
			return at;
		e->v[at].listed = from->listed;
		e->v[at].off = from->off;
		e->v[at].total = from->total;
		if (!as_filtered)
			continue;
		e->v[at].hidden = from->hidden;
		e->v[at].others_hidden = from->others_hidden;
	}
	return 0;
}

int kvm_replay_counts(const struct recording_interval *in, const struct kvm_events *e,
		      struct kvm_counts *counts)
{
	const struct kvm_count *from = in->tables[2].rows;

	counts->n = 0;
	for (size_t i = 0; i < in->tables[2].n; i++) {
		if (from[i].event >= e->n || !from[i].total)
			continue;
		if (counts_add(counts, from[i].pid, (int)from[i].event, from[i].total))
			return -ENOMEM;
		counts->v[counts->n - 1].guest = from[i].guest;
	}
	return 0;
}

int kvm_replay_latencies(const struct recording_interval *in, struct kvm_events *e,
			 uint32_t exit_event, struct latency *latency, struct error *err)
{
	size_t n = in->tables[1].n;
	int r;

	if (exit_event >= e->n)
		return no_such_run("times of no event", err);
	if (n > EVENTS_MAX || n < latency->n)
		return no_such_run("reasons too many or too few", err);
	r = latency_load(latency, in->tables[1].rows, n);
	for (size_t i = 0; r >= 0 && i < n; i++)
		if (latency->rows[i].exits)
			r = latency->rows[i].event =
			    events_add_child(e, (int)exit_event, latency->rows[i].name, false);
	if (r < 0)
		return error_no_memory(err);
	return e->n > EVENTS_MAX ? no_such_run("too many events", err) : 0;
}
