// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/record.h"

#include <errno.h>

#include "core/base/array.h"
#include "output/render.h"

/* More events than any kernel has; a table of them is gone through for each. */
#define EVENTS_MAX 16384

struct kvm_recorded_event {
	uint32_t number;
	const char *name;
	uint32_t parent; /* number of its parent, from 1 on; 0: none */
	bool listed, off, hidden, others_hidden;
	uint64_t total;
};

struct kvm_recorded_process {
	uint32_t pid, event;
	uint64_t total;
	const char *guest;
};

struct kvm_recorded_latency {
	uint32_t class, reason, pid, vcpu;
	uint64_t exits;
	const struct hist *times;
	const char *name, *guest;
};

/* ---- columns ---- */

#define FIELD(of, member, type, role, meaning)                                                     \
	{                                                                                          \
#member, NULL, type, role, "", meaning,                                            \
		    offsetof(struct kvm_recorded_##of, member), 0, false, NULL                     \
	}

static const struct column event_columns[] = {
	FIELD(event, number, COLUMN_U32, ROLE_LABEL,
	      "the event's; one that is not there is as it was, and has counted nothing"),
	FIELD(event, name, COLUMN_STR, ROLE_LABEL, "name of the event"),
	FIELD(event, parent, COLUMN_U32, ROLE_LABEL, "number of its parent plus 1; 0: it has none"),
	FIELD(event, listed, COLUMN_BOOL, ROLE_STATE, "shown though it is 0"),
	FIELD(event, off, COLUMN_BOOL, ROLE_STATE, "not counted"),
	FIELD(event, hidden, COLUMN_BOOL, ROLE_STATE, "hidden by the run's -f"),
	FIELD(event, others_hidden, COLUMN_BOOL, ROLE_STATE, "the same of NAME(other)"),
	FIELD(event, total, COLUMN_U64, ROLE_GAUGE, "since the start"),
};

static const struct column process_columns[] = {
	FIELD(process, pid, COLUMN_U32, ROLE_LABEL, "process that has met the event"),
	FIELD(process, event, COLUMN_U32, ROLE_LABEL, "number of the event"),
	FIELD(process, total, COLUMN_U64, ROLE_GAUGE, "since the start; rows of one event add up"),
	FIELD(process, guest, COLUMN_STR, ROLE_LABEL, "name of the guest that the process runs"),
};

static const struct column latency_columns[] = {
	FIELD(latency, class, COLUMN_U32, ROLE_LABEL, "table that the reason is of"),
	FIELD(latency, reason, COLUMN_U32, ROLE_LABEL, "reason of the exit, as a number"),
	FIELD(latency, pid, COLUMN_U32, ROLE_LABEL, "process that runs the guest"),
	FIELD(latency, vcpu, COLUMN_U32, ROLE_LABEL, "number of the vCPU; 4294967295: not known"),
	FIELD(latency, exits, COLUMN_U64, ROLE_GAUGE, "exits since the start"),
	FIELD(latency, times, COLUMN_HIST, ROLE_HISTOGRAM, "their times to the next entry"),
	FIELD(latency, name, COLUMN_STR, ROLE_LABEL, "name of the reason"),
	FIELD(latency, guest, COLUMN_STR, ROLE_LABEL, "name of the guest"),
};

#define N(array) (sizeof(array) / sizeof((array)[0]))
static const struct schema event_schema = { event_columns, N(event_columns),
					    sizeof(struct kvm_recorded_event) };
static const struct schema process_schema = { process_columns, N(process_columns),
					      sizeof(struct kvm_recorded_process) };
static const struct schema latency_schema = { latency_columns, N(latency_columns),
					      sizeof(struct kvm_recorded_latency) };

const struct recording_table kvm_recorded_tables[KVM_RECORDED_TABLES] = {
	{ "events", &event_schema },
	{ "latencies", &latency_schema },
	{ "processes", &process_schema },
};

/* ---- recording ---- */

void kvm_record_begin(struct kvm_record *record)
{
	free(record->events);
	free(record->processes);
	free(record->latencies);
	free(record->hists);
	text_set_free(&record->texts);
	*record = (struct kvm_record){ .totals = record->totals, .n_known = record->n_known };
}

int kvm_record_process(struct kvm_record *record, struct kvm_rows *rows, uint32_t pid, int event,
		       uint64_t total)
{
	struct kvm_recorded_process *made;
	const char *guest;

	if (!total)
		return 0;
	if (guest_names_add(&rows->guests, pid, NULL))
		return -ENOMEM;
	guest = text_keep(&record->texts, guest_names_find(&rows->guests, pid));
	if (!guest)
		return -ENOMEM;
	made = ARRAY_ADD(record->processes, record->n_processes);
	if (!made)
		return -ENOMEM;
	*made = (struct kvm_recorded_process){ pid, (uint32_t)event, total, guest };
	return 0;
}

static int fill_events(struct kvm_record *record, const struct kvm_events *e)
{
	uint64_t *totals = reallocarray(record->totals, e->n + 1, sizeof(*totals));

	if (!totals)
		return -ENOMEM;
	record->totals = totals;
	record->events = calloc(e->n + 1, sizeof(*record->events));
	if (!record->events)
		return -ENOMEM;
	for (size_t i = 0; i < e->n; i++) {
		const struct kvm_event *from = &e->v[i];

		if (i < record->n_known && from->total == totals[i])
			continue;
		totals[i] = from->total;
		record->events[record->n_events++] = (struct kvm_recorded_event){
			.number = (uint32_t)i,
			.name = from->name,
			.parent = (uint32_t)(from->parent + 1),
			.listed = from->listed,
			.off = from->off,
			.hidden = from->hidden,
			.others_hidden = from->others_hidden,
			.total = from->total,
		};
	}
	record->n_known = e->n;
	return 0;
}

/* For @n latencies. */
static int make_room(struct kvm_record *record, size_t n)
{
	record->latencies = calloc(n + 1, sizeof(*record->latencies));
	record->hists = calloc(n + 1, sizeof(*record->hists));
	return record->latencies && record->hists ? 0 : -ENOMEM;
}

/* Adds a copy of @from; its histogram is all zero, to be filled: NULL without memory. */
static struct hist *add_latency(struct kvm_record *record, const struct kvm_recorded_latency *from)
{
	struct kvm_recorded_latency *to = &record->latencies[record->n_latencies];
	struct hist *h = &record->hists[record->n_latencies++];

	*to = *from;
	to->name = text_keep(&record->texts, from->name);
	to->guest = text_keep(&record->texts, from->guest);
	to->times = h;
	return to->name && to->guest ? h : NULL;
}

static int fill_latency(struct kvm_record *record, const struct latency_entry *from,
			const char *name, const char *guest)
{
	struct hist *h = add_latency(record, &(struct kvm_recorded_latency){
						 .class = from->key.class,
						 .reason = from->key.reason,
						 .pid = from->key.tgid,
						 .vcpu = from->key.vcpu,
						 .exits = from->now.exits,
						 .name = name,
						 .guest = guest,
					     });

	if (!h)
		return -ENOMEM;
	h->total = from->now.total_ns;
	h->max = from->now.max_ns;
	for (size_t i = 0; i < HIST_FINE_SLOTS; i++) {
		h->fine[i] = from->now.fine[i];
		h->count += h->fine[i];
	}
	return 0;
}

static int fill_latencies(struct kvm_record *record, struct kvm_events *e, int exit_event,
			  const struct latency *latency, const struct kvm_rows *rows,
			  const struct kvm_namer *namer)
{
	char reason[REASON_NAME_SIZE];
	size_t n = latency->n;
	int r = 0;

	if (make_room(record, n))
		return -ENOMEM;
	for (size_t i = 0; !r && i < n; i++) {
		const struct latency_entry *from = &latency->entries[i];

		*reason = 0;
		/* Of its event is recorded whether it is hidden. */
		if (from->key.tgid)
			r = kvm_event_of_reason(e, exit_event, namer, from->key.class,
						from->key.reason, reason);
		if (r >= 0)
			r = fill_latency(record, from, reason,
					 guest_names_find(&rows->guests, from->key.tgid));
	}
	return r;
}

static void set_tables(const struct kvm_record *record, struct recording_interval *out)
{
	out->tables[0] = (struct recording_rows){ record->events, record->n_events };
	out->tables[1] = (struct recording_rows){ record->latencies, record->n_latencies };
	out->tables[2] = (struct recording_rows){ record->processes, record->n_processes };
}

int kvm_record_fill(struct kvm_record *record, struct kvm_events *e, const struct latency *latency,
		    const struct kvm_rows *rows, int exit_event, const struct kvm_namer *namer,
		    struct recording_interval *out)
{
	int r = 0;

	if (latency)
		r = fill_latencies(record, e, exit_event, latency, rows, namer);
	if (!r)
		r = fill_events(record, e);
	set_tables(record, out);
	return r;
}

/* ---- intervals of a replay ---- */

static int keep_latency(struct kvm_record *record, const struct kvm_recorded_latency *from)
{
	struct hist *h = add_latency(record, from);

	if (h && from->times)
		*h = *from->times;
	return h ? 0 : -ENOMEM;
}

static int keep_process(struct kvm_record *record, const struct kvm_recorded_process *from)
{
	struct kvm_recorded_process *to = &record->processes[record->n_processes++];

	*to = *from;
	to->guest = text_keep(&record->texts, from->guest);
	return to->guest ? 0 : -ENOMEM;
}

int kvm_record_keep(struct kvm_record *record, const struct recording_interval *in,
		    const struct kvm_events *e, struct recording_interval *out)
{
	const struct kvm_recorded_latency *latencies = in->tables[1].rows;
	const struct kvm_recorded_process *processes = in->tables[2].rows;
	int r = fill_events(record, e);

	record->processes = calloc(in->tables[2].n + 1, sizeof(*record->processes));
	if (!record->processes || make_room(record, in->tables[1].n))
		return -ENOMEM;
	for (size_t i = 0; !r && i < in->tables[1].n; i++)
		r = keep_latency(record, &latencies[i]);
	for (size_t i = 0; !r && i < in->tables[2].n; i++)
		r = keep_process(record, &processes[i]);
	*out = (struct recording_interval){
		.interval = { in->interval.start_ns, in->interval.end_ns, NULL, 0 },
		.utc_offset = in->utc_offset,
		.text = "",
	};
	set_tables(record, out);
	return r;
}

size_t kvm_record_size(const struct kvm_record *record)
{
	return record->n_events * (sizeof(*record->events) + sizeof(*record->totals)) +
	       record->n_processes * sizeof(*record->processes) +
	       record->n_latencies * (sizeof(*record->latencies) + sizeof(*record->hists));
}

void kvm_record_free(struct kvm_record *record)
{
	kvm_record_begin(record);
	free(record->totals);
	*record = (struct kvm_record){ 0 };
}

/* ---- replay ---- */

static int no_such_run(const char *what, struct error *err)
{
	return error_set(err, STATUS_FAILED, -EINVAL, "the recording is damaged: %s", what);
}

/* The event that @from is about: there already, or the next one. */
static int take_event(const struct kvm_recorded_event *from, struct kvm_events *e,
		      struct error *err)
{
	const char *name = from->name;
	int at;

	if (strlen(name) >= EVENT_NAME_SIZE)
		return no_such_run("the name of an event is too long", err);
	if (from->number > e->n || from->parent > from->number || from->number >= EVENTS_MAX)
		return no_such_run("events out of their order", err);
	if (from->number < e->n && strcmp(e->v[from->number].name, name) == 0)
		at = (int)from->number;
	else
		at = events_add(e, name, (int)from->parent - 1, from->listed);
	if (at == -ENOMEM)
		return error_no_memory(err);
	if (at != (int)from->number || e->v[at].parent != (int)from->parent - 1)
		return no_such_run("events out of their order", err);
	return at;
}

int kvm_replay_events(const struct recording_interval *in, struct kvm_events *e, bool as_filtered,
		      struct error *err)
{
	const struct kvm_recorded_event *from = in->tables[0].rows;

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

uint32_t kvm_replay_guest(const struct recording_interval *in, const char *guest)
{
	const struct kvm_recorded_process *from = in->tables[2].rows;

	for (size_t i = 0; i < in->tables[2].n; i++)
		if (strcmp(from[i].guest, guest) == 0)
			return from[i].pid;
	return 0;
}

int kvm_replay_each_guest(const struct recording_interval *in, const struct kvm_events *e,
			  kvm_count_of *each, void *ctx)
{
	const struct kvm_recorded_process *from = in->tables[2].rows;
	int r = 0;

	for (size_t i = 0; !r && i < in->tables[2].n; i++)
		if (from[i].event < e->n)
			r = each(ctx, from[i].pid, (int)from[i].event, from[i].total);
	return r;
}

const char *kvm_replay_guest_name(const struct recording_interval *in, uint32_t pid)
{
	const struct kvm_recorded_process *from = in->tables[2].rows;

	for (size_t i = 0; i < in->tables[2].n; i++)
		if (from[i].pid == pid)
			return from[i].guest;
	return "";
}

void kvm_replay_process(const struct recording_interval *in, struct kvm_events *e, uint32_t pid,
			const char *guest)
{
	const struct kvm_recorded_process *from = in->tables[2].rows;

	for (size_t i = 0; i < e->n; i++)
		e->v[i].total = 0;
	for (size_t i = 0; i < in->tables[2].n; i++)
		if ((from[i].pid == pid ||
		     (guest && *guest && strcmp(from[i].guest, guest) == 0)) &&
		    from[i].event < e->n)
			e->v[from[i].event].total += from[i].total;
}

static void latency_row(const struct kvm_recorded_latency *from, struct kvm_latency_row *to)
{
	*to = (struct kvm_latency_row){
		.key = { from->class, from->reason, from->pid, from->vcpu },
		.latency.exits = from->exits,
	};
	if (!from->times)
		return;
	to->latency.total_ns = from->times->total;
	to->latency.max_ns = from->times->max;
	for (size_t i = 0; i < HIST_FINE_SLOTS; i++)
		to->latency.fine[i] = from->times->fine[i];
}

int kvm_replay_latencies(const struct recording_interval *in, struct latency *latency,
			 struct kvm_rows *rows, struct kvm_replay *replay, struct error *err)
{
	const struct kvm_recorded_latency *from = in->tables[1].rows;
	size_t n = in->tables[1].n;
	struct kvm_latency_row *made;
	int r = 0;

	*replay = (struct kvm_replay){ from, n };
	if (n > EVENTS_MAX || n < latency->n)
		return no_such_run("reasons too many or too few", err);
	rows->guests.n = 0; /* each interval names all of its own */
	made = calloc(n + 1, sizeof(*made));
	if (!made)
		return error_no_memory(err);
	for (size_t i = 0; !r && i < n; i++) {
		latency_row(&from[i], &made[i]);
		r = guest_names_add(&rows->guests, from[i].pid, from[i].guest);
	}
	if (!r)
		r = latency_read(latency, made, n, KVM_BANKS, NULL);
	free(made);
	return r ? error_no_memory(err) : 0;
}

char *kvm_replay_name(const void *ctx, uint32_t class, uint32_t reason, char name[REASON_NAME_SIZE])
{
	const struct kvm_replay *replay = ctx;

	for (size_t i = 0; i < replay->n; i++)
		if (replay->latencies[i].class == class && replay->latencies[i].reason == reason) {
			snprintf(name, REASON_NAME_SIZE, "%s", replay->latencies[i].name);
			return name;
		}
	snprintf(name, REASON_NAME_SIZE, "0x%x", reason);
	return name;
}
