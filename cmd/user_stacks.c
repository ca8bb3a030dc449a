// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/user_stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cmd/blk.h"
#include "core/system/limits.h"
#include "core/system/preflight.h"
#include "output/render.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* ---- what is missing ---- */

static void hidden_error(struct error *err)
{
	error_set(err, STATUS_OK, 0, "kernel addresses are hidden: kernel frames have no names");
	error_hint(err, "%s", kallsyms_hint());
}

/* perf_event_open() failed with @why. */
static void unfollowed_error(int why, struct error *err)
{
	struct error refused;

	error_set(
	    err, STATUS_OK, why,
	    "mappings of processes started later are missing or late: perf_event_open() failed: %s",
	    strerror(-why));
	error_hint(err, "%s",
		   preflight_perf(&refused)	     ? refused.hint
		   : why == -EPERM || why == -EACCES ? "run as root or with CAP_PERFMON"
						     : "user frames may have no names");
}

/* True, with @err, if this process may not look at other users' processes. */
static bool others_error(struct error *err)
{
	if (address_spaces_reads_others())
		return false;
	error_set(
	    err, STATUS_OK, 0,
	    "cannot read the mappings of other users' processes: user frames of those already "
	    "running have no names");
	error_hint(err, "run as root or with CAP_SYS_PTRACE");
	return true;
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
	int why = 0;

	if (address_spaces_open(&u->symbolizer.spaces, &why) == 0 && why) {
		unfollowed_error(why, &err);
		check_gap(check, "-U", &err);
	}
	if (others_error(&err))
		check_gap(check, "-U", &err);
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

int user_stacks_open(struct tool_run *run, struct user_stacks *u, bool (*wait)(void *ctx),
		     void *ctx, struct error *err)
{
	struct symbol_client_config config = symbol_client_default;
	int why = 0, r = address_spaces_open(&u->symbolizer.spaces, &why);

	if (r)
		return limits_error(r, "follow the mappings of processes", err);
	if (why) {
		unfollowed_error(why, err);
		add_note(run, err);
	}
	if (others_error(err))
		add_note(run, err);
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

/* Of the kernel's stacks, where it does not tell where the registers are (before 5.15). */
static uint64_t thread_size(void)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return page > 16384 ? page : 16384;
}

int user_stacks_configure(const struct user_stacks *u, struct tool_object *object)
{
	bool tables = has_tables(u);
	uint64_t seed[4];
	const struct probe_option options[] = {
		{ "unwinds", tables },
		{ "page_shift", page_shift() },
		{ "thread_size", thread_size() },
		{ "seed", 0, seed, sizeof(seed) },
	};
	const struct probe_map maps[] = {
		{ "unwind_rules", tables ? 0 : 1 },
		{ "unwind_files", tables ? 0 : 1 },
		{ "unwind_wanted", tables ? 0 : 1 },
	};

	if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
		return -errno;
	seed[2] |= 1;
	seed[3] |= 1;
	return tool_configure(object, options, N(options), maps, UNWINDER_HAS_TABLES ? N(maps) : 0);
}

int user_stacks_attached(struct tool_run *run, struct user_stacks *u, struct error *err)
{
	const struct bpf_object *obj = run->object.obj;
	int r = 0;

	if (has_tables(u)) {
		const struct unwind_probe probe = {
			.maps = {
				.tables = probe_map_fd(obj, "unwind_tables"),
				.rules = probe_map_fd(obj, "unwind_rules"),
				.files = probe_map_fd(obj, "unwind_files"),
			},
			.wanted = probe_map_fd(obj, "unwind_wanted"),
			.find_key = probe_program_fd(obj, USER_STACKS_HELPER),
			.mapped_key = probe_variable(obj, "unwind_mapped_key",
						     sizeof(struct unwind_file_key)),
		};

		r = unwinder_open(&u->unwinder, &probe);
	}
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot map the tables of user stacks: %s",
				 strerror(-r));
	u->unwinder.spaces = u->symbolizer.spaces;
	u->unwinder.symbols = u->symbolizer.symbols;
	u->symbolizer.has_tables = has_tables(u);
	return 0;
}

static bool look_at_command(void *ctx, pid_t pid, uint64_t ip, bool mapped)
{
	struct user_stacks *u = ctx;

	address_spaces_update(u->symbolizer.spaces, u->drained_ns);
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
	if (!symbolizer->spaces)
		return 0;
	return loss == USER_STACKS_RECORDS ? address_spaces_lost(symbolizer->spaces)
					   : address_spaces_full(symbolizer->spaces);
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
	symbolizer_free(&u->symbolizer);
}
