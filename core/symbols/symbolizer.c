// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/symbolizer.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/symbols/perf_map.h"

/* Limit of stored stacks and frames with names. */
#define MAX_CACHED 65536

/* Bytes of a batch; stacks beyond are lost. */
#define MAX_QUEUED (8U << 20)

enum cache_kind { CACHED_KERNEL, CACHED_USER, CACHED_FRAME, CACHED_OWNER };

struct cache_key {
	uint64_t a, b; /* a stack's name; or a file's number, or 0, and the offset in it */
	/* for a user stack, a process's user, and a frame outside of files: start time of the
	 * process */
	uint64_t since;
	uint32_t pid; /* of these three */
	uint32_t kind;
};

/* The location of a user frame. */
struct queued_frame {
	struct cache_key key;
	/* for a frame outside of files: */
	uint64_t start;	   /* start of its mapping; 0: unknown */
	uint64_t start_ns; /* of process @pid */
	uint32_t pid;
	uid_t owner; /* of the process */
};

static bool is_in_file(const struct queued_frame *frame)
{
	return frame->key.a;
}

/* Why a stack ends where it does; from ROOT_STOPS on enum unwind_stop. */
enum stack_root { ROOT_WHOLE, ROOT_CUT, ROOT_LOST, ROOT_STOPS };

struct queued_stack {
	struct cache_key key;
	uint32_t depth;
	uint32_t root;		  /* enum stack_root */
	uint64_t at[STACK_DEPTH]; /* @depth; the kernel's: addresses; a user's: numbers of frames */
};

/* ---- the cache ---- */

struct cached {
	struct cache_key key;
	uint32_t id; /* a node, a name, or a user */
	uint32_t pad;
};

static bool cache_get(const struct symbolizer *n, const struct cache_key *key, uint32_t *id)
{
	uint32_t number = intern_find(&n->cache, key, sizeof(*key));

	if (number == INTERN_NONE)
		return false;
	*id = ((const struct cached *)intern_key(&n->cache, number))->id;
	return true;
}

static int cache_put(struct symbolizer *n, const struct cache_key *key, uint32_t id)
{
	const struct cached made = { .key = *key };
	uint32_t number = intern_keyed(&n->cache, &made, sizeof(made), sizeof(*key));

	if (number == INTERN_NONE || id == INTERN_NONE)
		return -ENOMEM;
	*(uint32_t *)intern_value(&n->cache, number) = id;
	return 0;
}

static void free_batch(struct symbolizer_batch *batch)
{
	intern_free(&batch->stacks);
	intern_free(&batch->frames);
}

void symbolizer_begin_batch(struct symbolizer *n)
{
	n->now = n->next;
	n->next = (struct symbolizer_batch){ 0 };
	n->is_resolving = true;
}

void symbolizer_forget(struct symbolizer *n)
{
	if (n->rebuilt != n->tree->rebuilt || n->cache.n > MAX_CACHED)
		intern_free(&n->cache);
	n->rebuilt = n->tree->rebuilt;
}

void symbolizer_end_batch(struct symbolizer *n)
{
	free_batch(&n->now);
	perf_maps_end_round(n->maps);
	n->is_resolving = false;
	symbolizer_forget(n);
}

void symbolizer_free(struct symbolizer *n)
{
	intern_free(&n->raw);
	free_batch(&n->now);
	free_batch(&n->next);
	intern_free(&n->cache);
	kallsyms_free(n->kallsyms);
	symbol_client_close(n->symbols);
	perf_maps_free(n->maps);
}

/* ---- stacks of this drain ---- */

struct raw_stack {
	struct stack_id id;
	uint64_t ip[STACK_DEPTH + 1]; /* 0 ends */
};

static size_t depth_of(const uint64_t *ip)
{
	size_t depth = 0;

	while (depth < STACK_DEPTH && ip[depth])
		depth++;
	return depth;
}

int symbolizer_take_stack(void *ctx, const void *key, const void *value)
{
	const struct stack_frames *frames = value;
	struct symbolizer *n = ctx;
	struct raw_stack raw = { .id = *(const struct stack_id *)key };
	size_t depth = depth_of((const uint64_t *)frames->ip);

	memcpy(raw.ip, frames->ip, depth * sizeof(raw.ip[0]));
	if (intern_keyed(&n->raw, &raw, sizeof(raw.id) + (depth + 1) * sizeof(raw.ip[0]),
			 sizeof(raw.id)) == INTERN_NONE)
		return -ENOMEM;
	return 0;
}

/* NULL: the kernel had no room for them. */
const uint64_t *symbolizer_frames(const struct symbolizer *n, const struct stack_id *id)
{
	uint32_t number = intern_find(&n->raw, id, sizeof(*id));
	const char *raw;

	if (number == INTERN_NONE)
		return NULL;
	raw = intern_key(&n->raw, number);
	return (const uint64_t *)(raw + sizeof(struct stack_id));
}

/* A frame other than the leaf's is a return address, which may be after its function. */
static uint64_t place_of(const uint64_t *ip, size_t i)
{
	return i ? ip[i] - 1 : ip[i];
}

/* The frame above the root of an incomplete stack. */
static uint32_t root_node(struct symbolizer *n, uint32_t root)
{
	static const char *const names[] = {
		[ROOT_CUT] = "[cut off]",
		[ROOT_LOST] = STACK_TREE_LOST,
		[ROOT_STOPS + UNWIND_STOP_NO_TABLE] = "[no table yet]",
		[ROOT_STOPS + UNWIND_STOP_NO_ROOM] = "[no room for table]",
		[ROOT_STOPS + UNWIND_STOP_UNMAPPED] = "[unknown mapping]",
		[ROOT_STOPS + UNWIND_STOP_EXPRESSION] = "[expression]",
		[ROOT_STOPS + UNWIND_STOP_NO_RULE] = "[no rule]",
		[ROOT_STOPS + UNWIND_STOP_UNREAD] = "[stack not in memory]",
		[ROOT_STOPS + UNWIND_STOP_NO_POINTER] = "[no frame pointer]",
	};

	return root ? stack_tree_node(n->tree, 0, stack_tree_name(n->tree, names[root])) : 0;
}

/* Deeper than the kernel's limit? */
static enum stack_root root_of(size_t depth)
{
	return depth < STACK_DEPTH ? ROOT_WHOLE : ROOT_CUT;
}

void symbolizer_end_drain(struct symbolizer *n)
{
	intern_free(&n->raw);
}

size_t symbolizer_queued_size(const struct symbolizer *n)
{
	return intern_memory(&n->next.stacks) + intern_memory(&n->next.frames);
}

/* Does the batch have the stack already? */
static bool is_queued(const struct symbolizer *n, const struct queued_stack *queued,
		      uint32_t *number)
{
	*number = intern_find(&n->next.stacks, &queued->key, sizeof(queued->key)) + 1;
	return *number; /* INTERN_NONE + 1 is 0 */
}

/* Will it still be in the cache when its row is named? */
static bool stays_cached(const struct symbolizer *n, const struct queued_stack *queued)
{
	uint32_t id;

	return !n->is_resolving && cache_get(n, &queued->key, &id);
}

static int queue(struct symbolizer *n, const struct queued_stack *queued, uint32_t *number)
{
	size_t size = offsetof(struct queued_stack, at) + queued->depth * sizeof(queued->at[0]);

	*number = intern_keyed(&n->next.stacks, queued, size, sizeof(queued->key)) + 1;
	return *number ? 0 : -ENOMEM;
}

static int queue_lost(struct symbolizer *n, uint32_t kind, uint32_t *number)
{
	const struct queued_stack lost = { .key = { .a = STACK_LOST, .kind = kind },
					   .root = ROOT_LOST };

	return queue(n, &lost, number);
}

/* The frames of a stack to be named; NULL: *number is its number, or *r an error. */
static const uint64_t *frames_to_queue(struct symbolizer *n, const struct queued_stack *queued,
				       const struct stack_id *id, uint32_t *number, int *r)
{
	const uint64_t *ip;

	*r = 0;
	if (is_queued(n, queued, number))
		return NULL;
	if (stays_cached(n, queued)) {
		*r = queue(n, queued, number);
		return NULL;
	}
	ip = symbolizer_frames(n, id);
	if (ip && symbolizer_queued_size(n) > MAX_QUEUED) {
		n->lost++;
		ip = NULL;
	}
	if (!ip)
		*r = queue_lost(n, queued->key.kind, number);
	return ip;
}

/* ---- the kernel's ---- */

static const char *kernel_name(const struct symbolizer *n, uint64_t address, char *buf, size_t size)
{
	const char *name = n->kallsyms ? kallsyms_name(n->kallsyms, address) : NULL;

	if (name)
		return name;
	snprintf(buf, size, "[kernel]+0x%llx", (unsigned long long)address);
	return buf;
}

#define MAX_TRACING 8

static size_t tracing_frames(const struct symbolizer *n, const uint64_t *ip, size_t depth)
{
	size_t frames = 0;
	char buf[64];

	for (size_t i = 0; i < depth && i < MAX_TRACING; i++)
		if (kallsyms_is_tracing(kernel_name(n, ip[i], buf, sizeof(buf))))
			frames = i + 1;
	return frames;
}

int symbolizer_queue_kernel(struct symbolizer *n, const struct stack_id *id, uint32_t *number)
{
	struct queued_stack queued = { .key = { id->hash[0], id->hash[1], 0, 0, CACHED_KERNEL } };
	const uint64_t *ip;
	int r;

	*number = 0;
	if (id->hash[0] == STACK_NONE)
		return 0;
	ip = frames_to_queue(n, &queued, id, number, &r);
	if (!ip)
		return r;
	queued.depth = (uint32_t)depth_of(ip);
	queued.root = root_of(queued.depth);
	memcpy(queued.at, ip, queued.depth * sizeof(queued.at[0]));
	return queue(n, &queued, number);
}

static uint32_t name_kernel(struct symbolizer *n, const struct queued_stack *queued)
{
	size_t first = tracing_frames(n, queued->at, queued->depth);
	uint32_t node = root_node(n, queued->root);
	char buf[64];

	for (size_t i = queued->depth; i-- > first;) {
		const char *name = kernel_name(n, place_of(queued->at, i), buf, sizeof(buf));

		node = stack_tree_node(n->tree, node, stack_tree_name(n->tree, name));
	}
	return node;
}

/* ---- user space's ---- */

/* The user whose perf map may name the process's code outside of files.  Looked up early, since the
 * process may end. */
static uid_t owner_of(struct symbolizer *n, uint32_t pid, uint64_t start_ns)
{
	const struct cache_key key = { start_ns, 0, 0, pid, CACHED_OWNER };
	uint32_t uid;
	uid_t owner;

	if (cache_get(n, &key, &uid))
		return uid;
	if (perf_map_owner(pid, start_ns, &owner))
		return PERF_MAP_NO_OWNER;
	cache_put(n, &key, owner); /* may be cleared before the batch is named */
	return owner;
}

/* The number of the frame at *@at in the batch; INTERN_NONE: out of memory.  Advances *@at. */
static uint32_t queue_frame(struct symbolizer *n, uint32_t pid, uint64_t start_ns,
			    const uint64_t **at)
{
	struct queued_frame frame = { .key = { .kind = CACHED_FRAME }, .pid = pid };
	uint64_t word = *(*at)++;

	if (word & UNWIND_IN_FILE) {
		frame.key.a = UNWIND_FRAME_FILE(word);
		frame.key.b = UNWIND_FRAME_OFFSET(word);
	} else {
		/* Code outside of files is separate for each process. */
		frame.start = UNWIND_HAS_TWO_WORDS(word) ? *(*at)++ : 0;
		frame.key.b = frame.start + (word & ~UNWIND_IN_MEMORY);
		frame.key.pid = pid;
		frame.key.since = frame.start_ns = start_ns;
		frame.owner = owner_of(n, pid, start_ns);
	}
	return intern_keyed(&n->next.frames, &frame, sizeof(frame), sizeof(frame.key));
}

/* Removes the reason from the end of a stack that ends early; 0: it is complete. */
static uint32_t take_stop(const uint64_t *ip, size_t *depth)
{
	if (!*depth || ip[*depth - 1] >= UNWIND_STOPS)
		return 0;
	return ROOT_STOPS + (uint32_t)ip[--*depth];
}

int symbolizer_queue_user(struct symbolizer *n, uint32_t pid, uint64_t start_ns,
			  const struct stack_id *id, uint32_t *number)
{
	struct queued_stack queued = { .key = { id->hash[0], id->hash[1], start_ns, pid,
						CACHED_USER } };
	const uint64_t *ip, *end;
	size_t depth;
	int r;

	*number = 0;
	if (id->hash[0] == STACK_NONE)
		return 0;
	ip = frames_to_queue(n, &queued, id, number, &r);
	if (!ip)
		return r;
	depth = depth_of(ip);
	queued.root = take_stop(ip, &depth);
	if (!queued.root)
		queued.root = root_of(depth);
	/* A frame of two words may lack the last one. */
	for (end = ip + depth; ip < end && (ip + 1 < end || !UNWIND_HAS_TWO_WORDS(*ip));) {
		uint32_t frame = queue_frame(n, pid, start_ns, &ip);

		if (frame == INTERN_NONE)
			return -ENOMEM;
		queued.at[queued.depth++] = frame;
	}
	return queue(n, &queued, number);
}

/* Function names chosen by other users may exceed the table's limit until the end of a batch, but
 * not by much. */
static bool has_room(const struct symbolizer *n)
{
	return stack_tree_memory(n->tree) <= n->tree->limit + n->tree->limit / 4;
}

/* If one file's names exceed it, there is still some room for frames without names. */
static bool is_full(const struct symbolizer *n)
{
	return stack_tree_memory(n->tree) > n->tree->limit / 2 * 5;
}

/* Is @frame's name known, and still correct? */
static bool is_named(struct symbolizer *n, const struct queued_frame *frame)
{
	uint32_t id;

	return cache_get(n, &frame->key, &id) &&
	       (is_in_file(frame) || !perf_maps_changed(n->maps, frame->pid, frame->start_ns));
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* A frame without a name. */
static uint32_t place_name(struct symbolizer *n, const struct queued_frame *frame, uint64_t offset)
{
	const struct code_file *file =
	    is_in_file(frame) ? code_files_get(n->files, (uint32_t)frame->key.a) : NULL;
	const char *where = file ? base_name(code_file_path(file)) : "";
	char buf[512];

	if (!where[0])
		where = is_in_file(frame) ? "[unknown file]"
			: frame->start	  ? "[anon]"
					  : "[not mapped]";
	snprintf(buf, sizeof(buf), "%s+0x%llx", where, (unsigned long long)offset);
	return stack_tree_name(n->tree, buf);
}

/* The location of a frame in its file or mapping. */
static uint64_t offset_of(const struct queued_frame *frame)
{
	return frame->key.b - frame->start;
}

static int cache_frame(struct symbolizer *n, const struct queued_frame *frame,
		       const struct symbol_place *place)
{
	uint64_t offset = offset_of(frame);
	uint32_t id;

	if (!place->name && is_full(n))
		return 0; /* nor will its stack be cached */
	if (is_in_file(frame) && place->address != UINT64_MAX)
		offset = place->address;
	id = place->name ? stack_tree_name(n->tree, place->name) : place_name(n, frame, offset);
	return cache_put(n, &frame->key, id);
}

static void set_places(struct symbol_place *places, const struct queued_frame *const *frames,
		       size_t count)
{
	for (size_t i = 0; i < count; i++)
		places[i] = (struct symbol_place){ frames[i]->key.b, UINT64_MAX, NULL };
}

static int cache_frames(struct symbolizer *n, const struct queued_frame *const *frames,
			const struct symbol_place *places, size_t count, bool only_named)
{
	int r = 0;

	for (size_t i = 0; !r && i < count; i++)
		if (places[i].name || !only_named)
			r = cache_frame(n, frames[i], &places[i]);
	return r;
}

/* ---- perf maps: names of code made at run time ---- */

/* Moves the frames whose names are not in the cache to the front; their number. */
static size_t sort_uncached(const struct symbolizer *n, const struct queued_frame **frames,
			    size_t count)
{
	size_t uncached = 0;
	uint32_t id;

	for (size_t i = 0; i < count; i++)
		if (!cache_get(n, &frames[i]->key, &id)) {
			const struct queued_frame *frame = frames[i];

			frames[i] = frames[uncached];
			frames[uncached++] = frame;
		}
	return uncached;
}

static int read_map(struct symbolizer *n, struct perf_map_reading *map,
		    const struct queued_frame **frames, struct symbol_place *places, size_t count)
{
	uint32_t pid = frames[0]->pid;
	char path[64];
	int r = 0;

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
	if (perf_maps_read_added(map)) {
		r = symbol_client_perf_map(n->symbols, &map->file, path, places, count);
		if (r != -EAGAIN)
			r = cache_frames(n, frames, places, count, true);
	}
	if (!map->is_new)
		count = sort_uncached(n, frames, count);
	if (r || !count || !perf_maps_read_all(map))
		return r;
	set_places(places, frames, count);
	r = symbol_client_perf_map(n->symbols, &map->file, path, places, count);
	return r == -EAGAIN ? r : cache_frames(n, frames, places, count, false);
}

static int name_by_map(struct symbolizer *n, const struct queued_frame **frames,
		       struct symbol_place *places, size_t count)
{
	const struct queued_frame *first = frames[0];
	struct perf_map_reading map;
	uint64_t before_ns;
	int r;

	if (!n->maps)
		n->maps = perf_maps_new();
	if (!n->maps)
		return -ENOMEM;
	if (!n->symbols ||
	    perf_maps_begin(n->maps, first->pid, first->start_ns, first->owner, &map))
		return cache_frames(n, frames, places, sort_uncached(n, frames, count), false);
	before_ns = symbol_client_cpu_ns(n->symbols);
	r = read_map(n, &map, frames, places, count);
	if (r == -EAGAIN)
		map.is_read = false;
	perf_maps_end(&map, symbol_client_cpu_ns(n->symbols) - before_ns);
	return r == -EAGAIN ? 0 : r;
}

/* ---- by files ---- */

/* Frames beyond the time limit are read with the next batch. 0 or -ENOMEM. */
static int name_by_file(struct symbolizer *n, const struct queued_frame **frames,
			struct symbol_place *places, size_t count)
{
	const struct code_file *of = code_files_get(n->files, (uint32_t)frames[0]->key.a);
	struct symbol_file file = { 0 };
	struct code_search search;
	int roots[2], r = 0;

	/* There was no room to store it: the next stack in the file may do it. */
	if (!of)
		return 0;
	if (!n->symbols || of->key.ino == UNWIND_VDSO)
		return cache_frames(n, frames, places, count, false);
	if (!code_search(&search, n->files, of, &file.file)) {
		file.path = search.path;
		file.roots = roots;
		file.n_roots = code_search_roots(&search, roots);
		r = symbol_client_elf(n->symbols, &file, places, count);
		opened_file_close(&file.file);
	}
	code_search_end(&search);
	return r == -EAGAIN ? 0 : cache_frames(n, frames, places, count, false);
}

/* Names @count frames, by address, of one file, or of the memory of one process; by their offset if
 * there is no name, or no room for it. */
static int name_group(struct symbolizer *n, const struct queued_frame **frames, size_t count)
{
	struct symbol_place *places = calloc(count, sizeof(*places));
	int r;

	if (!places)
		return -ENOMEM;
	set_places(places, frames, count);
	if (!has_room(n)) {
		n->unread += count;
		r = cache_frames(n, frames, places, sort_uncached(n, frames, count), false);
	} else if (is_in_file(frames[0])) {
		r = name_by_file(n, frames, places, count);
	} else {
		r = name_by_map(n, frames, places, count);
		for (size_t i = 0; i < count; i++)
			n->unread += !is_named(n, frames[i]);
	}
	free(places);
	return r;
}

/* A group that can be named at once: a file, 0, or 0 and a process. */
static int compare_groups(const struct queued_frame *x, const struct queued_frame *y)
{
	uint64_t a = x->key.pid ? 0 : x->key.a, b = y->key.pid ? 0 : y->key.a;

	if (a != b)
		return a < b ? -1 : 1;
	if (x->key.pid != y->key.pid)
		return x->key.pid < y->key.pid ? -1 : 1;
	return x->key.since < y->key.since ? -1 : x->key.since > y->key.since;
}

static int by_group(const void *a, const void *b)
{
	const struct queued_frame *x = *(const struct queued_frame *const *)a;
	const struct queued_frame *y = *(const struct queued_frame *const *)b;
	int r = compare_groups(x, y);

	return r ? r : x->key.b < y->key.b ? -1 : x->key.b > y->key.b;
}

static int name_sorted(struct symbolizer *n, const struct queued_frame **frames, size_t count)
{
	size_t end;
	int r = 0;

	for (size_t i = 0; !r && i < count; i = end) {
		for (end = i + 1; end < count && !compare_groups(frames[end], frames[i]); end++)
			;
		r = name_group(n, frames + i, end - i);
	}
	return r;
}

int symbolizer_resolve(struct symbolizer *n)
{
	const struct queued_frame **frames = calloc(n->now.frames.n + 1, sizeof(const void *));
	size_t count = 0;
	int r;

	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < n->now.frames.n; i++) {
		const struct queued_frame *frame = intern_key(&n->now.frames, i);

		if (!is_named(n, frame))
			frames[count++] = frame;
	}
	qsort(frames, count, sizeof(const void *), by_group);
	r = name_sorted(n, frames, count);
	free(frames);
	return r;
}

/* *stable: the name stays as long as the same file is mapped. */
static uint32_t frame_name(struct symbolizer *n, uint64_t number, bool *stable)
{
	const struct queued_frame *frame = intern_key(&n->now.frames, (uint32_t)number);
	uint32_t id;

	if (!is_in_file(frame) && perf_maps_has(n->maps, frame->pid, frame->start_ns))
		*stable = false;
	if (cache_get(n, &frame->key, &id))
		return id;
	*stable = false;
	return place_name(n, frame, offset_of(frame));
}

static uint32_t name_user(struct symbolizer *n, const struct queued_stack *queued, bool *stable)
{
	uint32_t node = root_node(n, queued->root);

	for (size_t i = queued->depth; i-- > 0;)
		node = stack_tree_node(n->tree, node, frame_name(n, queued->at[i], stable));
	return node;
}

uint32_t symbolizer_node(struct symbolizer *n, uint32_t number)
{
	const struct queued_stack *queued;
	bool stable = true;
	uint32_t node;

	if (!number)
		return 0;
	queued = intern_key(&n->now.stacks, number - 1);
	if (cache_get(n, &queued->key, &node))
		return node;
	if (is_full(n) && queued->root != ROOT_LOST) {
		n->lost++;
		return root_node(n, ROOT_LOST);
	}
	node = queued->key.kind == CACHED_KERNEL ? name_kernel(n, queued)
						 : name_user(n, queued, &stable);
	return stable && cache_put(n, &queued->key, node) ? INTERN_NONE : node;
}
