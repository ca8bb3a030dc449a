// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/cgroup_find.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/naming/cgroup_names.h"
#include "core/naming/cgroup_tree.h"
#include "core/naming/cgroups.h"
#include "core/naming/containers.h"
#include "core/system/limits.h"

#define SHORTEST_ID 6

/* If two match, the earlier kind wins. */
enum kind { KIND_PATH, KIND_UNIT, KIND_CONTAINER, KIND_POD, KINDS };

struct found {
	struct cgroup_ref refs[CGROUP_REFS];
	size_t n;
	bool is_full;
	char first[CGROUP_NAME_SIZE]; /* path */
	char other[CGROUP_NAME_SIZE]; /* of another cgroup of that name; "": none */
};

struct search {
	const char *name;
	struct containers *containers;
	struct found found[KINDS];
	struct text_close close;
};

static void note_close(struct search *s, const struct text_part *owner, const char *own)
{
	char name[CGROUP_NAME_SIZE];

	cgroup_label(owner, own, name, sizeof(name));
	text_close_add(&s->close, name);
}

static void note_close_part(struct search *s, const struct text_part *owner,
			    const struct text_part *part)
{
	char own[CGROUP_NAME_SIZE];

	cgroup_unescape(part, own, sizeof(own));
	note_close(s, owner, own);
}

/* The part of the name after "OWNER/"; NULL: another owner's. */
static const char *after_owner(const struct search *s, const struct text_part *owner)
{
	const char *slash = strchr(s->name, '/');
	char text[CGROUP_NAME_SIZE];

	if (!owner->at)
		return s->name;
	if (!slash)
		return NULL;
	cgroup_unescape(owner, text, sizeof(text));
	return strlen(text) == (size_t)(slash - s->name) && memcmp(text, s->name, strlen(text)) == 0
		   ? slash + 1
		   : NULL;
}

/* ---- one cgroup ---- */

/* "/" -> 0, "/a/b" -> 2 */
static uint32_t level_of(const char *path)
{
	uint32_t level = 0;

	for (; path[0] && path[1]; path++)
		level += path[0] == '/';
	return level;
}

static void add(struct search *s, enum kind kind, uint64_t id, const char *path)
{
	struct found *found = &s->found[kind];

	if (!found->n)
		snprintf(found->first, sizeof(found->first), "%s", path);
	if (found->n == CGROUP_REFS)
		found->is_full = true;
	else
		found->refs[found->n++] = (struct cgroup_ref){ id, level_of(path) };
}

/* For a name that must be unique. */
static void add_one(struct search *s, enum kind kind, uint64_t id, const char *path)
{
	struct found *found = &s->found[kind];

	if (found->n && !found->other[0])
		snprintf(found->other, sizeof(found->other), "%s", path);
	if (!found->n)
		add(s, kind, id, path);
}

/* Is @part in the last component of @path: does this cgroup itself have the name? */
static bool is_own(const struct text_part *part, const char *path)
{
	return part->at && part->at > strrchr(path, '/');
}

/* Is @wanted the whole of @name, or the part after one of its slashes? */
static bool is_end_of(const char *name, const char *wanted)
{
	size_t len = strlen(name), end = strlen(wanted);

	if (!end || end > len || strcmp(name + len - end, wanted) != 0)
		return false;
	return end == len || name[len - end - 1] == '/';
}

static bool is_digits_of(const char *wanted, const struct text_part *id)
{
	size_t len = strlen(wanted);

	return len >= SHORTEST_ID && len <= id->len && memcmp(wanted, id->at, len) == 0;
}

static void check_container(struct search *s, const struct cgroup_parts *parts, uint64_t id,
			    const char *path)
{
	struct text_part owner = cgroup_owner(parts, CGROUP_PART_CONTAINER);
	const struct text_part *container = &parts->container;
	const char *wanted = after_owner(s, &owner);
	char name[CGROUP_NAME_SIZE];

	if (!parts->has_container_id) {
		if (wanted && cgroup_part_is(container, wanted))
			add_one(s, KIND_CONTAINER, id, path);
		note_close_part(s, &owner, container);
		return;
	}
	if (wanted && is_digits_of(wanted, container)) {
		add_one(s, KIND_CONTAINER, id, path);
		return;
	}
	if (!containers_name(s->containers, container->at, parts->user, name, sizeof(name)))
		return;
	if (wanted && is_end_of(name, wanted))
		add_one(s, KIND_CONTAINER, id, path);
	note_close(s, &owner, name);
}

/* UIDs have dashes, which systemd's slices write as underscores. */
static bool is_uid(const struct text_part *pod, const char *wanted)
{
	if (strlen(wanted) != pod->len)
		return is_digits_of(wanted, pod) && !strpbrk(wanted, "-_");
	for (size_t i = 0; i < pod->len; i++)
		if (wanted[i] != pod->at[i] && !(wanted[i] == '-' && pod->at[i] == '_'))
			return false;
	return true;
}

/* Its first cgroup has been found at @path, which is copied. */
static bool is_same_pod(const struct found *found, const struct text_part *pod)
{
	struct cgroup_parts parts;

	cgroup_parts(found->first, &parts);
	return parts.pod.len == pod->len && memcmp(parts.pod.at, pod->at, pod->len) == 0;
}

/* A pod may have several cgroups, next to each other. */
static void check_pod(struct search *s, const struct cgroup_parts *parts, uint64_t id,
		      const char *path)
{
	struct text_part owner = cgroup_owner(parts, CGROUP_PART_POD);
	const struct text_part *pod = &parts->pod;
	struct found *found = &s->found[KIND_POD];
	const char *wanted = after_owner(s, &owner);
	char name[CGROUP_NAME_SIZE] = "";
	bool named = containers_pod(s->containers, pod->at, pod->len, name, sizeof(name));

	if (named)
		note_close(s, &owner, name);
	if (!wanted || (!is_uid(pod, wanted) && !(named && is_end_of(name, wanted))))
		return;
	if (!found->n || is_same_pod(found, pod))
		add(s, KIND_POD, id, path);
	else
		add_one(s, KIND_POD, id, path);
}

static void check_unit(struct search *s, const struct cgroup_parts *parts, uint64_t id,
		       const char *path)
{
	struct text_part owner = cgroup_owner(parts, CGROUP_PART_UNIT);
	const char *wanted = after_owner(s, &owner);

	if (wanted && cgroup_part_is(&parts->unit, wanted))
		add_one(s, KIND_UNIT, id, path);
	if (!parts->has_container_id)
		note_close_part(s, &owner, &parts->unit);
}

static int check(void *ctx, uint64_t id, const char *path)
{
	struct search *s = ctx;
	struct cgroup_parts parts;

	if (strcmp(path + (s->name[0] != '/'), s->name) == 0)
		add(s, KIND_PATH, id, path);
	if (s->name[0] == '/') {
		text_close_add(&s->close, path);
		return 0;
	}
	cgroup_parts(path, &parts);
	if (is_own(&parts.unit, path))
		check_unit(s, &parts, id, path);
	if (is_own(&parts.container, path))
		check_container(s, &parts, id, path);
	if (is_own(&parts.pod, path))
		check_pod(s, &parts, id, path);
	return 0;
}

/* ---- results ---- */

static int not_there(const struct search *s, struct error *err)
{
	char list[3 * sizeof(struct shown)] = "";
	size_t len = 0;

	error_set(err, STATUS_USAGE, -ENOENT, "no such cgroup, unit, container or pod: '%s'",
		  text_shown(s->name).text);
	for (size_t i = 0; i < TEXT_CLOSE_NAMES && s->close.names[i][0]; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "",
					text_shown(s->close.names[i]).text);
	if (len)
		error_hint(err, "close names: %s", list);
	else
		error_hint(err, "`iotrace top --by cgroup` shows the cgroups that do I/O");
	return -ENOENT;
}

static int not_one(const struct search *s, const struct found *found, struct error *err)
{
	error_set(err, STATUS_USAGE, -EINVAL, "'%s' names several cgroups",
		  text_shown(s->name).text);
	error_hint(err, "%s, %s: give the path", text_shown(found->first).text,
		   text_shown(found->other).text);
	return -EINVAL;
}

static int take(const struct search *s, struct cgroup_ref *out, size_t *n, struct error *err)
{
	const struct found *found = s->found;

	while (found < s->found + KINDS && !found->n)
		found++;
	if (found == s->found + KINDS)
		return not_there(s, err);
	if (found->other[0])
		return not_one(s, found, err);
	if (found->is_full)
		return error_set(err, STATUS_USAGE, -E2BIG, "'%s' has more than %d cgroups",
				 text_shown(s->name).text, CGROUP_REFS);
	memcpy(out, found->refs, sizeof(found->refs));
	*n = found->n;
	return 0;
}

static int search_tree(const struct cgroup_tree *tree, struct search *s, struct cgroup_ref *out,
		       size_t *n, struct error *err)
{
	int r;

	if (!cgroup_tree_is_whole(tree)) {
		if (access("/proc/self/cgroup", F_OK))
			return error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
					 "this kernel has no cgroups");
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "the hierarchy of cgroups is not mounted, or only a part of it");
		error_hint(err, "in a container: run iotrace on the host");
		return -ENOTSUP;
	}
	s->name = cgroup_tree_below(tree, s->name);
	r = cgroup_tree_walk(tree, check, s);
	return r ? r : take(s, out, n, err);
}

/* Without slashes at its end. */
static char *copy_name(const char *name)
{
	size_t len = strlen(name);

	while (len > 1 && name[len - 1] == '/')
		len--;
	return strndup(name, len);
}

int cgroup_find(const char *root, const char *files, const char *name, struct cgroup_ref *out,
		size_t *n, struct error *err)
{
	struct search *s = calloc(1, sizeof(*s));
	struct cgroup_tree *tree = NULL;
	char *copy = copy_name(name);
	int r = s && copy ? 0 : -ENOMEM;

	if (!r) {
		s->name = copy;
		s->close.wanted = s->name;
		r = containers_open(files, &s->containers);
	}
	if (!r)
		r = cgroup_tree_open(root, &tree);
	if (!r)
		r = search_tree(tree, s, out, n, err);
	if (r == -ENOMEM)
		limits_error(r, "look for the cgroup", err);
	cgroup_tree_free(tree);
	if (s)
		containers_free(s->containers);
	free(s);
	free(copy);
	return r;
}
