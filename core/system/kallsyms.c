// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/kallsyms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/array.h"
#include "core/base/name_filter.h"
#include "core/base/search.h"
#include "core/system/limits.h"

/* At 1 the capability is enough; at 0 none is needed if perf_event_paranoid is below 2. */
const char *kallsyms_hint(void)
{
	if (access("/proc/kallsyms", F_OK))
		return "this kernel was built without CONFIG_KALLSYMS";
	return "run as root or with CAP_SYSLOG; the sysctl kernel.kptr_restrict must not be 2";
}

#define SEVERAL UINT64_MAX /* no address of a symbol */

/* Parses a line "ffffffff81ce6450 T name\t[module]": the address, the type and the name, cut off in
 * @line. *type is 0 if it is invalid. */
static uint64_t split_line(char *line, char *type, const char **name)
{
	char *end;
	uint64_t address = strtoull(line, &end, 16);

	*type = 0;
	if (end == line || end[0] != ' ' || !end[1] || end[2] != ' ')
		return 0;
	*type = end[1];
	*name = end + 3;
	end[3 + strcspn(end + 3, " \t\n")] = 0;
	return address;
}

int kallsyms_each(const char *path, kallsyms_take *take, void *ctx)
{
	FILE *file FCLOSE_AT_END = fopen(path ? path : "/proc/kallsyms", "re");
	char line[1024];  /* a name has at most 511 bytes (KSYM_NAME_LEN, 6.1) */
	char bytes[8192]; /* stdio uses 1,024 for files in /proc, a fifth of the kernel's size */
	const char *name;
	uint64_t address;
	char type;
	int r = 0;

	if (!file)
		return -errno;
	setvbuf(file, bytes, _IOFBF, sizeof(bytes));
	while (!r && fgets(line, sizeof(line), file)) {
		address = split_line(line, &type, &name);
		if (type)
			r = take(ctx, address, type, name);
	}
	return r;
}

/* ---- by name ---- */

struct search {
	const char *const *names;
	uint64_t *values;
	size_t n;
	bool unique;
	struct name_filter wanted;
};

static int compare_with_all(void *ctx, uint64_t address, char type, const char *name)
{
	struct search *s = ctx;

	(void)type;
	if (!address || !name_filter_may_have(&s->wanted, name_hash(name)))
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		uint64_t *value = &s->values[i];

		if (strcmp(name, s->names[i]) == 0)
			*value = !*value ? address : s->unique ? SEVERAL : *value;
	}
	return 0;
}

/* If several have the name, the first, or (@unique) none. */
static int find(const char *path, const char *const *names, uint64_t *values, size_t n, bool unique)
{
	struct search s = { .names = names, .values = values, .n = n, .unique = unique };
	int found = 0, r;

	memset(values, 0, n * sizeof(*values));
	for (size_t i = 0; i < n; i++)
		name_filter_add(&s.wanted, name_hash(names[i]));
	r = kallsyms_each(path, compare_with_all, &s);
	if (r)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (values[i] == SEVERAL)
			values[i] = 0;
		found += values[i] != 0;
	}
	return found;
}

int kallsyms_find(const char *path, const char *const *names, uint64_t *values, size_t n)
{
	return find(path, names, values, n, false);
}

int kallsyms_find_unique(const char *path, const char *const *names, uint64_t *values, size_t n)
{
	return find(path, names, values, n, true);
}

/* ---- by address ---- */

struct kallsym {
	uint64_t address; /* first, for core/base/search.h */
	uint32_t name;	  /* offset in names */
	bool end;	  /* not a function, but the end of the kernel's own */
};

struct kallsyms {
	struct kallsym *list; /* sorted by address */
	size_t n;
	char *names;
	size_t names_used, names_room;
	bool hidden;
};

static int add(struct kallsyms *k, uint64_t address, const char *name, bool end)
{
	size_t len = strlen(name) + 1;
	struct kallsym *added;

	if (k->names_used + len > k->names_room) {
		size_t room = 2 * k->names_room + 65536;
		char *names = realloc(k->names, room);

		if (!names)
			return -ENOMEM;
		k->names = names;
		k->names_room = room;
	}
	added = ARRAY_ADD(k->list, k->n);
	if (!added)
		return -ENOMEM;
	memcpy(k->names + k->names_used, name, len);
	*added = (struct kallsym){ address, (uint32_t)k->names_used, end };
	k->names_used += len;
	return 0;
}

static int take_symbol(void *ctx, uint64_t address, char type, const char *name)
{
	struct kallsyms *k = ctx;
	bool end;

	if (!address)
		return 0;
	k->hidden = false;
	/* After it there are data, and memory that is made executable for BPF and for modules. */
	end = strcmp(name, "_etext") == 0 || strcmp(name, "_einittext") == 0;
	if (!end && !strchr("tTwW", type))
		return 0;
	return add(k, address, name, end);
}

static int compare(const void *a, const void *b)
{
	const struct kallsym *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	/* The order of the file, in which the kernel's preferred name is first; an end comes before
	 * a function that begins there. */
	if (x->end != y->end)
		return x->end ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static int read_error(const char *path, int r, struct error *err)
{
	if (limits_is_shortage(r))
		return limits_error(r, "read the kernel's symbols", err);
	return error_set(err, STATUS_UNSUPPORTED, r, "cannot read %s: %s",
			 path ? path : "/proc/kallsyms", strerror(-r));
}

int kallsyms_open(const char *path, struct kallsyms **out, struct error *err)
{
	struct kallsyms *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	k->hidden = true;
	r = kallsyms_each(path, take_symbol, k);
	/* A unit of systemd hides it as a whole (ProtectKernelTunables=). */
	if (r && r != -EACCES) {
		kallsyms_free(k);
		return read_error(path, r, err);
	}
	if (k->n)
		qsort(k->list, k->n, sizeof(*k->list), compare);
	*out = k;
	return 0;
}

static int is_shown(void *ctx, uint64_t address, char type, const char *name)
{
	(void)ctx;
	(void)type;
	(void)name;
	return address != 0;
}

int kallsyms_shown(const char *path, struct error *err)
{
	int r = kallsyms_each(path, is_shown, NULL);

	return r < 0 ? read_error(path, r, err) : r;
}

void kallsyms_free(struct kallsyms *k)
{
	if (!k)
		return;
	free(k->list);
	free(k->names);
	free(k);
}

bool kallsyms_hidden(const struct kallsyms *k)
{
	return k->hidden;
}

/* The last of the entries at or below @address, but the first of several with one address. */
static const struct kallsym *at_or_below(const struct kallsyms *k, uint64_t address)
{
	size_t lo = k->n;

	if (address != UINT64_MAX)
		lo = search_first_at(k->list, k->n, sizeof(*k->list), address + 1);
	if (!lo)
		return NULL;
	lo--;
	while (lo && k->list[lo - 1].address == k->list[lo].address && !k->list[lo - 1].end)
		lo--;
	return &k->list[lo];
}

#define FAR (1U << 24) /* longer than any function: the address belongs to none */

const char *kallsyms_name(const struct kallsyms *k, uint64_t address)
{
	const struct kallsym *found = at_or_below(k, address);

	if (!found || found->end || address - found->address >= FAR)
		return NULL;
	return k->names + found->name;
}

bool kallsyms_is_tracing(const char *name)
{
	static const char *const beginnings[] = { "bpf_prog_",	    "bpf_trace_run",
						  "__bpf_trace_",   "__traceiter_",
						  "__bpf_prog_",    "bpf_trampoline_",
						  "trace_call_bpf", "__do_trace_" };

	for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++)
		if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}
