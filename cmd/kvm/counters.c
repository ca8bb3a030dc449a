// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/counters.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/kvm/banks.h"
#include "cmd/kvm/filter.h"
#include "cmd/kvm/latency.h"
#include "cmd/engine/maps.h"
#include "cmd/cli/report.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/system/cpus.h"
#include "core/system/limits.h"
#include "core/system/kernel_fs.h"
#include "core/system/preflight.h"
#include "cmd/kvm/tracefs.h"
#include "probes/kvm.h"
#include "probes/kvm.skel.h"

#define GROUP "kvm"
/* Programs watch for this time before they count, to see each vCPU end a round. */
#define ACQUAINT_NS (NS_PER_SEC / 5)
#define PLACEHOLDER 0x107ace0c00c1eULL /* of count_each in probes/kvm.bpf.c */

enum { ARRAY_COUNTS, ARRAY_KEYS, ARRAY_ROUNDS, ARRAY_LATENCIES, ARRAYS };

_Static_assert((int)KVM_UEXIT_OK == CLASS_RETURNED && (int)KVM_UEXIT_EINTR == CLASS_EINTR &&
		   (int)KVM_UEXIT_ERRNO == CLASS_ERRNO,
	       "the program's classes are the classes that have names");

struct counters {
	const struct kvm_options *o;
	bool all; /* events are counted, of each process */
	struct kvm_events *events;
	char **names; /* of the tracepoints, number by number; events[i] is tracepoint i */
	size_t n_names;
	struct reasons *reasons;
	int parents[REASON_EVENTS]; /* kvm_exit and kvm_userspace_exit, -1: not there */
	size_t n_slots, stride;
	struct hook_group group;
	const struct hooks *hooks; /* of the run */
	struct mapped_array mapped[ARRAYS];
	bool by_round, command;
	uint32_t *filter_tgid; /* of the programs */
	struct banks *banks;
};

/* ---- what there is ---- */

/* The event of a reason, made if it is not there: its number or -ENOMEM. */
static int event_of_reason(struct counters *c, const struct reason *reason)
{
	return events_add_child(c->events, c->parents[reason->event], reason->name, reason->listed);
}

/* The first events have slots: the tracepoints, by their numbers, and the reasons that have names.
 */
static int make_slots(struct counters *c)
{
	size_t n;
	const struct reason *list = reasons_list(c->reasons, &n);

	for (size_t i = 0; i < n; i++)
		if (c->parents[list[i].event] >= 0 && event_of_reason(c, &list[i]) < 0)
			return -ENOMEM;
	c->n_slots = c->events->n;
	/* No two CPUs in one cache line. */
	c->stride = (c->n_slots + 7) / 8 * 8;
	return 0;
}

static bool asked_for(const struct counters *c, int event)
{
	return c->all || !c->events->v[event].hidden;
}

static void keep(struct counters *c, int event)
{
	if (event >= 0)
		c->events->v[event].off = false;
}

/* Without a reason to count it, and with none of its children asked for, an event stays alone. */
static void leave_out(struct counters *c)
{
	size_t n_wanted = 0;

	for (size_t i = 0; i < c->n_names; i++) {
		bool wanted = asked_for(c, (int)i);
		bool parent =
		    (int)i == c->parents[REASON_EXIT] || (int)i == c->parents[REASON_UEXIT];

		for (size_t k = 0; !wanted && parent && k < c->events->n; k++)
			wanted = c->events->v[k].parent == (int)i && asked_for(c, (int)k);
		wanted = wanted || (parent && kvm_filter_matches_unnamed(
						  c->events->filter, c->o->fields, c->events, i));
		c->events->v[i].off = !wanted;
		n_wanted += wanted;
	}
	/* Events that are to agree are counted by rounds, and the ends of these have to be seen. */
	c->by_round = n_wanted > 1 || c->o->latency;
	if (c->by_round) {
		keep(c, events_find(c->events, "kvm_entry"));
		keep(c, c->parents[REASON_UEXIT]);
	}
	/* The latency is the time of exits. */
	if (c->o->latency)
		keep(c, c->parents[REASON_EXIT]);
}

int kvm_not_loaded(int code, struct error *err)
{
	error_set(err, STATUS_UNSUPPORTED, code, "kvm is not loaded");
	error_hint(err, "modprobe kvm_intel or kvm_amd");
	return code;
}

static int make_events(struct counters *c, struct error *err)
{
	int r = tracefs_events(NULL, GROUP, &c->names, &c->n_names, err);

	if (r == -ENOENT && !kernel_fs_check(NULL, KERNEL_FS_TRACE, NULL))
		kvm_not_loaded(r, err);
	if (r)
		return r;
	for (size_t i = 0; !r && i < c->n_names; i++)
		r = events_add(c->events, c->names[i], -1, true) < 0 ? -ENOMEM : 0;
	if (!r)
		r = reasons_open_running(&c->reasons);
	if (r)
		return error_no_memory(err);
	c->parents[REASON_EXIT] = events_find(c->events, "kvm_exit");
	c->parents[REASON_UEXIT] = events_find(c->events, "kvm_userspace_exit");
	if (!reasons_fields(c->reasons).exit_reason)
		c->parents[REASON_EXIT] = -1;
	if (!reasons_fields(c->reasons).uexit_reason || !reasons_fields(c->reasons).uexit_errno)
		c->parents[REASON_UEXIT] = -1;
	if (make_slots(c))
		return error_no_memory(err);
	leave_out(c);
	return 0;
}

/* ---- hooks ---- */

enum { COUNT_RAW = 1, COUNT_CLASSIC }; /* tags */

/* Three of them; for a kernel that preempts tracepoints the last three, which are the same. */
static const struct hook_alt count_alts[] = {
	{ HOOK_RAW_TP_COOKIE, GROUP "/*", 0, { "count_raw" }, COUNT_RAW },
	{ HOOK_RAW_TP_EACH, GROUP "/*", 0, { "count_each" }, COUNT_RAW },
	{ HOOK_TP_COOKIE, GROUP "/*", 0, { "count_tp" }, COUNT_CLASSIC },
	{ HOOK_RAW_TP_COOKIE, GROUP "/*", 0, { "count_raw" }, COUNT_RAW },
	{ HOOK_RAW_TP_EACH, GROUP "/*", 0, { "count_each" }, COUNT_RAW },
};

/* The record has the reason, on all kernels. */
static const struct hook_alt exit_alts[] = {
	{ HOOK_TP, GROUP "/kvm_exit", 0, { "exit_tp" } },
};
static const struct hook_alt uexit_alts[] = {
	{ HOOK_RAW_TP, GROUP "/kvm_userspace_exit", 0, { "uexit_raw" } },
	{ HOOK_TP, GROUP "/kvm_userspace_exit", 0, { "uexit_tp" } },
	{ HOOK_RAW_TP, GROUP "/kvm_userspace_exit", 0, { "uexit_raw" } },
};
static const struct hook_alt entry_alts[] = {
	{ HOOK_RAW_TP, GROUP "/kvm_entry", 0, { "entry_raw" } },
	{ HOOK_TP, GROUP "/kvm_entry", 0, { "entry_tp" } },
	{ HOOK_RAW_TP, GROUP "/kvm_entry", 0, { "entry_raw" } },
};

/* Does a raw program, too, see kvm_exit: probes/kvm.bpf.c?  Where tracepoints are preempted, that
 * may happen between two programs of one, too. */
static bool exits_twice(const struct counters *c)
{
	return hooks_tag(c->hooks, "count", 0) == COUNT_RAW &&
	       !hooks_preempts(c->hooks, HOOK_RAW_TP);
}

static bool is_counted_with_all(void *ctx, size_t i, int tag)
{
	const struct counters *c = ctx;

	(void)tag;
	if (c->events->v[i].off || (int)i == c->parents[REASON_UEXIT])
		return false;
	return (int)i != c->parents[REASON_EXIT] ||
	       (exits_twice(c) && hooks_tag(c->hooks, "exit", -1) == 0);
}

static void note_skipped(void *ctx, size_t i, int code)
{
	struct counters *c = ctx;

	c->events->v[i].refusal = code;
}

static bool is_hooked(const struct counters *c, enum reason_event which)
{
	return c->parents[which] >= 0 && !c->events->v[c->parents[which]].off;
}

size_t counters_hook_events(struct counters *c, struct hook_event *out)
{
	size_t n = 0;

	c->group = (struct hook_group){ GROUP,
					(const char *const *)c->names,
					c->n_names,
					PLACEHOLDER,
					is_counted_with_all,
					note_skipped,
					c };
	out[n++] = (struct hook_event){ "count", count_alts, 3, false, count_alts + 2, &c->group };
	if (is_hooked(c, REASON_EXIT))
		out[n++] = (struct hook_event){ "exit", exit_alts, 1, true };
	if (is_hooked(c, REASON_UEXIT))
		out[n++] =
		    (struct hook_event){ "userspace_exit", uexit_alts, 2, true, uexit_alts + 1 };
	/* The last is attached first: no exit is timed whose entry was not seen. */
	if (c->o->latency)
		out[n++] = (struct hook_event){ "entry", entry_alts, 2, false, entry_alts + 1 };
	return n;
}

int counters_open(const struct kvm_options *o, bool all, struct kvm_events *events,
		  struct counters **out, struct error *err)
{
	struct counters *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_no_memory(err);
	c->o = o;
	c->all = all;
	c->events = events;
	r = make_events(c, err);
	if (!r && o->latency && c->parents[REASON_EXIT] < 0) {
		r = error_set(err, STATUS_UNSUPPORTED, -ENODATA,
			      "this kernel's kvm_exit has no exit reason");
		error_hint(err, "run without -x");
	}
	if (r)
		counters_close(c);
	else
		*out = c;
	return r;
}

/* ---- maps ---- */

#define ROWS_OF_GUESTS 16384 /* with by_guest */
#define ROWS_OF_OTHERS 256
#define VCPU_THREADS   16384
#define LATENCY_ROWS   8192 /* vCPUs x exit reasons of each x banks: 22 MB */

int counters_configure(struct counters *c, struct tool_object *o, uint32_t tgid, bool command)
{
	const struct reason_fields f = reasons_fields(c->reasons);
	const uint32_t rows = c->o->args.map_rows;
	const uint32_t keys = rows ?: c->all ? ROWS_OF_GUESTS : ROWS_OF_OTHERS;
	const uint32_t latencies = !c->o->latency ? 1 : rows ?: LATENCY_ROWS;

	c->hooks = o->hooks;
	c->command = command;
	for (size_t i = 0; i < c->n_names; i++)
		c->events->v[i].refusal = 0;

	const struct probe_option options[] = {
		{ "n_slots", c->stride },
		{ "one_process", tgid != 0 },
		{ "by_guest", c->all },
		{ "latency", c->o->latency },
		{ "exit_event", (uint32_t)c->parents[REASON_EXIT] },
		{ "uexit_event", (uint32_t)c->parents[REASON_UEXIT] },
		{ "entry_event", (uint32_t)events_find(c->events, "kvm_entry") },
		{ "fpu_event", (uint32_t)events_find(c->events, "kvm_fpu") },
		{ "by_round", c->by_round },
		{ "all_seen", c->all || !c->events->filter },
		{ "exits_twice", exits_twice(c) },
		{ "exit_reason_off", f.exit_reason },
		{ "exit_class_off", f.exit_class },
		{ "exit_vcpu_off", f.exit_vcpu },
		{ "entry_vcpu_off", f.entry_vcpu },
		{ "uexit_reason_off", f.uexit_reason },
		{ "uexit_errno_off", f.uexit_errno },
	};
	const struct probe_map maps[] = {
		{ "counts", (uint32_t)(cpus_possible() * KVM_BANKS * c->stride) },
		{ "keyed", keys },
		{ "free_keys", keys },
		{ "key_rows", keys },
		{ "rounds", c->by_round ? KVM_ROUNDS : 1 },
		{ "pending", c->o->latency ? VCPU_THREADS : 1 },
		{ "latencies", latencies },
		{ "free_latencies", latencies },
		{ "latency_rows", latencies },
	};

	((struct kvm_bpf *)o->skel)->data->filter_tgid = tgid;
	return tool_configure(o, options, ARRAY_SIZE(options), maps, ARRAY_SIZE(maps));
}

/* Tells the programs which reasons have a slot. */
static int fill_reasons(struct counters *c, const struct kvm_bpf *skel)
{
	int fd = bpf_map__fd(skel->maps.reasons), r = 0;
	size_t n;
	const struct reason *list = reasons_list(c->reasons, &n);

	for (size_t i = 0; !r && i < n; i++) {
		const int parent = c->parents[list[i].event];
		struct kvm_key key = { (uint32_t)parent, list[i].class, list[i].reason, 0 };

		if (parent >= 0 &&
		    bpf_map_update_elem(
			fd, &key, &(uint32_t){ (uint32_t)event_of_reason(c, &list[i]) }, BPF_ANY))
			r = -errno;
	}
	return r;
}

/* The programs count nothing yet. */
static int open_maps(struct counters *c, const struct kvm_bpf *skel)
{
	const struct bpf_map *const maps[ARRAYS] = {
		[ARRAY_COUNTS] = skel->maps.counts,
		[ARRAY_KEYS] = skel->maps.key_rows,
		[ARRAY_ROUNDS] = skel->maps.rounds,
		[ARRAY_LATENCIES] = skel->maps.latency_rows,
	};
	int r = fill_reasons(c, skel);

	if (!r)
		r = maps_fill_queue(skel->maps.free_keys);
	if (!r)
		r = maps_fill_queue(skel->maps.free_latencies);
	for (size_t i = 0; !r && i < ARRAYS; i++)
		r = maps_map_array(maps[i], false, &c->mapped[i]);
	if (r)
		return r;
	c->filter_tgid = &skel->data->filter_tgid;
	return banks_open(
	    &(struct bank_arrays){
		.counting = &skel->data->counting,
		.counts = c->mapped[ARRAY_COUNTS].at,
		.n_cpus = cpus_possible(),
		.n_slots = c->n_slots,
		.stride = c->stride,
		.keys = c->mapped[ARRAY_KEYS].at,
		.n_keys = c->mapped[ARRAY_KEYS].n,
		.rounds = c->by_round ? c->mapped[ARRAY_ROUNDS].at : NULL,
	    },
	    &c->banks);
}

/* Why tracepoint @i could not be attached to: -errno.  0: it was. */
static int refusal(const struct counters *c, size_t i)
{
	const char *own = (int)i == c->parents[REASON_EXIT]    ? "exit"
			  : (int)i == c->parents[REASON_UEXIT] ? "userspace_exit"
							       : NULL;
	const struct hook_choice *choice;
	int code = -ENOTSUP;
	size_t n;

	if (!own || hooks_tag(c->hooks, own, -1) == 0)
		return c->events->v[i].refusal;
	choice = hooks_choices(c->hooks, &n);
	for (size_t k = 0; k < n; k++)
		if (strcmp(choice[k].event, own) == 0 && choice[k].code)
			code = choice[k].code;
	return code;
}

/* What could not be attached to is not among the events any more; an error when nothing is left. */
static int leave_out_skipped(struct counters *c, struct error *err)
{
	size_t attached = 0;
	struct error why;
	int last = 0;

	for (size_t i = 0; i < c->n_names; i++) {
		int code = refusal(c, i);

		if (c->events->v[i].off)
			continue;
		attached += !code;
		if (!code)
			continue;
		last = code;
		c->events->v[i].off = true;
		if (code == -EACCES && preflight_perf(&why))
			report_line("%s is not counted: %s (%s)", c->names[i], why.what, why.hint);
		else
			report_line("%s is not counted: %s", c->names[i], strerror(-code));
	}
	if (attached || !last)
		return 0;
	return error_set(err, STATUS_UNSUPPORTED, last, "cannot attach to any event of kvm: %s",
			 strerror(-last));
}

int counters_begin(struct counters *c, const struct kvm_bpf *skel, struct banks **out,
		   struct error *err)
{
	int r = open_maps(c, skel);

	if (limits_is_shortage(r))
		return limits_error(r, "map the BPF arrays", err);
	if (r)
		return error_set(err, STATUS_FAILED, r, "cannot fill the BPF maps: %s",
				 strerror(-r));
	r = leave_out_skipped(c, err);
	/* With a COMMAND alone nothing runs yet. */
	if (!r && c->by_round && !c->command)
		nanosleep(&(struct timespec){ .tv_nsec = ACQUAINT_NS }, NULL);
	*out = c->banks;
	return r;
}

void counters_follow(struct counters *c, uint32_t tgid)
{
	if (c)
		__atomic_store_n(c->filter_tgid, tgid, __ATOMIC_RELAXED);
}

void counters_close(struct counters *c)
{
	if (!c)
		return;
	banks_close(c->banks);
	for (size_t i = 0; i < ARRAYS; i++)
		maps_unmap(&c->mapped[i]);
	reasons_free(c->reasons);
	tracefs_free_names(c->names, c->n_names);
	free(c);
}

/* ---- read ---- */

/* The event that @key counts for, added when it is a reason without a name; -ENOMEM. */
static int event_of_key(struct counters *c, const struct kvm_key *key)
{
	enum reason_event which =
	    (int)key->event == c->parents[REASON_EXIT] ? REASON_EXIT : REASON_UEXIT;
	char name[REASON_NAME_SIZE];

	if (key->class == KVM_NONE && key->reason == KVM_NONE)
		return (int)key->event;
	reason_name(c->reasons, which, key->class, key->reason, name);
	return events_add_child(c->events, (int)key->event, name, false);
}

/* Sets what there is of each event in all.  Rows of processes are counted there, too. */
static int read_rest(struct counters *c, struct kvm_counts *by_process)
{
	int r = 0;

	for (size_t i = 0; i < c->n_slots; i++)
		c->events->v[i].rest = banks_slot(c->banks, i);
	for (size_t i = 0; r >= 0 && i < c->mapped[ARRAY_KEYS].n; i++) {
		struct kvm_key key;
		uint64_t count = banks_key(c->banks, i, &key);

		r = count ? event_of_key(c, &key) : 0;
		if (r < 0 || !count)
			continue;
		c->events->v[r].rest += key.tgid ? -count : count;
		if (key.tgid)
			r = counts_add(by_process, key.tgid, (size_t)r, count);
	}
	return r;
}

int counters_read(struct counters *c, struct kvm_counts *counts, struct error *err)
{
	int r = read_rest(c, counts);

	for (size_t i = 0; r >= 0 && i < c->events->n; i++) {
		r = counts_add(counts, *c->filter_tgid, i, c->events->v[i].rest);
		c->events->v[i].rest = 0;
	}
	banks_reset(c->banks);
	return r < 0 ? error_no_memory(err) : 0;
}

int counters_read_latencies(struct counters *c, struct latency *to, struct error *err)
{
	int r = latency_read(to, c->mapped[ARRAY_LATENCIES].at, c->mapped[ARRAY_LATENCIES].n,
			     banks_active(c->banks), err);
	char name[REASON_NAME_SIZE];

	for (size_t i = 0; r >= 0 && i < to->n; i++) {
		const struct kvm_latency_key *key = &to->rows[i].key;

		reason_name(c->reasons, REASON_EXIT, key->class, key->reason, name);
		r = events_add_child(c->events, c->parents[REASON_EXIT], name, false);
		to->rows[i].event = (size_t)r;
	}
	return r < 0 ? error_no_memory(err) : 0;
}
