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

static void free_event(struct kvm_event *event)
{
	free(event->name);
	free(event->path);
}

/* NULL without memory. */
static char *path_of(const struct kvm_events *e, int parent, const char *name)
{
	const char *above = parent < 0 ? "" : e->v[parent].name, *reason = name + strlen(above);
	const bool in_parentheses = *above && strncmp(name, above, strlen(above)) == 0 &&
				    *reason == '(' && reason[strlen(reason) - 1] == ')';
	char *path;
	int len = in_parentheses
		      ? asprintf(&path, "/%s/%.*s", above, (int)strlen(reason) - 2, reason + 1)
		      : asprintf(&path, "/%s%s%s", above, *above ? "/" : "", name);

	return len < 0 ? NULL : path;
}

int events_add(struct kvm_events *e, const char *name, int parent, bool listed)
{
	struct kvm_event event = { .parent = parent, .listed = listed }, *more = NULL;
	char theirs[EVENT_NAME_SIZE];
	int found;

	if (e->kvm_stat_names)
		name = kvm_stat_name(name, theirs);
	found = events_find(e, name);
	if (found >= 0) {
		e->v[found].listed = e->v[found].listed || listed;
		return found;
	}
	event.name = strdup(name);
	event.path = event.name ? path_of(e, parent, name) : NULL;
	if (event.path)
		more = ARRAY_ADD(e->v, e->n);
	if (!more || intern_text(&e->names, name) == INTERN_NONE) {
		e->n -= more != NULL;
		free_event(&event);
		return -ENOMEM;
	}
	*more = event;
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

int counts_add(struct kvm_counts *c, uint32_t pid, size_t event, uint64_t count)
{
	struct kvm_count *added;

	if (!count)
		return 0;
	added = ARRAY_ADD(c->v, c->n);
	if (!added)
		return -ENOMEM;
	*added = (struct kvm_count){ pid, (uint32_t)event, count };
	return 0;
}

void events_free(struct kvm_events *e)
{
	for (size_t i = 0; i < e->n; i++)
		free_event(&e->v[i]);
	free(e->v);
	intern_free(&e->names);
	*e = (struct kvm_events){ 0 };
}
