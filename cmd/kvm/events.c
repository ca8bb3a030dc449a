// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/events.h"

#include <errno.h>

#include "cmd/kvm/filter.h"
#include "core/base/array.h"

int events_find(const struct kvm_events *e, const char *name)
{
	uint32_t at = intern_find(&e->names, name, strlen(name) + 1);

	return at == INTERN_NONE ? -ENOENT : (int)at;
}

static void hide(struct kvm_event *event, const regex_t *filter)
{
	char others[EVENT_NAME_SIZE];

	snprintf(others, sizeof(others), "%s(other)", event->name);
	event->hidden = !kvm_filter_matches(filter, event->name);
	event->others_hidden = !kvm_filter_matches(filter, others);
}

void events_set_filter(struct kvm_events *e, const regex_t *filter)
{
	e->filter = filter;
	for (size_t i = 0; i < e->n; i++)
		hide(&e->v[i], filter);
}

int events_add(struct kvm_events *e, const char *name, int parent, bool listed)
{
	char theirs[EVENT_NAME_SIZE];
	struct kvm_event *more;
	char *copy;
	int found;

	if (e->kvm_stat_names)
		name = kvm_stat_name(name, theirs);
	found = events_find(e, name);
	if (found >= 0) {
		e->v[found].listed = e->v[found].listed || listed;
		return found;
	}
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	more = ARRAY_ADD(e->v, e->n);
	if (!more || intern_text(&e->names, name) == INTERN_NONE) {
		e->n -= more != NULL;
		free(copy);
		return -ENOMEM;
	}
	*more = (struct kvm_event){ .name = copy, .parent = parent, .listed = listed };
	hide(more, e->filter);
	return (int)e->n - 1;
}

int events_add_child(struct kvm_events *e, int parent, const char *reason, bool listed)
{
	char name[EVENT_NAME_SIZE];

	snprintf(name, sizeof(name), "%s(%s)", e->v[parent].name, reason);
	return events_add(e, name, parent, listed);
}

uint64_t events_delta(const struct kvm_event *event)
{
	return event->total > event->before ? event->total - event->before : 0;
}

void events_set_baseline(struct kvm_events *e)
{
	for (size_t i = 0; i < e->n; i++)
		e->v[i].before = e->v[i].total;
}

/* ---- by process ---- */

int counts_add(struct kvm_counts *c, uint32_t pid, int event, uint64_t total)
{
	struct kvm_count *count;

	if (!total)
		return 0;
	count = ARRAY_ADD(c->v, c->n);
	if (!count)
		return -ENOMEM;
	*count = (struct kvm_count){ pid, (uint32_t)event, total, "" };
	return 0;
}

const char *counts_guest(const struct kvm_counts *c, uint32_t pid)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].pid == pid)
			return c->v[i].guest;
	return "";
}

uint32_t counts_process(const struct kvm_counts *c, const char *guest)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].guest, guest) == 0)
			return c->v[i].pid;
	return 0;
}

bool count_is_of(const struct kvm_count *count, uint32_t pid, const char *guest)
{
	return count->pid == pid || (guest && *guest && strcmp(count->guest, guest) == 0);
}

void events_select(struct kvm_events *e, const struct kvm_counts *c, uint32_t pid,
		   const char *guest)
{
	for (size_t i = 0; i < e->n; i++)
		e->v[i].total = 0;
	for (size_t i = 0; i < c->n; i++)
		if (count_is_of(&c->v[i], pid, guest))
			e->v[c->v[i].event].total += c->v[i].total;
}

void events_free(struct kvm_events *e)
{
	for (size_t i = 0; i < e->n; i++)
		free(e->v[i].name);
	free(e->v);
	intern_free(&e->names);
	*e = (struct kvm_events){ 0 };
}
