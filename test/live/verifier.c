/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verifier --programs
 * verifier [--all] SUBCOMMAND [OPTION...]
 *
 * What the kernel's verifier makes of the BPF programs.  The subcommand runs as it is until it
 * loads its object, with its options, map sizes and hooks: bpf_object__load_skeleton() is ours
 * (-Wl,--wrap).  The programs that it would load are loaded with BPF_LOG_STATS; with --all the
 * object's other programs, too, except spares (NAME_spare).  If programs differ by constants only,
 * one of them is loaded.  Nothing is attached.
 *
 * A line per program, its fields separated by tabs:
 *   OBJECT PROGRAM INSNS USEC      instructions processed, and the time that took
 *   OBJECT PROGRAM - REASON        this kernel cannot load it
 * --programs: "compiler" and what compiled them, then OBJECT PROGRAM SECTION of all objects.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cli/command.h"
#include "core/base/array.h"
#include "core/bpf/hooks.h"
#include "core/bpf/kernel_types.h"
#include "core/symbols/symbol_server.h"
#include "core/system/limits.h"
#include "probes/stuck.h"
#include "probes/unwind.h"
#include "verifier_skeletons.h"

#define LOG_STATS     4 /* BPF_LOG_STATS of the kernel's bpf_verifier.h, since 5.2 */
#define LOG_SIZE      262144
#define PROGRAMS_MAX  256 /* that are loaded of an object */
#define SHRUNK_HASHES 16  /* entries: the verifier does not look at them, and they cost time */

int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __real_bpf_object__load_skeleton(struct bpf_object_skeleton *s);

static bool all;
static char logs[PROGRAMS_MAX][LOG_SIZE];
static const char *object;  /* NAME of probes/NAME.bpf.c, with "_bpf" */
static char (*refused)[64]; /* the program that could not be loaded; shared with the child */

/* ---- what is to be loaded ---- */

static bool ends_in(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && strcmp(name + len - end_len, end) == 0;
}

/* Programs of probes/call_functions.h differ by constants only: the programs of the first function
 * are loaded, the others are duplicates. */
static bool is_duplicate(const char *name)
{
	static const char *const ends[] = {
		"_e", "_x", "_ke", "_kx", "_e" HOOKS_SPARE, "_x" HOOKS_SPARE
	};
	char first[32];

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		snprintf(first, sizeof(first), "v_read%s", ends[i]);
		if (ends_in(name, ends[i]))
			return strcmp(name, first) != 0;
	}
	return false;
}

/* The reason not to load @prog, which the subcommand does not load either; NULL: load it. */
static const char *has_no_target(const struct kernel_types *types, const struct bpf_program *prog)
{
	const char *section = bpf_program__section_name(prog), *target = strchr(section, '/');

	if (target && strncmp(section, "tp_btf/", 7) == 0)
		return kernel_types_tracepoint(types, target + 1) < 0 ? "no such tracepoint" : NULL;
	if (target && (strncmp(section, "fentry/", 7) == 0 || strncmp(section, "fexit/", 6) == 0))
		return kernel_types_function(types, target + 1) < 0 ? "no such function" : NULL;
	return NULL;
}

static void tell(const struct bpf_program *prog, const char *figure, const char *more)
{
	printf("%.*s\t%s\t%s\t%s\n", (int)(strlen(object) - strlen("_bpf")), object,
	       bpf_program__name(prog), figure, more);
}

static void select_others(struct bpf_object *obj)
{
	struct kernel_types *types;
	struct bpf_program *prog;
	struct error err;

	if (kernel_types_open(NULL, &types, &err)) {
		fprintf(stderr, "verifier: %s\n", err.what);
		exit(1);
	}
	bpf_object__for_each_program (prog, obj) {
		const char *why;

		if (bpf_program__autoload(prog) || ends_in(bpf_program__name(prog), HOOKS_SPARE) ||
		    is_duplicate(bpf_program__name(prog)))
			continue;
		why = has_no_target(types, prog);
		if (why)
			tell(prog, "-", why);
		else
			bpf_program__set_autoload(prog, true);
	}
	kernel_types_free(types);
}

static void drop_duplicates(struct bpf_object *obj)
{
	struct bpf_program *prog;

	bpf_object__for_each_program (prog, obj)
		if (is_duplicate(bpf_program__name(prog)))
			bpf_program__set_autoload(prog, false);
}

static void shrink_hashes(struct bpf_object *obj)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, obj)
	{
		enum bpf_map_type type = bpf_map__type(map);

		if ((type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_PERCPU_HASH ||
		     type == BPF_MAP_TYPE_LRU_HASH) &&
		    bpf_map__max_entries(map) > SHRUNK_HASHES)
			bpf_map__set_max_entries(map, SHRUNK_HASHES);
	}
}

static void ask_for_stats(struct bpf_object *obj)
{
	struct bpf_program *prog;
	size_t n = 0;

	bpf_object__for_each_program (prog, obj) {
		if (!bpf_program__autoload(prog))
			continue;
		if (n == PROGRAMS_MAX || bpf_program__set_log_level(prog, LOG_STATS) ||
		    bpf_program__set_log_buf(prog, logs[n++], LOG_SIZE)) {
			fprintf(stderr, "verifier: no log for each program\n");
			exit(1);
		}
	}
}

/* ---- loading ---- */

/* libbpf says only in its log which program was refused. */
__attribute__((format(printf, 2, 0))) static int note_refused(enum libbpf_print_level level,
							      const char *fmt, va_list args)
{
	char text[256];

	vsnprintf(text, sizeof(text), fmt, args);
	if (level == LIBBPF_WARN && strstr(text, "load"))
		sscanf(text, "libbpf: prog '%63[^']'", *refused);
	return 0;
}

/* The line of a refused program's log with the reason: the last one before the figures. */
static void tell_refused(const struct bpf_program *prog, const char *log, int error)
{
	const char *end = strstr(log, "verification time"), *line;
	char why[256];

	if (!end)
		end = log + strlen(log);
	while (end > log && end[-1] == '\n')
		end--;
	for (line = end; line > log && line[-1] != '\n'; line--)
		;
	snprintf(why, sizeof(why), "%.*s", (int)(end - line), line);
	tell(prog, "-", *why ? why : strerror(error));
}

/* The number that the kernel has stored, since 5.16; 0: an older kernel. */
static unsigned long verified_insns(const struct bpf_program *prog)
{
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len) ? 0 : info.verified_insns;
}

static void tell_loaded(const struct bpf_program *prog, const char *log)
{
	const char *insns = NULL, *time = strstr(log, "verification time ");
	unsigned long n = 0, usec = 0, held = verified_insns(prog);
	char figure[32], more[32];

	/* The last such line has the sum. */
	for (const char *at = log; (at = strstr(at, "processed ")); at++)
		insns = at;
	if (!insns || !time || sscanf(insns, "processed %lu insns", &n) != 1 ||
	    sscanf(time, "verification time %lu usec", &usec) != 1 || (held && held != n)) {
		fprintf(stderr, "verifier: %s: %lu instructions, but its log has others: %s\n",
			bpf_program__name(prog), held, log);
		fflush(stdout);
		_exit(1);
	}
	snprintf(figure, sizeof(figure), "%lu", n);
	snprintf(more, sizeof(more), "%lu", usec);
	tell(prog, figure, more);
}

/* In a child: loads what is selected, and reports all up to the one that is refused. */
static void load_and_tell(struct bpf_object_skeleton *s)
{
	int r = __real_bpf_object__load_skeleton(s);
	struct bpf_object *obj = *s->obj;
	struct bpf_program *prog;
	size_t size;

	if (r && (!**refused || limits_is_shortage(r) || r == -ENOSPC)) {
		fprintf(stderr, "verifier: %s: %s\n", object, strerror(-r));
		_exit(1);
	}
	bpf_object__for_each_program (prog, obj) {
		const char *log = bpf_program__log_buf(prog, &size);

		if (!bpf_program__autoload(prog))
			continue;
		if (strcmp(*refused, bpf_program__name(prog)) == 0) {
			tell_refused(prog, log, -r);
			break;
		}
		tell_loaded(prog, log);
	}
	fflush(stdout);
	_exit(0);
}

/* A program that was loaded, or refused, is not loaded again. */
static void deselect(struct bpf_object *obj, const char *up_to)
{
	struct bpf_program *prog;

	bpf_object__for_each_program (prog, obj) {
		bpf_program__set_autoload(prog, false);
		if (strcmp(bpf_program__name(prog), up_to) == 0)
			return;
	}
}

int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s)
{
	int status;

	refused =
	    mmap(NULL, sizeof(*refused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (refused == MAP_FAILED)
		exit(1);
	object = s->name;
	if (all)
		select_others(*s->obj);
	drop_duplicates(*s->obj);
	shrink_hashes(*s->obj);
	ask_for_stats(*s->obj);
	libbpf_set_print(note_refused);
	do {
		pid_t pid;

		**refused = 0;
		fflush(stdout);
		pid = fork();
		if (!pid)
			load_and_tell(s);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			exit(1);
		deselect(*s->obj, *refused);
	} while (**refused);
	exit(0);
}

/* ---- the command line ---- */

static int list_programs(void)
{
	printf("compiler\t%s\n", BPF_COMPILER);
	for (size_t i = 0; i < ARRAY_SIZE(skeletons); i++) {
		struct bpf_program *prog;
		struct bpf_object *obj;
		const void *elf;
		size_t size;

		object = skeletons[i].name;
		elf = skeletons[i].elf(&size);
		obj = bpf_object__open_mem(elf, size, NULL);
		if (!obj) {
			fprintf(stderr, "verifier: %s: %s\n", object, strerror(errno));
			return 1;
		}
		bpf_object__for_each_program (prog, obj)
			tell(prog, bpf_program__section_name(prog), "");
		bpf_object__close(obj);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (symbol_server_is(argc, argv))
		symbol_server_run();
	if (argc == 2 && strcmp(argv[1], "--programs") == 0)
		return list_programs();
	all = argc > 1 && strcmp(argv[1], "--all") == 0;
	argc -= 1 + all;
	argv += 1 + all;
	limits_raise();
	for (size_t i = 0; argc > 0 && i < n_commands; i++)
		if (commands[i].tool && strcmp(argv[0], commands[i].name) == 0) {
			tool_main(commands[i].tool, argc, argv);
			fprintf(stderr, "verifier: %s loaded nothing\n", argv[0]);
			return 1;
		}
	fprintf(stderr, "usage: verifier --programs | [--all] SUBCOMMAND [OPTION...]\n");
	return 2;
}
