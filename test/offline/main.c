// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace-relocations KERNEL OBJECT...
 *
 * How the CO-RE relocations of every program of the BPF objects end on the kernel that the folder
 * KERNEL has the types of (test/offline/offline_kernel.h).  Prints lines with tabs:
 *   program OBJECT PROGRAM SECTION HOOK N  one for each; its section names a tracepoint or
 * function: HOOK is present, absent, unknown (no types of modules) or none (no such name); N
 * relocations guarded OBJECT PROGRAM WHAT            missing in this kernel, and never reached then
 *   unguarded OBJECT PROGRAM WHAT          missing, and may be reached
 *   failed OBJECT PROGRAM WHAT WHY         libbpf would not load the program at all
 *   cut OBJECT PROGRAM WHAT                iotrace's own cut of the kernel's types
 *                                          (core/bpf/btf_subset.c) gives another answer
 * Exit status 0 whatever comes out, 2 when something cannot be read.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "test/offline/offline_kernel.h"
#include "core/base/array.h"
#include "core/bpf/kernel_types.h"
#include "test/offline/reach.h"
#include "test/offline/relocate.h"

struct kernel {
	struct offline_kernel *kernel;
	struct kernel_types *own; /* as iotrace reads it */
	struct types *types;
	size_t n;
};

struct marks {
	bool **reached;
	bool *entered;
};

/* ---- the kernel ---- */

static int list_types(struct kernel *k)
{
	const char *name;

	while (offline_kernel_btf(k->kernel, k->n, &name))
		k->n++;
	k->types = calloc(k->n, sizeof(*k->types));
	if (!k->types)
		return -ENOMEM;
	for (size_t i = 0; i < k->n; i++)
		k->types[i].btf = offline_kernel_btf(k->kernel, i, &k->types[i].name);
	return 0;
}

static int open_kernel(const char *dir, struct kernel *k, struct error *err)
{
	char path[4096];
	int r = offline_kernel_open(dir, &k->kernel, err);

	if (r)
		return r;
	r = list_types(k);
	if (r)
		return error_set(err, STATUS_FAILED, r, "out of memory");
	snprintf(path, sizeof(path), "%s/vmlinux", dir);
	return kernel_types_open(path, &k->own, err);
}

static void close_kernel(struct kernel *k)
{
	offline_kernel_free(k->kernel);
	kernel_types_free(k->own);
	free(k->types);
}

/* ---- reports ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static struct marks make_marks(const struct object *o)
{
	struct marks marks = { calloc(o->n_code + 1, sizeof(*marks.reached)),
			       calloc(o->n_functions + 1, sizeof(*marks.entered)) };

	for (size_t i = 0; marks.reached && i < o->n_code; i++)
		marks.reached[i] = calloc(o->code[i].n + 1, sizeof(**marks.reached));
	return marks;
}

static void free_marks(const struct object *o, struct marks *marks)
{
	for (size_t i = 0; marks->reached && i < o->n_code; i++)
		free(marks->reached[i]);
	free(marks->reached);
	free(marks->entered);
}

/* libbpf relocates what it loads: the program itself, and all functions that are none. */
static bool is_loaded_with(const struct object *o, size_t function, size_t entry)
{
	return function == entry || !o->functions[function].program;
}

static void report_relocation(const char *name, const struct object *o, size_t i, size_t entry,
			      const struct result *result, const struct marks *marks)
{
	const struct relocation *relocation = &o->relocations[i];
	size_t function = object_function(o, relocation->code, relocation->insn);
	const char *program = o->functions[entry].name;
	char what[256];

	object_describe(o, &relocation->relo, what, sizeof(what));
	if (result->fate == FATE_FAILED && is_loaded_with(o, function, entry))
		printf("failed\t%s\t%s\t%s\t%s\n", name, program, what, result->why);
	if (result->fate == FATE_POISONED && marks->entered[function])
		printf("%s\t%s\t%s\t%s\n",
		       marks->reached[relocation->code][relocation->insn] ? "unguarded" : "guarded",
		       name, program, what);
}

/* "raw_tp/block_rq_issue": is there such a hook? */
static const char *hook_state(const struct offline_kernel *k, const char *section)
{
	static const char *const tracepoints[] = { "tp_btf/", "raw_tp/", "raw_tracepoint/", "tp/",
						   "tracepoint/" };
	/* "kprobe.multi/" names none. */
	static const char *const functions[] = { "fentry/", "fexit/", "kprobe/", "kretprobe/" };
	const char *target = strrchr(section, '/');
	int r = 1;

	for (size_t i = 0; i < ARRAY_SIZE(tracepoints); i++)
		if (strncmp(section, tracepoints[i], strlen(tracepoints[i])) == 0)
			r = offline_kernel_tracepoint(k, target + 1);
	if (r < 0 && strstr(section, "/syscalls/"))
		r = -ENODATA; /* as the engine has it: they share one type */
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (strncmp(section, functions[i], strlen(functions[i])) == 0)
			r = offline_kernel_function(k, target + 1, NULL);
	return r > 0 ? "none" : r == 0 ? "present" : r == -ENODATA ? "unknown" : "absent";
}

static int report_program(const char *name, const struct object *o, size_t entry,
			  const struct result *results, const struct offline_kernel *kernel)
{
	const struct function *program = &o->functions[entry];
	struct marks marks = make_marks(o);
	size_t n = 0;
	int r = -ENOMEM;

	if (marks.reached && marks.entered)
		r = reach(o, entry, marks.reached, marks.entered);
	for (size_t i = 0; !r && i < o->n_relocations; i++)
		n += marks.entered[object_function(o, o->relocations[i].code,
						   o->relocations[i].insn)];
	if (!r)
		printf("program\t%s\t%s\t%s\t%s\t%zu\n", name, program->name,
		       o->code[program->code].name, hook_state(kernel, o->code[program->code].name),
		       n);
	for (size_t i = 0; !r && i < o->n_relocations; i++)
		report_relocation(name, o, i, entry, &results[i], &marks);
	free_marks(o, &marks);
	return r;
}

static bool same(const struct object *o, size_t i, const struct result *a, const struct result *b)
{
	/* The number of a type is another one in another BTF. */
	return a->fate == b->fate &&
	       (a->value == b->value || o->relocations[i].relo.kind == BPF_CORE_TYPE_ID_TARGET);
}

/* A BTF of what iotrace hands libbpf: only the types that @o names.  NULL. */
static struct btf *cut_types(const struct kernel *k, const struct object *o)
{
	int fd = kernel_types_subset(k->own, o->bytes, o->size);
	struct btf *btf;
	char path[64];

	if (fd < 0)
		return NULL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	btf = btf__parse_raw(path);
	close(fd);
	return btf;
}

/* Does the cut give the same answers as @results? */
static int report_cut(const char *path, const struct kernel *k, const struct result *results,
		      struct error *err)
{
	struct result *of_cut = NULL;
	struct object o; /* once more: relocating has changed the other */
	struct btf *btf = NULL;
	int r = object_open(path, &o, err);

	if (r)
		goto out;
	btf = cut_types(k, &o);
	of_cut = calloc(o.n_relocations + 1, sizeof(*of_cut));
	if (!btf || !of_cut) {
		r = -EINVAL;
		error_set(err, STATUS_USAGE, r, "%s: cannot cut this kernel's types for it", path);
		goto out;
	}
	r = relocate(&o, &(struct types){ btf, "cut" }, 1, of_cut);
	if (r)
		error_set(err, STATUS_FAILED, r, "out of memory");
	for (size_t i = 0; !r && i < o.n_relocations; i++) {
		const struct relocation *relocation = &o.relocations[i];
		char what[256];

		if (same(&o, i, &results[i], &of_cut[i]))
			continue;
		object_describe(&o, &relocation->relo, what, sizeof(what));
		printf("cut\t%s\t%s\t%s\n", base_name(path),
		       o.functions[object_function(&o, relocation->code, relocation->insn)].name,
		       what);
	}
out:
	free(of_cut);
	btf__free(btf);
	object_close(&o);
	return r;
}

static int report_object(const char *path, const struct kernel *k, struct error *err)
{
	struct result *results = NULL;
	struct object o;
	int r = object_open(path, &o, err);

	if (r)
		goto out;
	results = calloc(o.n_relocations + 1, sizeof(*results));
	if (!results) {
		r = error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
		goto out;
	}
	r = relocate(&o, k->types, k->n, results);
	for (size_t f = 0; !r && f < o.n_functions; f++)
		if (o.functions[f].program)
			r = report_program(base_name(path), &o, f, results, k->kernel);
	if (r)
		error_set(err, STATUS_FAILED, r, "out of memory");
	else if (o.n_relocations)
		r = report_cut(path, k, results, err);
out:
	free(results);
	object_close(&o);
	return r;
}

int main(int argc, char **argv)
{
	struct kernel k = { 0 };
	struct error err;
	int r;

	if (argc < 3) {
		fprintf(stderr, "usage: %s KERNEL OBJECT...\n", base_name(argv[0]));
		return STATUS_USAGE;
	}
	r = open_kernel(argv[1], &k, &err);
	for (int i = 2; !r && i < argc; i++)
		r = report_object(argv[i], &k, &err);
	close_kernel(&k);
	if (!r)
		return STATUS_OK;
	fprintf(stderr, "%s\n", err.what);
	return STATUS_USAGE;
}
