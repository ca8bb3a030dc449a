// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stack/frames.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/space_files.h"

/* What was named is remembered, up to this many; what is to be named is collected, up to this many
 * frames and those of one stack more. */
#define MOST_KNOWN   65536
#define MOST_PENDING 16384

enum known_kind { KNOWN_KERNEL, KNOWN_USER, KNOWN_FRAME };

struct known_key {
	uint64_t a, b;	 /* a stack's name; or a module and the place in it */
	uint64_t mapped; /* of a user stack: spaces_number() */
	uint32_t pid;	 /* of a user stack, and of a frame that is in no file */
	uint32_t kind;
};

/* A frame that is to be named: of a known_key, and where to look. */
struct pending_key {
	struct known_key key;
	struct mapping mapping;
	uint64_t address;
	uint32_t pid;
	uint32_t pad;
};

/* ---- what is known ---- */

static bool known(const struct naming *n, const struct known_key *key, uint32_t *id)
{
	uint32_t number = intern_find(&n->known, key, sizeof(*key));

	if (number == INTERN_NONE)
		return false;
	*id = n->known_ids[number];
	return true;
}

static int learn(struct naming *n, const struct known_key *key, uint32_t id)
{
	uint32_t number = intern_bytes(&n->known, key, sizeof(*key), NULL);

	if (number == INTERN_NONE || id == INTERN_NONE)
		return -ENOMEM;
	if (number >= n->known_room) {
		uint32_t room = n->known_room + n->known_room / 2 + 256;
		uint32_t *grown = realloc(n->known_ids, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		n->known_ids = grown;
		n->known_room = room;
	}
	n->known_ids[number] = id;
	return 0;
}

static void forget_known(struct naming *n)
{
	intern_free(&n->known);
	free(n->known_ids);
	n->known_ids = NULL;
	n->known_room = 0;
}

void naming_end_batch(struct naming *n)
{
	intern_free(&n->pending);
	if (n->rebuilt != n->table->rebuilt || n->known.n > MOST_KNOWN)
		forget_known(n);
	n->rebuilt = n->table->rebuilt;
}

void naming_round(struct naming *n)
{
	intern_free(&n->stacks);
	naming_end_batch(n);
	perf_maps_end_round(n->maps);
}

void naming_free(struct naming *n)
{
	intern_free(&n->stacks);
	intern_free(&n->pending);
	forget_known(n);
	kallsyms_free(n->kallsyms);
	spaces_free(n->spaces);
	symbol_client_close(n->symbols);
	perf_maps_free(n->maps);
}

/* ---- stacks of this round ---- */

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

int naming_take(void *ctx, const void *key, const void *value)
{
	const struct stack_frames *frames = value;
	struct naming *n = ctx;
	struct raw_stack raw = { .id = *(const struct stack_id *)key };
	size_t depth = depth_of((const uint64_t *)frames->ip);

	memcpy(raw.ip, frames->ip, depth * sizeof(raw.ip[0]));
	if (intern_keyed(&n->stacks, &raw, sizeof(raw.id) + (depth + 1) * sizeof(raw.ip[0]),
			 sizeof(raw.id)) == INTERN_NONE)
		return -ENOMEM;
	return 0;
}

/* Its frames, 0 at the end; NULL: the kernel had no room for them. */
static const uint64_t *raw_stack(const struct naming *n, const struct stack_id *id)
{
	uint32_t number = intern_find(&n->stacks, id, sizeof(*id));
	const char *raw;

	if (number == INTERN_NONE)
		return NULL;
	raw = intern_key(&n->stacks, number);
	return (const uint64_t *)(raw + sizeof(struct stack_id));
}

static uint32_t lost_stack(struct naming *n)
{
	return table_node(n->table, 0, table_name(n->table, TABLE_LOST_STACK));
}

/* A frame but the leaf's is where a call returns to, which may be behind its function. */
static uint64_t place_of(const uint64_t *ip, size_t i)
{
	return i ? ip[i] - 1 : ip[i];
}

/* Above the root of a stack of which not all is known. */
static uint32_t root_node(struct naming *n, const char *why)
{
	return why ? table_node(n->table, 0, table_name(n->table, why)) : 0;
}

/* Deeper than the kernel walks? */
static const char *too_deep(size_t depth)
{
	return depth < STACK_DEPTH ? NULL : "[cut off]";
}

/* ---- the kernel's ---- */

static const char *kernel_name(const struct naming *n, uint64_t address, char *buf, size_t size)
{
	const char *name = n->kallsyms ? kallsyms_name(n->kallsyms, address, NULL) : NULL;

	if (name)
		return name;
	snprintf(buf, size, "[kernel]+0x%llx", (unsigned long long)address);
	return buf;
}

/* The way from the tracepoint to our own program, which lies above what submitted the bio. */
static bool is_tracing(const char *name)
{
	static const char *const beginnings[] = { "bpf_prog_",	    "bpf_trace_run",
						  "__bpf_trace_",   "__traceiter_",
						  "__bpf_prog_",    "bpf_trampoline_",
						  "trace_call_bpf", "__do_trace_" };

	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
		if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}

#define MOST_TRACING 8

static size_t tracing_frames(const struct naming *n, const uint64_t *ip, size_t depth)
{
	size_t frames = 0;
	char buf[64];

	for (size_t i = 0; i < depth && i < MOST_TRACING; i++)
		if (is_tracing(kernel_name(n, ip[i], buf, sizeof(buf))))
			frames = i + 1;
	return frames;
}

static uint32_t name_kernel(struct naming *n, const uint64_t *ip)
{
	size_t depth = depth_of(ip), first = tracing_frames(n, ip, depth);
	uint32_t node = root_node(n, too_deep(depth));
	char buf[64];

	for (size_t i = depth; i-- > first;) {
		const char *name = kernel_name(n, place_of(ip, i), buf, sizeof(buf));

		node = table_node(n->table, node, table_name(n->table, name));
	}
	return node;
}

/* The frames of a stack that has still to be named; NULL: *node is what it is called. */
static const uint64_t *unnamed(struct naming *n, const struct stack_id *id,
			       const struct known_key *key, uint32_t *node)
{
	const uint64_t *ip;

	*node = 0;
	if (id->hash[0] == STACK_NONE || known(n, key, node))
		return NULL;
	ip = raw_stack(n, id);
	if (!ip)
		*node = lost_stack(n);
	return ip;
}

uint32_t naming_kernel(struct naming *n, const struct stack_id *id)
{
	struct known_key key = { id->hash[0], id->hash[1], 0, 0, KNOWN_KERNEL };
	uint32_t node;
	const uint64_t *ip = unnamed(n, id, &key, &node);

	if (!ip)
		return node;
	node = name_kernel(n, ip);
	return learn(n, &key, node) ? INTERN_NONE : node;
}

/* ---- user space's ---- */

/* Where frame @address lies; false: nobody knows. */
static bool locate(struct naming *n, uint32_t pid, uint64_t address, uint64_t at_ns,
		   struct pending_key *out)
{
	memset(out, 0, sizeof(*out));
	out->pid = pid;
	out->address = address;
	out->key.kind = KNOWN_FRAME;
	if (!spaces_find(n->spaces, pid, address, at_ns, &out->mapping)) {
		out->key.b = address;
		return false;
	}
	out->key.a = out->mapping.module->serial;
	out->key.b = address - out->mapping.start + out->mapping.offset;
	/* Code that no file holds is each process's own. */
	if (!out->mapping.module->is_file) {
		out->key.pid = pid;
		out->key.b = address;
	}
	return true;
}

/*
 * How many frames are code.  The kernel follows frame pointers; in a function that was compiled
 * without, it finds whatever lies on the stack, and what follows is no path any more.
 */
static size_t depth_of_code(struct naming *n, uint32_t pid, const uint64_t *ip, uint64_t at_ns)
{
	size_t depth = depth_of(ip);
	struct mapping mapping;

	if (!depth || !spaces_find(n->spaces, pid, ip[0], at_ns, &mapping))
		return depth;
	for (size_t i = 1; i < depth; i++)
		if (!spaces_find(n->spaces, pid, place_of(ip, i), at_ns, &mapping))
			return i;
	return depth;
}

static struct known_key user_key(const struct naming *n, uint32_t pid, const struct stack_id *id,
				 uint64_t at_ns)
{
	uint64_t mapped = n->spaces ? spaces_number(n->spaces, pid, at_ns) : 0;

	return (struct known_key){ id->hash[0], id->hash[1], mapped, pid, KNOWN_USER };
}

/* Is @frame's name known, and still right? */
static bool is_named(struct naming *n, const struct pending_key *frame)
{
	uint32_t id;

	return known(n, &frame->key, &id) &&
	       (frame->mapping.module->is_file || !perf_maps_changed(n->maps, frame->pid));
}

int naming_ask(struct naming *n, uint32_t pid, const struct stack_id *user, uint64_t at_ns)
{
	struct known_key stack = user_key(n, pid, user, at_ns);
	const uint64_t *ip = raw_stack(n, user);
	struct pending_key frame;
	size_t depth;
	uint32_t id;

	if (!ip || known(n, &stack, &id))
		return 0;
	depth = depth_of_code(n, pid, ip, at_ns);
	for (size_t i = 0; i < depth; i++) {
		if (!locate(n, pid, place_of(ip, i), at_ns, &frame) || is_named(n, &frame))
			continue;
		if (intern_keyed(&n->pending, &frame, sizeof(frame), sizeof(frame.key)) ==
		    INTERN_NONE)
			return -ENOMEM;
	}
	return 0;
}

bool naming_is_full(const struct naming *n)
{
	return n->pending.n >= MOST_PENDING;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* A frame without a name: where it lies in its file or mapping. */
static uint32_t place_name(struct naming *n, const struct pending_key *frame, uint64_t offset)
{
	char buf[512];

	snprintf(buf, sizeof(buf), "%s+0x%llx", base_name(frame->mapping.module->path),
		 (unsigned long long)offset);
	return table_name(n->table, buf);
}

static int learn_frame(struct naming *n, const struct pending_key *frame,
		       const struct symbol_place *place)
{
	uint64_t offset = frame->key.b;
	uint32_t id;

	if (!frame->mapping.module->is_file)
		offset = frame->address - frame->mapping.start;
	else if (place->address != UINT64_MAX)
		offset = place->address;
	id = place->name ? table_name(n->table, place->name) : place_name(n, frame, offset);
	return learn(n, &frame->key, id);
}

static void set_places(struct symbol_place *places, const struct pending_key *const *frames,
		       size_t count)
{
	for (size_t i = 0; i < count; i++)
		places[i] = (struct symbol_place){ frames[i]->key.b, UINT64_MAX, NULL };
}

static int learn_frames(struct naming *n, const struct pending_key *const *frames,
			const struct symbol_place *places, size_t count, bool only_named)
{
	int r = 0;

	for (size_t i = 0; !r && i < count; i++)
		if (places[i].name || !only_named)
			r = learn_frame(n, frames[i], &places[i]);
	return r;
}

/* ---- by what a process has written down of the code that it made at run time ---- */

/* Moves those frames to the front whose names are not known; their number. */
static size_t sort_unknown(const struct naming *n, const struct pending_key **frames, size_t count)
{
	size_t unknown = 0;
	uint32_t id;

	for (size_t i = 0; i < count; i++)
		if (!known(n, &frames[i]->key, &id))
			frames[unknown++] = frames[i];
	return unknown;
}

static int read_map(struct naming *n, struct perf_map_reading *map,
		    const struct pending_key **frames, struct symbol_place *places, size_t count)
{
	int r = 0;

	if (perf_maps_read_added(map)) {
		symbol_client_perf_map(n->symbols, map->fd, places, count);
		r = learn_frames(n, frames, places, count, true);
	}
	if (!map->is_new)
		count = sort_unknown(n, frames, count);
	if (r || !count || !perf_maps_read_all(map))
		return r;
	set_places(places, frames, count);
	symbol_client_perf_map(n->symbols, map->fd, places, count);
	return learn_frames(n, frames, places, count, false);
}

static int name_by_map(struct naming *n, const struct pending_key **frames,
		       struct symbol_place *places, size_t count)
{
	struct perf_map_reading map;
	uint64_t before_ns;
	int r;

	if (!n->maps)
		n->maps = perf_maps_new();
	if (!n->maps)
		return -ENOMEM;
	if (!n->symbols || perf_maps_begin(n->maps, frames[0]->pid, &map))
		return learn_frames(n, frames, places, sort_unknown(n, frames, count), false);
	before_ns = symbol_client_cpu_ns(n->symbols);
	r = read_map(n, &map, frames, places, count);
	perf_maps_end(&map, symbol_client_cpu_ns(n->symbols) - before_ns);
	return r;
}

/* ---- by files ---- */

/* By the symbols of the first file that may be the one that was mapped, and has its build id. */
static void name_by_file(struct naming *n, const struct pending_key *frame,
			 struct symbol_place *places, size_t count)
{
	const struct mapping *m = &frame->mapping;
	struct symbol_file file = { .id = m->module->id, .path = m->module->path };
	struct file_search search;
	int roots[2], r = -ESTALE;

	if (!n->symbols)
		return;
	file_search_begin(&search, spaces_files(n->spaces), frame->pid, m);
	while (r == -ESTALE && (file.fd = file_search_next(&search)) >= 0) {
		file.roots = roots;
		file.n_roots = file_search_roots(&search, roots);
		r = symbol_client_elf(n->symbols, &file, places, count);
		close(file.fd);
	}
	file_search_end(&search);
}

/* What others call their functions may take more than the table's limit until the end of a batch,
 * but not much. */
static bool has_room(const struct naming *n)
{
	return table_memory(n->table) <= n->table->limit + n->table->limit / 4;
}

/* Names @count frames, by address, of one file, or of the memory of one process; by the place in
 * it where there is no name, or no room for it. */
static int name_group(struct naming *n, const struct pending_key **frames, size_t count)
{
	struct symbol_place *places = calloc(count, sizeof(*places));
	int r;

	if (!places)
		return -ENOMEM;
	set_places(places, frames, count);
	if (!has_room(n)) {
		n->unread += count;
		r = learn_frames(n, frames, places, count, false);
	} else if (frames[0]->mapping.module->is_file) {
		name_by_file(n, frames[0], places, count);
		r = learn_frames(n, frames, places, count, false);
	} else {
		r = name_by_map(n, frames, places, count);
	}
	free(places);
	return r;
}

/* What can be named at once: a file, 0, or 0 and a process. */
static int compare_groups(const struct pending_key *x, const struct pending_key *y)
{
	uint64_t a = x->key.pid ? 0 : x->key.a, b = y->key.pid ? 0 : y->key.a;

	if (a != b)
		return a < b ? -1 : 1;
	return x->key.pid < y->key.pid ? -1 : x->key.pid > y->key.pid;
}

static int by_group(const void *a, const void *b)
{
	const struct pending_key *x = *(const struct pending_key *const *)a;
	const struct pending_key *y = *(const struct pending_key *const *)b;
	int r = compare_groups(x, y);

	return r ? r : x->key.b < y->key.b ? -1 : x->key.b > y->key.b;
}

static int name_sorted(struct naming *n, const struct pending_key **frames, size_t count)
{
	size_t end;
	int r = 0;

	for (size_t i = 0; !r && i < count; i = end) {
		for (end = i + 1; end < count; end++)
			if (compare_groups(frames[end], frames[i]) != 0)
				break;
		r = name_group(n, frames + i, end - i);
	}
	return r;
}

int naming_resolve(struct naming *n)
{
	const struct pending_key **frames = calloc(n->pending.n + 1, sizeof(const void *));
	int r;

	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < n->pending.n; i++)
		frames[i] = intern_key(&n->pending, i);
	qsort(frames, n->pending.n, sizeof(const void *), by_group);
	r = name_sorted(n, frames, n->pending.n);
	free(frames);
	return r;
}

/* *settled: the name will stay, as long as the same is mapped. */
static uint32_t user_name(struct naming *n, uint32_t pid, uint64_t address, uint64_t at_ns,
			  bool *settled)
{
	struct pending_key frame;
	char buf[64];
	uint32_t id;

	if (!locate(n, pid, address, at_ns, &frame)) {
		snprintf(buf, sizeof(buf), "[not mapped]+0x%llx", (unsigned long long)address);
		return table_name(n->table, buf);
	}
	if (!frame.mapping.module->is_file && perf_maps_has(n->maps, pid)) {
		*settled = false;
		n->unread += !is_named(n, &frame);
	}
	if (known(n, &frame.key, &id))
		return id;
	*settled = false;
	return place_name(n, &frame, address - frame.mapping.start);
}

uint32_t naming_user(struct naming *n, uint32_t pid, const struct stack_id *id, uint64_t at_ns)
{
	struct known_key key = user_key(n, pid, id, at_ns);
	uint32_t node;
	const uint64_t *ip = unnamed(n, id, &key, &node);
	bool settled = true;
	size_t depth;

	if (!ip)
		return node;
	depth = depth_of_code(n, pid, ip, at_ns);
	node = root_node(n, depth < depth_of(ip) ? "[no frame pointer]" : too_deep(depth));
	for (size_t i = depth; i-- > 0;)
		node =
		    table_node(n->table, node, user_name(n, pid, place_of(ip, i), at_ns, &settled));
	return settled && learn(n, &key, node) ? INTERN_NONE : node;
}
