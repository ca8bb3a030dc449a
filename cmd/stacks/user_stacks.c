// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stacks/user_stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cmd/block/blk.h"
#include "core/system/process.h"
#include "core/base/array.h"
#include "core/system/limits.h"
#include "core/system/preflight.h"
#include "output/render.h"

/* ---- notes about missing parts ---- */

static void hidden_error(struct error *err)
{
	error_set(err, STATUS_OK, 0, "kernel addresses are hidden: kernel frames have no names");
	error_hint(err, "%s", kallsyms_hint());
}

/* symbol_client_open() failed with @why. */
static void helper_error(int why, struct error *err)
{
	error_set(err, STATUS_OK, why,
		  "cannot start or sandbox the symbol reader: %s: user frames have no names",
		  strerror(-why));
	error_hint(err, "%s",
		   why == -EINVAL ? "the kernel needs CONFIG_SECCOMP_FILTER"
				  : "/proc/self/exe must be executable, and seccomp(2) allowed");
}

static void add_note(struct tool_run *run, const struct error *err)
{
	tool_note(run, "%s (%s)", err->what, err->hint);
}

bool user_stacks_check_kernel(struct check *check)
{
	struct error err;
	int shown = kallsyms_shown(NULL, &err);

	if (!shown)
		hidden_error(&err);
	if (shown <= 0)
		check_gap(check, "-K", &err);
	return shown != 0;
}

void user_stacks_check(struct check *check, struct user_stacks *u)
{
	struct error err;
	int why;

	why = symbol_client_open(NULL, &u->symbolizer.symbols);
	if (why) {
		helper_error(why, &err);
		check_gap(check, "-U", &err);
	}
}

/* ---- a run ---- */

int user_stacks_resolve(const struct tool_run *run, struct error *err)
{
	if (run->check || !blk_in_pid_namespace())
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "cannot name user frames from inside a pid namespace");
	error_hint(err, "in a container: run iotrace on the host, or without -U");
	return -ENOTSUP;
}

int user_stacks_open_kernel(struct tool_run *run, struct kallsyms **out, struct error *err)
{
	int r = kallsyms_open(NULL, out, err);

	if (r || !kallsyms_hidden(*out))
		return r;
	hidden_error(err);
	add_note(run, err);
	return 0;
}

static int random_seed(__u64 seed[4])
{
	if (getrandom(seed, 4 * sizeof(*seed), 0) != 4 * sizeof(*seed))
		return -errno;
	seed[2] |= 1;
	seed[3] |= 1;
	return 0;
}

int user_stacks_open(struct tool_run *run, struct user_stacks *u, bool (*wait)(void *ctx),
		     void *ctx, struct error *err)
{
	struct symbol_client_config config = symbol_client_default;
	int why = random_seed(u->files.seed);

	if (why)
		return error_set(err, STATUS_FAILED, why, "getrandom: %s", strerror(-why));
	code_files_open(&u->files);
	u->symbolizer.files = &u->files;
	config.wait = wait;
	config.ctx = ctx;
	why = symbol_client_open(&config, &u->symbolizer.symbols);
	if (limits_is_shortage(why))
		return limits_error(why, "start the symbol reader", err);
	if (why) {
		helper_error(why, err);
		add_note(run, err);
	}
	return 0;
}

/* Are user stacks walked by tables? */
static bool has_tables(const struct user_stacks *u)
{
	return UNWINDER_HAS_TABLES && u && u->symbolizer.symbols;
}

static uint64_t page_shift(void)
{
	return (uint64_t)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
}

int user_stacks_configure(const struct user_stacks *u, struct tool_object *object)
{
	bool tables = has_tables(u);
	__u64 seed[4];
	const struct probe_option options[] = {
		{ "unwinds", tables },
		{ "page_shift", page_shift() },
		{ "thread_size", process_kernel_stack() },
		{ "seed", 0, seed, sizeof(seed) },
	};
	const struct probe_map maps[] = {
		{ "unwind_rules", tables ? 0 : 1 },
		{ "unwind_files", u ? 0 : 1 },
		{ "unwind_wanted", u ? 0 : 1 },
	};

	if (u)
		memcpy(seed, u->files.seed, sizeof(seed));
	else if (random_seed(seed))
		return -errno;
	return tool_configure(object, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));
}

int user_stacks_attached(struct tool_run *run, struct user_stacks *u, struct error *err)
{
	const struct bpf_object *obj = run->object.obj;
	const struct unwind_maps maps = {
		.tables = probe_map_fd(obj, "unwind_tables"),
		.rules = probe_map_fd(obj, "unwind_rules"),
		.files = probe_map_fd(obj, "unwind_files"),
	};
	int r;

	u->files.find_key = probe_program_fd(obj, USER_STACKS_HELPER);
	u->files.mapped_key =
	    probe_variable(obj, "unwind_mapped_key", sizeof(struct unwind_file_key));
	u->unwinder.files = &u->files;
	u->unwinder.symbols = u->symbolizer.symbols;
	r = unwinder_open(&u->unwinder, &maps, probe_map_fd(obj, "unwind_wanted"), has_tables(u));
	return r ? error_set(err, STATUS_FAILED, r, "cannot map the tables of user stacks: %s",
			     strerror(-r))
		 : 0;
}

static bool look_at_command(void *ctx, pid_t pid, uint64_t ip, bool mapped)
{
	struct user_stacks *u = ctx;

	return unwinder_look(&u->unwinder, (uint32_t)pid, ip, mapped);
}

void user_stacks_begin(struct tool_run *run, struct user_stacks *u)
{
	if (!u->unwinder.store)
		return;
	run->run->look = look_at_command;
	run->run->look_ctx = u;
}

uint64_t user_stacks_lost(const struct user_stacks *u, enum user_stacks_loss loss)
{
	const struct symbolizer *symbolizer = &u->symbolizer;

	if (loss == USER_STACKS_NAMES)
		return symbolizer->unread;
	if (loss == USER_STACKS_SYMBOLS)
		return symbolizer->symbols ? symbol_client_unread(symbolizer->symbols) : 0;
	return u->files.full;
}

void user_stacks_show_unread(const struct user_stacks *u)
{
	const struct symbol_unread *files;
	char path[1024];
	uint64_t all;
	size_t n;

	if (!u->symbolizer.symbols)
		return;
	all = symbol_client_unread(u->symbolizer.symbols);
	n = symbol_client_unread_files(u->symbolizer.symbols, &files);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "iotrace: note: symbols of %s were not fully read: %s\n",
			render_escape(files[i].path, path, sizeof(path)), files[i].why);
	if (all > n)
		fprintf(stderr,
			"iotrace: note: symbols of %" PRIu64 " more files were not fully read\n",
			all - n);
}

void user_stacks_close(struct user_stacks *u)
{
	unwinder_close(&u->unwinder);
	if (u->symbolizer.files)
		code_files_close(&u->files);
	symbolizer_free(&u->symbolizer);
}
