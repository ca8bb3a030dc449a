// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/counters.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cmd/kvm/banks.h"
#include "cmd/kvm/filter.h"
#include "cmd/maps.h"
#include "core/system/cpus.h"
#include "core/system/event_format.h"
#include "core/system/limits.h"
#include "core/system/preflight.h"
#include "core/system/tracefs.h"
#include "core/bpf/tracepoints.h"
#include "probes/kvm.h"
#include "probes/kvm.skel.h"

#define GROUP	    "kvm"
#define PLACEHOLDER 0x107ace0c00c1eULL /* of count_each in probes/kvm.bpf.c */

/* Those of the programs, and what the kernel says. */
enum { ROW_MISSED = KVM_LOSSES, LOSS_ROWS };

_Static_assert(LOSS_ROWS == COUNTERS_LOSSES, "a row for each loss");

struct counters {
	struct counters_wants wants;
	struct kvm_events *events;
	char **names; /* of the tracepoints, number by number; events[i] is tracepoint i */
	size_t n_names;
	struct reasons *reasons;
	int parents[REASON_EVENTS]; /* kvm_exit and kvm_userspace_exit, -1: not there */
	uint32_t entry_vcpu;	    /* offset in kvm_entry's record */
	int *slot_event;	    /* which event a slot counts for */
	uint32_t *reason_slot;	    /* which slot a named reason has */
	size_t n_slots, stride;
	struct hook_choice choices[COUNTERS_CHOICES];
	size_t n_choices;
	enum tracepoint_way way;
	bool exits_twice; /* a raw program, too, sees kvm_exit: probes/kvm.bpf.c */
	struct kvm_bpf *skel;
	struct tracepoints *tracepoints;
	struct bank_arrays arrays;
	size_t counts_size, keys_size;
	struct banks *banks;
	const struct kvm_latency_row *latencies;
	size_t n_latencies, latencies_size;
	struct loss losses[COUNTERS_LOSSES];
	uint64_t losses_before[COUNTERS_LOSSES];
};

static int no_memory(struct error *err)
{
	return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
}

/* ---- what there is ---- */

static int open_reasons(struct counters *c)
{
	char *exits = tracefs_format(NULL, GROUP, "kvm_exit");
	char *uexits = tracefs_format(NULL, GROUP, "kvm_userspace_exit");
	struct utsname uts;
	int r;

	uname(&uts);
	r = reasons_open(exits, uexits, reasons_cpu("/proc/cpuinfo", uts.machine), &c->reasons);
	free(exits);
	free(uexits);
	return r;
}

static int find_entry_field(struct counters *c)
{
	char *text = tracefs_format(NULL, GROUP, "kvm_entry");
	const struct event_field *field;
	struct event_format format;
	int r;

	if (!text)
		return 0;
	r = event_format_parse(text, &format);
	free(text);
	if (r)
		return r;
	field = event_format_field(&format, "vcpu_id");
	c->entry_vcpu = field && field->size == 4 ? field->offset : 0;
	event_format_free(&format);
	return 0;
}

/* Slots: first the tracepoints by their numbers, then the names of the reasons. */
static int make_slots(struct counters *c)
{
	size_t n;
	const struct reason *list = reasons_list(c->reasons, &n);
	uint32_t slot;

	c->slot_event = calloc(c->n_names + n, sizeof(*c->slot_event));
	c->reason_slot = calloc(n ? n : 1, sizeof(*c->reason_slot));
	if (!c->slot_event || !c->reason_slot)
		return -ENOMEM;
	for (c->n_slots = 0; c->n_slots < c->n_names; c->n_slots++)
		c->slot_event[c->n_slots] = (int)c->n_slots;
	for (size_t i = 0; i < n; i++) {
		int parent = c->parents[list[i].event], event;

		if (parent < 0)
			continue;
		event = events_add_child(c->events, parent, list[i].name, list[i].listed);
		if (event < 0)
			return event;
		for (slot = 0; slot < c->n_slots; slot++)
			if (c->slot_event[slot] == event)
				break;
		if (slot == c->n_slots)
			c->slot_event[c->n_slots++] = event;
		c->reason_slot[i] = slot;
	}
	/* No two CPUs in one cache line. */
	c->stride = (c->n_slots + 7) / 8 * 8;
	return 0;
}

static bool asked_for(const struct counters *c, int event)
{
	return kvm_filter_matches(c->wants.only, c->events->v[event].name);
}

/* Without a reason to count it, and with none of its children asked for, an event stays alone. */
static void leave_out(struct counters *c)
{
	for (size_t i = 0; i < c->n_names; i++) {
		bool wanted = asked_for(c, (int)i);
		bool parent =
		    (int)i == c->parents[REASON_EXIT] || (int)i == c->parents[REASON_UEXIT];

		for (size_t k = 0; !wanted && parent && k < c->events->n; k++)
			wanted = c->events->v[k].parent == (int)i && asked_for(c, (int)k);
		wanted = wanted || (parent && kvm_filter_matches_unnamed(
						  c->wants.only, c->wants.pattern, c->events, i));
		c->events->v[i].off = !wanted;
	}
	/* The latency is that of exits. */
	if (c->wants.latency && c->parents[REASON_EXIT] >= 0)
		c->events->v[c->parents[REASON_EXIT]].off = false;
}

static int make_events(struct counters *c, struct error *err)
{
	int r = tracefs_events(NULL, GROUP, &c->names, &c->n_names, err);

	if (r == -ENOENT && preflight_access("/sys/kernel/tracing/events", F_OK) == 0) {
		error_set(err, STATUS_UNSUPPORTED, r, "kvm is not loaded");
		error_hint(err, "modprobe kvm_intel or kvm_amd");
	}
	if (r)
		return r;
	for (size_t i = 0; !r && i < c->n_names; i++)
		r = events_add(c->events, c->names[i], -1, true) < 0 ? -ENOMEM : 0;
	if (!r)
		r = open_reasons(c);
	if (!r)
		r = find_entry_field(c);
	if (r)
		return no_memory(err);
	c->parents[REASON_EXIT] = events_find(c->events, "kvm_exit");
	c->parents[REASON_UEXIT] = events_find(c->events, "kvm_userspace_exit");
	if (!reasons_fields(c->reasons).exit_reason)
		c->parents[REASON_EXIT] = -1;
	if (!reasons_fields(c->reasons).uexit_reason || !reasons_fields(c->reasons).uexit_errno)
		c->parents[REASON_UEXIT] = -1;
	if (make_slots(c))
		return no_memory(err);
	leave_out(c);
	return 0;
}

/* ---- hooks ---- */

/* A hook that has no alternative. */
static void add_choice(struct counters *c, const char *event, bool raw, const char *target)
{
	c->choices[c->n_choices++] = (struct hook_choice){
		.event = event,
		.kind = raw ? "raw_tp" : "tp",
		.target = target,
		.chosen = true,
		.usable = true,
	};
}

static int choose(struct counters *c, struct error *err)
{
	bool raw;
	int r;

	r = tracepoints_choose("count", GROUP "/*", c->wants.args->hooks, c->choices, err);
	c->n_choices = TRACEPOINT_WAYS;
	if (r < 0)
		return r;
	c->way = (enum tracepoint_way)r;
	raw = c->way != TRACEPOINT_TP_COOKIE;
	/* Where classic ones come first tracepoints are preempted, between two programs too. */
	c->exits_twice = raw && strcmp(c->choices[0].kind, "tp+cookie") != 0;
	if (c->parents[REASON_EXIT] >= 0)
		add_choice(c, "exit", false, GROUP "/kvm_exit");
	if (c->parents[REASON_UEXIT] >= 0)
		add_choice(c, "userspace_exit", raw, GROUP "/kvm_userspace_exit");
	if (c->wants.latency)
		add_choice(c, "entry", raw, GROUP "/kvm_entry");
	return 0;
}

/* "--hook EVENT=..." of an event that is not ours. */
static int check_forced(const struct args *args, struct error *err)
{
	for (size_t i = 0; args->hooks[i]; i++) {
		if (strncmp(args->hooks[i], "count=", 6) == 0)
			continue;
		error_set(err, STATUS_USAGE, -EINVAL, "no such hook '%.100s'", args->hooks[i]);
		error_hint(err, "--list-hooks lists those of this subcommand");
		return -EINVAL;
	}
	return 0;
}

int counters_open(const struct counters_wants *wants, struct kvm_events *events,
		  struct counters **out, struct error *err)
{
	struct counters *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return no_memory(err);
	c->wants = *wants;
	c->events = events;
	r = check_forced(wants->args, err);
	if (!r)
		r = make_events(c, err);
	if (!r && wants->latency && c->parents[REASON_EXIT] < 0) {
		r = error_set(err, STATUS_UNSUPPORTED, -ENODATA,
			      "this kernel's kvm_exit has no exit reason");
		error_hint(err, "run without -x");
	}
	if (!r)
		r = choose(c, err);
	if (r && r != -ENOTSUP) {
		counters_close(c);
		return r;
	}
	*out = c;
	return r;
}

const struct hook_choice *counters_choices(const struct counters *c, size_t *n)
{
	*n = c->n_choices;
	return c->choices;
}

/* ---- load ---- */

#define ROWS_OF_GUESTS 16384 /* with by_guest */
#define ROWS_OF_OTHERS 256
#define VCPU_THREADS   16384
#define LATENCY_ROWS   4096 /* vCPUs x reasons that each has met: 11 MB */

static size_t n_counts(const struct counters *c)
{
	return c->arrays.n_cpus * KVM_BANKS * c->arrays.stride;
}

static int size_maps(struct counters *c)
{
	uint32_t rows = c->wants.args->map_rows;
	struct kvm_bpf *skel = c->skel;

	c->arrays = (struct bank_arrays){
		.n_cpus = cpus_possible(),
		.n_slots = c->n_slots,
		.stride = c->stride,
		.n_keys = rows		      ? rows
			  : c->wants.by_guest ? ROWS_OF_GUESTS
					      : ROWS_OF_OTHERS,
	};
	c->n_latencies = !c->wants.latency ? 1 : rows ? rows : LATENCY_ROWS;

	const struct map_size sizes[] = {
		{ skel->maps.counts, (uint32_t)n_counts(c) },
		{ skel->maps.keyed, (uint32_t)c->arrays.n_keys },
		{ skel->maps.free_keys, (uint32_t)c->arrays.n_keys },
		{ skel->maps.key_rows, (uint32_t)c->arrays.n_keys },
		{ skel->maps.pending, c->wants.latency ? VCPU_THREADS : 1 },
		{ skel->maps.latencies, (uint32_t)c->n_latencies },
		{ skel->maps.free_latencies, (uint32_t)c->n_latencies },
		{ skel->maps.latency_rows, (uint32_t)c->n_latencies },
	};

	return maps_resize(sizes, sizeof(sizes) / sizeof(sizes[0]));
}

static void set_options(struct counters *c)
{
	const struct reason_fields f = reasons_fields(c->reasons);
	struct kvm_bpf__rodata *o = c->skel->rodata;

	o->n_slots = (uint32_t)c->stride;
	o->filter_tgid = c->wants.tgid;
	o->by_guest = c->wants.by_guest;
	o->latency = c->wants.latency;
	o->exit_event = (uint32_t)c->parents[REASON_EXIT];
	o->uexit_event = (uint32_t)c->parents[REASON_UEXIT];
	o->exits_twice = c->exits_twice;
	o->exit_reason_off = f.exit_reason;
	o->exit_class_off = f.exit_class;
	o->exit_vcpu_off = f.exit_vcpu;
	o->entry_vcpu_off = c->entry_vcpu;
	o->uexit_reason_off = f.uexit_reason;
	o->uexit_errno_off = f.uexit_errno;
}

/* The program that counts all events by the way that was chosen. */
static struct bpf_program *count_program(const struct counters *c)
{
	switch (c->way) {
	case TRACEPOINT_TP_COOKIE:
		return c->skel->progs.count_tp;
	case TRACEPOINT_RAW_COOKIE:
		return c->skel->progs.count_raw;
	case TRACEPOINT_RAW_EACH:
	case TRACEPOINT_WAYS:
		break;
	}
	return c->skel->progs.count_each;
}

static void select_programs(struct counters *c)
{
	bool raw = c->way != TRACEPOINT_TP_COOKIE;
	struct bpf_program *prog;

	bpf_object__for_each_program (prog, c->skel->obj)
		bpf_program__set_autoload(prog, false);
	bpf_program__set_autoload(count_program(c), true);
	if (c->parents[REASON_EXIT] >= 0)
		bpf_program__set_autoload(c->skel->progs.exit_tp, true);
	if (c->parents[REASON_UEXIT] >= 0)
		bpf_program__set_autoload(raw ? c->skel->progs.uexit_raw : c->skel->progs.uexit_tp,
					  true);
	if (c->wants.latency)
		bpf_program__set_autoload(raw ? c->skel->progs.entry_raw : c->skel->progs.entry_tp,
					  true);
}

/* Tells the programs which reasons have a slot. */
static int fill_reasons(const struct counters *c)
{
	int fd = bpf_map__fd(c->skel->maps.reasons);
	size_t n;
	const struct reason *list = reasons_list(c->reasons, &n);

	for (size_t i = 0; i < n; i++) {
		struct kvm_key key = { (uint32_t)c->parents[list[i].event], list[i].class,
				       list[i].reason, 0 };

		if (c->parents[list[i].event] >= 0 &&
		    bpf_map_update_elem(fd, &key, &c->reason_slot[i], BPF_ANY))
			return -errno;
	}
	return 0;
}

static int map_arrays(struct counters *c)
{
	const struct kvm_bpf *skel = c->skel;
	void *counts = NULL, *keys = NULL, *latencies = NULL;
	int r;

	c->counts_size = n_counts(c) * sizeof(*c->arrays.counts);
	c->keys_size = c->arrays.n_keys * sizeof(*c->arrays.keys);
	c->latencies_size = c->n_latencies * sizeof(*c->latencies);
	c->arrays.active = &c->skel->data->active_bank;
	r = maps_map_array(skel->maps.counts, c->counts_size, false, &counts);
	if (!r)
		r = maps_map_array(skel->maps.key_rows, c->keys_size, false, &keys);
	if (!r)
		r = maps_map_array(skel->maps.latency_rows, c->latencies_size, false, &latencies);
	c->arrays.counts = counts;
	c->arrays.keys = keys;
	c->latencies = latencies;
	return r;
}

static int load(struct counters *c, struct error *err)
{
	int r;

	c->skel = kvm_bpf__open();
	if (!c->skel) {
		r = error_set(err, STATUS_FAILED, -errno, "cannot open the BPF object: %s",
			      strerror(errno));
		limits_hint(r, err);
		return r;
	}
	set_options(c);
	select_programs(c);
	/* An attachment for each event; of a copy of a program, that copy too. */
	r = hooks_need_files(c->skel->obj,
			     c->way == TRACEPOINT_RAW_EACH ? 2 * c->n_names : c->n_names, err);
	if (r)
		return r;
	r = size_maps(c);
	if (!r)
		r = kvm_bpf__load(c->skel);
	if (!r)
		r = fill_reasons(c);
	if (!r)
		r = maps_fill_queue(c->skel->maps.free_keys, c->arrays.n_keys);
	if (!r)
		r = maps_fill_queue(c->skel->maps.free_latencies, c->n_latencies);
	if (!r)
		r = map_arrays(c);
	if (r)
		return hooks_load_error(r, err);
	return banks_open(&c->arrays, &c->banks) ? no_memory(err) : 0;
}

/* ---- attach ---- */

/* The event @i by all the programs that count it. */
static int attach_event(struct counters *c, int i)
{
	struct kvm_bpf *skel = c->skel;
	bool raw = c->way != TRACEPOINT_TP_COOKIE;
	const char *name = c->names[i];
	int r;

	if (i == c->parents[REASON_UEXIT])
		return raw ? tracepoints_attach_raw(c->tracepoints, name, skel->progs.uexit_raw, -1)
			   : tracepoints_attach_tp(c->tracepoints, GROUP, name,
						   skel->progs.uexit_tp, -1);
	if (i == c->parents[REASON_EXIT]) {
		r = tracepoints_attach_tp(c->tracepoints, GROUP, name, skel->progs.exit_tp, -1);
		if (r || !c->exits_twice)
			return r;
	}
	return tracepoints_attach(c->tracepoints, c->way, GROUP, name, count_program(c), i,
				  PLACEHOLDER);
}

static int attach_entry(struct counters *c)
{
	if (c->way == TRACEPOINT_TP_COOKIE)
		return tracepoints_attach_tp(c->tracepoints, GROUP, "kvm_entry",
					     c->skel->progs.entry_tp, -1);
	return tracepoints_attach_raw(c->tracepoints, "kvm_entry", c->skel->progs.entry_raw, -1);
}

void counters_only(struct counters *c, uint32_t tgid)
{
	c->wants.tgid = tgid;
}

int counters_attach(struct counters *c, void (*skipped)(const char *name, int code),
		    struct error *err)
{
	size_t attached = 0, wanted = 0;
	int r, last = 0;

	r = load(c, err);
	if (r)
		return r;
	if (tracepoints_open(&c->tracepoints))
		return no_memory(err);
	r = c->wants.latency ? attach_entry(c) : 0;
	if (limits_is_shortage(r))
		return limits_error(r, "attach to kvm_entry", err);
	if (r)
		return error_set(err, STATUS_UNSUPPORTED, r, "cannot attach to kvm_entry: %s",
				 strerror(-r));
	for (size_t i = 0; i < c->n_names; i++) {
		if (c->events->v[i].off)
			continue;
		wanted++;
		r = attach_event(c, (int)i);
		if (!r) {
			attached++;
			continue;
		}
		if (limits_is_shortage(r))
			return limits_error(r, "attach to all events of kvm", err);
		last = r;
		c->events->v[i].off = true;
		skipped(c->names[i], r);
	}
	if (!attached && wanted)
		return error_set(err, STATUS_UNSUPPORTED, last,
				 "cannot attach to any event of kvm: %s", strerror(-last));
	/* Attaching may take a second in all. */
	c->losses_before[ROW_MISSED] = tracepoints_missed(c->tracepoints);
	banks_start(c->banks);
	return 0;
}

void counters_swap(struct counters *c)
{
	if (c)
		banks_swap(c->banks);
}

void counters_stop(struct counters *c)
{
	if (c)
		banks_stop(c->banks);
}

void counters_close(struct counters *c)
{
	if (!c)
		return;
	tracepoints_close(c->tracepoints);
	banks_close(c->banks);
	if (c->arrays.counts)
		munmap((void *)c->arrays.counts, c->counts_size);
	if (c->arrays.keys)
		munmap((void *)c->arrays.keys, c->keys_size);
	if (c->latencies)
		munmap((void *)c->latencies, c->latencies_size);
	kvm_bpf__destroy(c->skel);
	reasons_free(c->reasons);
	tracefs_free_names(c->names, c->n_names);
	free(c->slot_event);
	free(c->reason_slot);
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

/* Adds what has no slot of its own and is of process @tgid (0: of none). */
static int read_keyed(struct counters *c, uint32_t tgid, struct error *err)
{
	for (size_t i = 0; i < c->arrays.n_keys; i++) {
		struct kvm_key key;
		uint64_t count = banks_key(c->banks, i, &key);
		int event;

		if (!count || key.tgid != tgid)
			continue;
		event = event_of_key(c, &key);
		if (event < 0)
			return no_memory(err);
		c->events->v[event].total += count;
	}
	return 0;
}

void counters_reset(struct counters *c)
{
	if (c)
		banks_reset(c->banks);
}

int counters_read(struct counters *c, uint32_t tgid, struct error *err)
{
	size_t n_own = c->events->n;

	for (size_t i = 0; i < n_own; i++)
		if (i < c->n_names || c->events->v[i].parent >= 0)
			c->events->v[i].total = 0;
	for (size_t slot = 0; !tgid && slot < c->n_slots; slot++)
		c->events->v[c->slot_event[slot]].total += banks_slot(c->banks, slot);
	return read_keyed(c, tgid, err);
}

int counters_each_guest(struct counters *c,
			int (*each)(void *ctx, uint32_t tgid, int event, uint64_t total), void *ctx,
			struct error *err)
{
	for (size_t i = 0; i < c->arrays.n_keys; i++) {
		struct kvm_key key;
		uint64_t count = banks_key(c->banks, i, &key);
		int event, r;

		if (!count || !key.tgid)
			continue;
		event = event_of_key(c, &key);
		r = event < 0 ? event : each(ctx, key.tgid, event, count);
		if (r == -ENOMEM)
			return no_memory(err);
		if (r)
			return r;
	}
	return 0;
}

/* ---- losses ---- */

static const struct {
	const char *key, *text;
} loss_names[] = {
	[KVM_LOSS_KEYS_FULL] = { "rows_full", "events not shown by guest or reason: map full" },
	[KVM_LOSS_LATENCY_FULL] = { "latency_full", "exits not timed: no room for another vCPU" },
	[KVM_LOSS_PENDING_FULL] = { "threads_full", "exits not timed: no room for another thread" },
	[KVM_LOSS_NO_ENTRY] = { "no_entry", "exits whose entry was not seen" },
	[KVM_LOSS_CLOCK] = { "clock", "entries before their exit: the clock went backwards" },
	[KVM_LOSS_NO_REASON] = { "no_reason", "kvm_exit events whose reason no program saw" },
	[ROW_MISSED] = { "missed", "events missed: the program was already running on that CPU" },
};

const struct loss *counters_losses(struct counters *c)
{
	for (size_t i = 0; i < COUNTERS_LOSSES; i++) {
		uint64_t now = i == ROW_MISSED
				   ? tracepoints_missed(c->tracepoints)
				   : __atomic_load_n(&c->skel->bss->losses[i], __ATOMIC_RELAXED);

		c->losses[i].key = loss_names[i].key;
		c->losses[i].text = loss_names[i].text;
		c->losses[i].count = now > c->losses_before[i] ? now - c->losses_before[i] : 0;
		if (now > c->losses_before[i])
			c->losses_before[i] = now;
	}
	return c->losses;
}

const struct kvm_latency_row *counters_latencies(const struct counters *c, size_t *n)
{
	*n = c->n_latencies;
	return c->latencies;
}

const struct reasons *counters_reasons(const struct counters *c)
{
	return c->reasons;
}

int counters_exit_event(const struct counters *c)
{
	return c->parents[REASON_EXIT];
}
