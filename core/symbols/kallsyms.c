// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/kallsyms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/system/kallsyms_file.h"
#include "core/system/limits.h"

struct kallsym {
	uint64_t address;
	uint32_t name; /* where it stands in names */
	bool end;      /* not a function, but behind the last of the kernel's own */
};

struct kallsyms {
	struct kallsym *list; /* sorted by address */
	size_t n, room;
	char *names;
	size_t names_used, names_room;
	bool hidden;
};

/* At 1 the capability is enough; at 0 none is needed where perf_event_paranoid is below 2. */
const char *kallsyms_hint(void)
{
	if (access("/proc/kallsyms", F_OK))
		return "this kernel was built without CONFIG_KALLSYMS";
	return "run as root or with CAP_SYSLOG; the sysctl kernel.kptr_restrict must not be 2";
}

static int grow(void **to, size_t *room, size_t needed, size_t size)
{
	size_t more = *room ? *room * 2 : 4096;
	void *grown;

	if (needed <= *room)
		return 0;
	while (more < needed)
		more *= 2;
	grown = realloc(*to, more * size);
	if (!grown)
		return -ENOMEM;
	*to = grown;
	*room = more;
	return 0;
}

static int add(struct kallsyms *k, uint64_t address, const char *name, bool end)
{
	size_t len = strlen(name) + 1;
	int r = grow((void **)&k->list, &k->room, k->n + 1, sizeof(*k->list));

	if (!r)
		r = grow((void **)&k->names, &k->names_room, k->names_used + len, 1);
	if (r || !k->names)
		return r;
	memcpy(k->names + k->names_used, name, len);
	k->list[k->n++] = (struct kallsym){ address, (uint32_t)k->names_used, end };
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
	/* Behind it lie data, and memory that is made executable for BPF and for modules. */
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
	/* The order of the file, which has the kernel's first name first; an end comes before a
	 * function that begins there. */
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
	if (r) {
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

/* The last of the entries at or below @address, but the first of those with one address. */
static const struct kallsym *at_or_below(const struct kallsyms *k, uint64_t address)
{
	size_t lo = 0, hi = k->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (k->list[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	lo--;
	while (lo && k->list[lo - 1].address == k->list[lo].address && !k->list[lo - 1].end)
		lo--;
	return &k->list[lo];
}

#define FAR (1U << 24) /* no function is as long: what lies further belongs to none */

const char *kallsyms_name(const struct kallsyms *k, uint64_t address, uint64_t *offset)
{
	const struct kallsym *found = at_or_below(k, address);

	if (!found || found->end || address - found->address >= FAR)
		return NULL;
	if (offset)
		*offset = address - found->address;
	return k->names + found->name;
}

bool kallsyms_is_tracing(const char *name)
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
