// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/record.h"

#include <errno.h>

#include "cmd/kvm/filter.h"
#include "output/render.h"

/* More events than any kernel has; a table of them is gone through for each. */
#define EVENTS_MAX 16384

#define EVENT_NAME_SIZE 192

struct kvm_recorded_event {
	uint32_t number;
	const char *name;
	uint32_t parent; /* number of its parent, from 1 on; 0: none */
	bool listed, off, hidden, others_hidden;
	uint64_t total, before;
};

struct kvm_recorded_latency {
	uint32_t class, reason, pid, vcpu;
	uint64_t exits;
	const struct hist *times;
	const char *name, *guest;
};

/* ---- columns ---- */

#define EVENT(member, type, role, meaning)                                                         \
	{                                                                                          \
#member, NULL, type, role, "", meaning,                                            \
		    offsetof(struct kvm_recorded_event, member), 0, false, NULL                    \
	}
#define LATENCY(member, type, role, meaning)                                                       \
	{                                                                                          \
#member, NULL, type, role, "", meaning,                                            \
		    offsetof(struct kvm_recorded_latency, member), 0, false, NULL                  \
	}

static const struct column event_columns[] = {
	EVENT(number, COLUMN_U32, ROLE_LABEL,
	      "the event's; one that is not there is as it was, and has counted nothing"),
	EVENT(name, COLUMN_STR, ROLE_LABEL, "name of the event"),
	EVENT(parent, COLUMN_U32, ROLE_LABEL, "number of its parent plus 1; 0: it has none"),
	EVENT(listed, COLUMN_BOOL, ROLE_STATE, "shown though it is 0"),
	EVENT(off, COLUMN_BOOL, ROLE_STATE, "not counted"),
	EVENT(hidden, COLUMN_BOOL, ROLE_STATE, "kept from view by the filter of the run"),
	EVENT(others_hidden, COLUMN_BOOL, ROLE_STATE, "the same of NAME(other)"),
	EVENT(total, COLUMN_U64, ROLE_GAUGE, "since the start"),
	EVENT(before, COLUMN_U64, ROLE_GAUGE, "the same at the end of the interval before"),
};

static const struct column latency_columns[] = {
	LATENCY(class, COLUMN_U32, ROLE_LABEL, "table that the reason is of"),
	LATENCY(reason, COLUMN_U32, ROLE_LABEL, "reason of the exit, as a number"),
	LATENCY(pid, COLUMN_U32, ROLE_LABEL, "process that runs the guest"),
	LATENCY(vcpu, COLUMN_U32, ROLE_LABEL, "number of the vCPU; 4294967295: not known"),
	LATENCY(exits, COLUMN_U64, ROLE_GAUGE, "exits since the start"),
	LATENCY(times, COLUMN_HIST, ROLE_HISTOGRAM, "their times to the next entry"),
	LATENCY(name, COLUMN_STR, ROLE_LABEL, "name of the reason"),
	LATENCY(guest, COLUMN_STR, ROLE_LABEL, "name of the guest"),
};

#define N(array) (sizeof(array) / sizeof((array)[0]))
static const struct schema event_schema = { event_columns, N(event_columns),
					    sizeof(struct kvm_recorded_event) };
static const struct schema latency_schema = { latency_columns, N(latency_columns),
					      sizeof(struct kvm_recorded_latency) };

const struct recording_table kvm_recorded_tables[KVM_RECORDED_TABLES] = {
	{ "events", &event_schema },
	{ "latencies", &latency_schema },
};

/* ---- recording ---- */

static void forget_interval(struct kvm_record *record)
{
	free(record->events);
	free(record->latencies);
	free(record->hists);
	text_set_free(&record->texts);
	record->events = NULL;
	record->latencies = NULL;
	record->hists = NULL;
	record->n_events = record->n_latencies = 0;
}

/* Notes what is recorded of event @number.  Is it anything new? */
static bool is_new(struct kvm_record *record, const struct kvm_recorded_event *event)
{
	unsigned char flags = (unsigned char)(event->listed | event->off << 1 | event->hidden << 2 |
					      event->others_hidden << 3 | 1 << 4);
	bool changed = record->flags[event->number] != flags;

	record->flags[event->number] = flags;
	return changed;
}

static int more_flags(struct kvm_record *record, size_t n)
{
	unsigned char *more;

	if (n <= record->n_flags)
		return 0;
	more = realloc(record->flags, n);
	if (!more)
		return -ENOMEM;
	memset(more + record->n_flags, 0, n - record->n_flags);
	record->flags = more;
	record->n_flags = n;
	return 0;
}

static int fill_events(struct kvm_record *record, const struct kvm_events *e, const regex_t *filter)
{
	char others[EVENT_NAME_SIZE];

	record->events = calloc(e->n + 1, sizeof(*record->events));
	if (!record->events || more_flags(record, e->n))
		return -ENOMEM;
	for (size_t i = 0; i < e->n; i++) {
		const struct kvm_event *from = &e->v[i];
		struct kvm_recorded_event *to = &record->events[record->n_events];

		snprintf(others, sizeof(others), "%s(other)", from->name);
		*to = (struct kvm_recorded_event){
			.number = (uint32_t)i,
			.name = from->name,
			.parent = (uint32_t)(from->parent + 1),
			.listed = from->listed,
			.off = from->off,
			.hidden = from->hidden || !kvm_filter_matches(filter, from->name),
			.others_hidden = from->others_hidden || !kvm_filter_matches(filter, others),
			.total = from->total,
			.before = from->before,
		};
		if (is_new(record, to) || to->total != to->before)
			record->n_events++;
	}
	return 0;
}

static int fill_latency(struct kvm_record *record, const struct kvm_latency_row *from,
			const char *name, const char *guest)
{
	struct kvm_recorded_latency *to = &record->latencies[record->n_latencies];
	struct hist *h = &record->hists[record->n_latencies++];

	h->total = from->latency.total_ns;
	h->max = from->latency.max_ns;
	for (size_t i = 0; i < HIST_FINE_SLOTS; i++) {
		h->fine[i] = from->latency.fine[i];
		h->count += h->fine[i];
	}
	*to = (struct kvm_recorded_latency){
		.class = from->key.class,
		.reason = from->key.reason,
		.pid = from->key.tgid,
		.vcpu = from->key.vcpu,
		.exits = from->latency.exits,
		.times = h,
		.name = text_keep(&record->texts, name),
		.guest = text_keep(&record->texts, guest),
	};
	return to->name && to->guest ? 0 : -ENOMEM;
}

static int fill_latencies(struct kvm_record *record, const struct latency *latency,
			  const struct kvm_rows *rows, const char *exit_name, const regex_t *filter,
			  const struct kvm_namer *namer)
{
	char reason[REASON_NAME_SIZE], text[EVENT_NAME_SIZE];
	struct kvm_latency_row row;
	size_t n = latency_entries(latency);
	int r = 0;

	record->latencies = calloc(n + 1, sizeof(*record->latencies));
	record->hists = calloc(n + 1, sizeof(*record->hists));
	if (!record->latencies || !record->hists)
		return -ENOMEM;
	for (size_t i = 0; !r && i < n; i++) {
		latency_entry(latency, i, &row);
		namer->name(namer->ctx, row.key.class, row.key.reason, reason);
		snprintf(text, sizeof(text), "%s(%s)", exit_name, reason);
		if (kvm_filter_matches(filter, text))
			r = fill_latency(record, &row, reason, kvm_rows_guest(rows, row.key.tgid));
	}
	return r;
}

int kvm_record_fill(struct kvm_record *record, const struct kvm_events *e, const regex_t *filter,
		    const struct latency *latency, const struct kvm_rows *rows, int exit_event,
		    const struct kvm_namer *namer, struct recording_interval *out)
{
	int r;

	forget_interval(record);
	r = fill_events(record, e, filter);
	if (!r && latency)
		r = fill_latencies(record, latency, rows, e->v[exit_event].name, filter, namer);
	out->tables[0] = (struct recording_rows){ record->events, record->n_events };
	out->tables[1] = (struct recording_rows){ record->latencies, record->n_latencies };
	return r;
}

void kvm_record_free(struct kvm_record *record)
{
	forget_interval(record);
	free(record->flags);
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
		return error_set(err, STATUS_FAILED, at, "out of memory");
	if (at != (int)from->number || e->v[at].parent != (int)from->parent - 1)
		return no_such_run("events out of their order", err);
	return at;
}

int kvm_replay_events(const struct recording_interval *in, struct kvm_events *e, struct error *err)
{
	const struct kvm_recorded_event *from = in->tables[0].rows;

	events_settle(e);
	for (size_t i = 0; i < in->tables[0].n; i++, from++) {
		int at = take_event(from, e, err);

		if (at < 0)
			return at;
		e->v[at].listed = from->listed;
		e->v[at].off = from->off;
		e->v[at].hidden = from->hidden;
		e->v[at].others_hidden = from->others_hidden;
		e->v[at].total = from->total;
		e->v[at].before = from->before;
	}
	return 0;
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
	if (n > EVENTS_MAX || n < latency_entries(latency))
		return no_such_run("reasons too many or too few", err);
	rows->n_guests = 0; /* each interval names all of its own */
	made = calloc(n + 1, sizeof(*made));
	if (!made)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	for (size_t i = 0; !r && i < n; i++) {
		latency_row(&from[i], &made[i]);
		r = kvm_rows_name_guest(rows, from[i].pid, from[i].guest);
	}
	if (!r)
		r = latency_read(latency, made, n, NULL);
	free(made);
	return r ? error_set(err, STATUS_FAILED, r, "out of memory") : 0;
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
