// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/paths.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Limit for each of the two sets. */
#define MAX_MEMORY (2U << 20)

/* A stored pair of stacks. at[]: the kernel's frames, then the user's. */
struct path {
	uint64_t number; /* the key */
	struct stack_id id[2];
	uint32_t depth[2];
	uint64_t at[2 * STACK_DEPTH];
};

static size_t size_of(const struct path *path)
{
	return offsetof(struct path, at) + (path->depth[0] + path->depth[1]) * sizeof(path->at[0]);
}

int stack_paths_keep(struct stack_paths *p, const struct stack_id *kernel,
		     const struct stack_id *user, const struct symbolizer *n)
{
	struct path path = { .number = stack_path(kernel, user), .id = { *kernel, *user } };
	uint32_t used = 0;

	if (intern_find(&p->recent, &path.number, sizeof(path.number)) != INTERN_NONE)
		return 0;
	for (int i = 0; i < 2; i++) {
		const uint64_t *frames = symbolizer_frames(n, &path.id[i]);

		while (frames && path.depth[i] < STACK_DEPTH && frames[path.depth[i]])
			path.at[used++] = frames[path.depth[i]++];
	}
	return intern_keyed(&p->recent, &path, size_of(&path), sizeof(path.number)) == INTERN_NONE
		   ? -ENOMEM
		   : 0;
}

/* In the set of the recent ones; NULL: not there. */
static const struct path *find_recent(const struct stack_paths *p, uint64_t number)
{
	uint32_t at = intern_find(&p->recent, &number, sizeof(number));

	return at == INTERN_NONE ? NULL : intern_key(&p->recent, at);
}

static int use_again(struct stack_paths *p, uint64_t number)
{
	uint32_t at = intern_find(&p->older, &number, sizeof(number));
	const struct path *path;

	if (at == INTERN_NONE)
		return -ENOENT;
	path = intern_key(&p->older, at);
	return intern_keyed(&p->recent, path, size_of(path), sizeof(number)) == INTERN_NONE
		   ? -ENOMEM
		   : 0;
}

int stack_paths_find(struct stack_paths *p, uint64_t path, struct symbolizer *n,
		     const struct stack_id **kernel, const struct stack_id **user)
{
	const struct path *found = find_recent(p, path);
	const uint64_t *at;
	int r = 0;

	if (!found) {
		r = use_again(p, path);
		if (r)
			return r;
		found = find_recent(p, path);
	}
	at = found->at;
	for (int i = 0; !r && i < 2; at += found->depth[i++]) {
		struct stack_frames frames = { { 0 } };

		memcpy(frames.ip, at, found->depth[i] * sizeof(at[0]));
		if (found->depth[i])
			r = symbolizer_take_stack(n, &found->id[i], &frames);
	}
	*kernel = &found->id[0];
	*user = &found->id[1];
	return r;
}

void stack_paths_age(struct stack_paths *p)
{
	if (intern_memory(&p->recent) < MAX_MEMORY)
		return;
	intern_free(&p->older);
	p->older = p->recent;
	p->recent = (struct intern){ 0 };
}

void stack_paths_free(struct stack_paths *p)
{
	intern_free(&p->recent);
	intern_free(&p->older);
}
