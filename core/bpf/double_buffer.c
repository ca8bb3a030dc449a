// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/double_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/base/clock.h"
#include "core/bpf/grace.h"
#include "core/system/limits.h"

struct double_buffer {
	uint32_t *epoch;
	bool preempted; /* the kernel may preempt programs */
	int outer;	/* a map of maps that no program uses: see double_buffer_wait() */
	int inner;
};

int double_buffer_open(uint32_t *epoch, bool preempted, struct double_buffer **out,
		       struct error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts);
	struct double_buffer *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	f->epoch = epoch;
	f->preempted = preempted;
	f->outer = -1;
	f->inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "buffer_inner", 4, 4, 1, NULL);
	if (f->inner < 0)
		goto fail;
	opts.inner_map_fd = (uint32_t)f->inner;
	f->outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "buffer_outer", 4, 4, 1, &opts);
	if (f->outer < 0)
		goto fail;
	*out = f;
	return 0;
fail:
	r = -errno;
	double_buffer_close(f);
	if (limits_is_shortage(r))
		return limits_error(r, "make a BPF map", err);
	return error_set(err, STATUS_UNSUPPORTED, r, "cannot make a BPF map: %s", strerror(-r));
}

void double_buffer_close(struct double_buffer *f)
{
	if (!f)
		return;
	if (f->outer >= 0)
		close(f->outer);
	if (f->inner >= 0)
		close(f->inner);
	free(f);
}

void double_buffer_preempted(struct double_buffer *f)
{
	f->preempted = true;
}

/*
 * An update of a map of maps returns only after all running BPF programs have ended
 * (maybe_wait_bpf_programs(): synchronize_rcu(), 4.20), so that no program still uses the old inner
 * map.  Which map is updated does not matter.
 */
int double_buffer_wait(struct double_buffer *f)
{
	uint32_t zero = 0;

	if ((!f->preempted || sysconf(_SC_NPROCESSORS_ONLN) > 1) && grace_wait_rcu())
		return 0;
	if (bpf_map_update_elem(f->outer, &zero, &f->inner, BPF_ANY))
		return -errno;
	return 0;
}

int double_buffer_swap(struct double_buffer *f, uint64_t *end_ns)
{
	uint32_t old = *f->epoch;
	int r;

	__atomic_store_n(f->epoch, old + 1, __ATOMIC_SEQ_CST);
	if (end_ns)
		*end_ns = clock_mono_ns();
	r = double_buffer_wait(f);
	return r ? r : (int)(old & 1);
}

struct batch {
	void *keys, *values;
	uint32_t size; /* capacity in entries */
	size_t key_size, value_size;
};

static int batch_grow(struct batch *b, uint32_t size)
{
	void *keys = realloc(b->keys, size * b->key_size), *values;

	if (!keys)
		return -ENOMEM;
	b->keys = keys;
	values = realloc(b->values, size * b->value_size);
	if (!values)
		return -ENOMEM;
	b->values = values;
	b->size = size;
	return 0;
}

/* One batch call.  Returns the number of entries, or -errno; *end when it was the last. */
static int batch_take(int fd, struct batch *b, const uint32_t *in, uint32_t *next, bool *end)
{
	for (;;) {
		uint32_t n = b->size;
		int r = bpf_map_lookup_and_delete_batch(fd, (void *)(uintptr_t)in, next, b->keys,
							b->values, &n, NULL);

		if (!r || errno == ENOENT) {
			*end = r != 0;
			return (int)n;
		}
		/* A bucket larger than the batch: nothing was removed. */
		if (errno != ENOSPC)
			return -errno;
		r = batch_grow(b, b->size * 2);
		if (r)
			return r;
	}
}

int double_buffer_drain_hash(int fd, uint32_t key_size, uint32_t value_size,
			     int (*each)(void *ctx, const void *key, const void *value), void *ctx)
{
	struct batch b = { .key_size = key_size, .value_size = value_size };
	uint32_t position = 0, next = 0;
	bool first = true, end = false;
	int r = batch_grow(&b, 256);

	while (!r && !end) {
		int n = batch_take(fd, &b, first ? NULL : &position, &next, &end);

		if (n < 0)
			r = n;
		for (int i = 0; !r && i < n; i++)
			r = each(ctx, (char *)b.keys + (size_t)i * key_size,
				 (char *)b.values + (size_t)i * value_size);
		position = next;
		first = false;
	}
	free(b.keys);
	free(b.values);
	return r;
}
