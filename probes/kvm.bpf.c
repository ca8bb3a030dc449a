// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace kvm: counts the events of the tracepoint group kvm, and exits by reason.
 *
 * The counters are one array, mapped into user space: a row per CPU and bank, in it a slot for each
 * event and each reason with a name.  User space does not read them by system calls on the map:
 * during one, even while its caller is preempted, the kernel runs no classic tracepoint program on
 * that CPU (bpf_prog_active), and not all kernels count the missed events.
 *
 * All programs count in the active bank.  To end an interval, user space activates the other bank:
 * at one moment for all programs, except that a vCPU ends its round first.  Counters only grow: the
 * total is the sum of both banks.
 */
#include "probes/kernel.h"

#include "probes/kvm.h"

const volatile __u32 n_slots = 1;	 /* a CPU's row in counts */
const volatile bool one_process = false; /* filter_tgid alone */
const volatile bool by_guest = false;	 /* count per process too, in `keyed` */
const volatile bool latency = false;
const volatile __u32 exit_event = KVM_NONE; /* number of kvm_exit */
const volatile __u32 uexit_event = KVM_NONE;
const volatile __u32 entry_event = KVM_NONE;
const volatile __u32 fpu_event = KVM_NONE;
const volatile bool by_round = false; /* more than one event: they must agree */
const volatile bool all_seen = false; /* among them those with which rounds begin */
/* Two programs see a kvm_exit: first exit_tp, which has the record with the reason, then a raw
 * tracepoint's program, which the kernel skips less often. */
const volatile bool exits_twice = false;
/* Offsets of fields in the records, from the `format` files. */
const volatile __u32 exit_reason_off = 0;
const volatile __u32 exit_class_off = 0; /* 0: no such field */
/* 0: no such field (arm64) */
const volatile __u32 exit_vcpu_off = 0;
const volatile __u32 entry_vcpu_off = 0;
const volatile __u32 uexit_reason_off = 0;
const volatile __u32 uexit_errno_off = 0;

__u64 losses[KVM_LOSSES];

/* The bank to count in: probes/kvm.h.  None: not all programs are attached yet, or the run is over.
 */
__u32 counting = KVM_BANKS;

__u32 filter_tgid = 1; /* another one where a guest comes back */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* CPUs x KVM_BANKS x n_slots */
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

/* Slots of the reasons that have a name; filled before anything is attached. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct kvm_key);
	__type(value, __u32);
} reasons SEC(".maps");

/*
 * The number of a key's row in key_rows, which is also mapped into user space: for reasons without
 * a name, and with by_guest for everything per process. free_keys holds the numbers of free rows.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct kvm_key);
	__type(value, __u32);
} keyed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} free_keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct kvm_key_row);
} key_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32); /* thread */
	__type(value, struct kvm_pending);
} pending SEC(".maps");

/* With exits_twice: the thread whose kvm_exit only the first program has seen so far. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} exiting SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} rounds SEC(".maps");

/* The same as keyed, free_keys and key_rows, for the times. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct kvm_latency_key);
	__type(value, __u32);
} latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1);
	__type(value, __u32);
} free_latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct kvm_latency_row);
} latency_rows SEC(".maps");

/* ---- counting ---- */

/* The bank of a round that began in @bank. */
static __always_inline __u32 bank_since(__u32 word, __u32 bank)
{
	return word & KVM_CHANGING && bank == KVM_BANK_BEFORE(word) ? bank : word & KVM_BANK_MASK;
}

/*
 * The bank to count @event in; called once per event.  Events of a round count in the bank that was
 * active when it began: events that occur once in each round agree exactly.  A round ends with
 * kvm_entry or, for a guest that the kernel emulates and never enters, when KVM_RUN has @returned.
 */
static __always_inline __u32 bank_of(__u32 event, bool returned)
{
	__u32 word = *(volatile __u32 *)&counting, bank = word & KVM_BANK_MASK;
	__u32 tid, at, flags = KVM_ROUND_OPEN;
	bool returns = event == uexit_event, enters = event == entry_event;
	bool starts = word & KVM_CHANGING && KVM_BANK_BEFORE(word) == KVM_BANKS;
	__u64 *round, was, is;

	/* While no change of banks is going on it is enough to note where rounds begin and end. */
	if (!by_round || (all_seen && bank < KVM_BANKS && !(word & KVM_CHANGING) && !returns &&
			  !enters && event != exit_event && event != fpu_event))
		return bank;
	tid = bpf_get_current_pid_tgid();
	at = tid % KVM_ROUNDS;
	round = bpf_map_lookup_elem(&rounds, &at);
	if (!round)
		return bank;
	was = *(volatile __u64 *)round;
	/* When the run starts any thread may be in the middle of a round; later, a thread that is
	 * not known to run a vCPU has no rounds. */
	if (was >> 32 != tid ||
	    ((__u32)was == (KVM_ROUND_OPEN | KVM_BANKS) && !starts && bank < KVM_BANKS)) {
		if (!returns && !enters && event != exit_event && !starts)
			return bank;
		was = event == exit_event ? 0 : KVM_ROUND_OPEN | KVM_BANK_BEFORE(word);
	}
	if (was & KVM_ROUND_OPEN)
		bank = bank_since(word, was & KVM_BANK_MASK);
	if (enters)
		flags = KVM_ROUND_ENTERED;
	else if (!returns)
		flags |= was & KVM_ROUND_ENTERED;
	else if (returned && !(was & KVM_ROUND_ENTERED))
		flags = 0;
	is = (__u64)tid << 32 | flags | bank;
	if (is != was)
		*(volatile __u64 *)round = is;
	return bank;
}

/* Atomic, though only this CPU writes: an interrupt may bring another event. */
static __always_inline void add_slot(__u32 bank, __u32 slot)
{
	__u32 at = (bpf_get_smp_processor_id() * KVM_BANKS + bank) * n_slots + slot;
	__u64 *n = bpf_map_lookup_elem(&counts, &at);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/*
 * The row of @key_ptr in @rows, by @index.  A new key gets a free row; NULL: no row is free.  The
 * key is in the row before another CPU can find it.
 */
#define ROW_OF(index, free, rows, key_ptr)                                                         \
	({                                                                                         \
		__u32 *__at = bpf_map_lookup_elem(&index, key_ptr), __slot = 0;                    \
		bool __have = true;                                                                \
		typeof(rows.value) __row = NULL;                                                   \
		if (__at) {                                                                        \
			__slot = *__at;                                                            \
		} else if (bpf_map_pop_elem(&free, &__slot)) {                                     \
			__have = false;                                                            \
		} else {                                                                           \
			__row = bpf_map_lookup_elem(&rows, &__slot);                               \
			if (__row)                                                                 \
				__row->key = *(key_ptr);                                           \
			if (bpf_map_update_elem(&index, key_ptr, &__slot, BPF_NOEXIST)) {          \
				/* EEXIST: another CPU was faster. */                              \
				bpf_map_push_elem(&free, &__slot, 0);                              \
				__at = bpf_map_lookup_elem(&index, key_ptr);                       \
				__have = __at;                                                     \
				if (__at)                                                          \
					__slot = *__at;                                            \
			}                                                                          \
		}                                                                                  \
		__row = __have ? bpf_map_lookup_elem(&rows, &__slot) : NULL;                       \
		__row;                                                                             \
	})

static __always_inline void add_keyed(__u32 bank, const struct kvm_key *key)
{
	struct kvm_key_row *row = ROW_OF(keyed, free_keys, key_rows, key);

	if (!row) {
		count_loss(&losses[KVM_LOSS_KEYS_FULL], 1);
		return;
	}
	barrier_var(bank); /* without it, values on the stack have no bounds for older verifiers */
	__sync_fetch_and_add(&row->counts[bank & (KVM_BANKS - 1)], 1);
}

/* The process to count for; 0: do not count. */
static __always_inline __u32 counted_tgid(void)
{
	__u32 tgid;

	if (!one_process && !by_guest && !latency)
		return 1;
	tgid = bpf_get_current_pid_tgid() >> 32;
	if (one_process && tgid != *(volatile __u32 *)&filter_tgid)
		return 0;
	/* The idle task (process 0) runs no guest: it counts for all processes. */
	return tgid ? tgid : 1;
}

static __always_inline void count_event(__u32 bank, __u32 event, __u32 tgid)
{
	struct kvm_key key = { event, KVM_NONE, KVM_NONE, tgid };

	add_slot(bank, event);
	if (by_guest)
		add_keyed(bank, &key);
}

static __always_inline void count_reason(__u32 bank, __u32 event, __u32 class, __u32 reason,
					 __u32 tgid)
{
	struct kvm_key key = { event, class, reason, 0 };
	__u32 *slot = bpf_map_lookup_elem(&reasons, &key);

	if (slot)
		add_slot(bank, *slot);
	else
		add_keyed(bank, &key);
	if (by_guest) {
		key.tgid = tgid;
		add_keyed(bank, &key);
	}
}

/*
 * For the second program of this kvm_exit.  A tracepoint calls its probes in the order of
 * registration, before 7.0 without being preempted: perf's probe, which runs the first program,
 * comes first.
 */
static __always_inline void announce_exit(void)
{
	__u32 zero = 0, *tid = bpf_map_lookup_elem(&exiting, &zero);

	if (tid)
		*tid = bpf_get_current_pid_tgid();
}

/* Has the first program counted this kvm_exit? */
static __always_inline bool exit_announced(void)
{
	__u32 zero = 0, *tid = bpf_map_lookup_elem(&exiting, &zero);

	if (!tid || *tid != (__u32)bpf_get_current_pid_tgid())
		return false;
	*tid = 0;
	return true;
}

static __always_inline void on_event(__u32 event)
{
	bool is_exit = exits_twice && event == exit_event;
	__u32 bank, tgid;

	if (is_exit && exit_announced())
		return;
	tgid = counted_tgid();
	if (!tgid)
		return;
	bank = bank_of(event, true);
	if (bank >= KVM_BANKS)
		return;
	count_event(bank, event, tgid);
	if (is_exit)
		count_loss(&losses[KVM_LOSS_NO_REASON], 1);
}

/* ---- exits ---- */

static __always_inline __u32 field(void *record, __u32 offset)
{
	__u32 value = 0;

	if (offset)
		bpf_probe_read_kernel(&value, sizeof(value), record + offset);
	return value;
}

static __always_inline struct kvm_latency *latency_of(const struct kvm_latency_key *key)
{
	struct kvm_latency_row *row = ROW_OF(latencies, free_latencies, latency_rows, key);

	if (row)
		return &row->latency;
	count_loss(&losses[KVM_LOSS_LATENCY_FULL], 1);
	return NULL;
}

static __always_inline void note_exit(__u32 bank, __u32 class, __u32 reason, __u32 vcpu, __u32 tgid)
{
	struct kvm_pending begun = { bpf_ktime_get_ns(), class, reason, tgid, vcpu, bank, 0 };
	__u32 tid = bpf_get_current_pid_tgid();
	struct kvm_latency_key key = { class, reason, tgid, vcpu, tid, bank };
	struct kvm_pending *p = bpf_map_lookup_elem(&pending, &tid);
	struct kvm_latency *l;

	l = latency_of(&key);
	if (l)
		l->exits++;
	if (p) {
		/* The thread may have ended, and a thread of another process have its number. */
		if (p->ns && p->tgid == tgid && p->vcpu == vcpu)
			count_loss(&losses[KVM_LOSS_NO_ENTRY], 1);
		*p = begun;
	} else if (bpf_map_update_elem(&pending, &tid, &begun, BPF_ANY)) {
		count_loss(&losses[KVM_LOSS_PENDING_FULL], 1);
	}
}

static __always_inline void on_exit(void *record)
{
	__u32 tgid = counted_tgid(), bank, class, reason, vcpu;

	if (exits_twice)
		announce_exit();
	if (!tgid)
		return;
	bank = bank_of(exit_event, true);
	if (bank >= KVM_BANKS)
		return;
	reason = field(record, exit_reason_off);
	class = field(record, exit_class_off);
	vcpu = exit_vcpu_off ? field(record, exit_vcpu_off) : KVM_NONE;
	count_event(bank, exit_event, tgid);
	count_reason(bank, exit_event, class, reason, tgid);
	if (latency)
		note_exit(bank, class, reason, vcpu, tgid);
}

static __always_inline void on_entry(bool vcpu_known, __u32 vcpu)
{
	__u64 now = bpf_ktime_get_ns(), ns;
	__u32 tid = bpf_get_current_pid_tgid(), slot;
	__u32 tgid = counted_tgid();
	struct kvm_pending *p = bpf_map_lookup_elem(&pending, &tid);
	struct kvm_latency_key key = {};
	struct kvm_latency *l;

	if (!p || !p->ns || p->tgid != tgid)
		return;
	ns = p->ns;
	p->ns = 0;
	/* One thread may drive several vCPUs in turn. */
	if (vcpu_known && p->vcpu != vcpu)
		return;
	if (ns > now) {
		count_loss(&losses[KVM_LOSS_CLOCK], 1);
		return;
	}
	ns = now - ns;
	key.class = p->class;
	key.reason = p->reason;
	key.tgid = tgid;
	key.vcpu = p->vcpu;
	key.tid = tid;
	key.bank = bank_since(*(volatile __u32 *)&counting, p->bank);
	l = key.bank < KVM_BANKS ? latency_of(&key) : NULL;
	if (!l)
		return;
	slot = probe_fine_slot(ns);
	barrier_var(slot);
	if (slot >= PROBE_FINE_SLOTS)
		return;
	l->fine[slot]++;
	l->total_ns += ns;
	if (ns > l->max_ns)
		l->max_ns = ns;
}

static __always_inline void on_uexit(__u32 reason, __s32 error)
{
	__u32 tgid = counted_tgid(), bank, class = KVM_UEXIT_OK;

	if (!tgid)
		return;
	if (error < 0)
		class = error == -4 ? KVM_UEXIT_EINTR : KVM_UEXIT_ERRNO;
	bank = bank_of(uexit_event, class != KVM_UEXIT_EINTR);
	if (bank >= KVM_BANKS)
		return;
	count_event(bank, uexit_event, tgid);
	count_reason(bank, uexit_event, class, reason, tgid);
}

/*
 * ---- entry points ----
 *
 * Classic tracepoint programs return 1: 0 would hide the event from every perf user.
 */

/* One program for all events: the attachment's cookie is the event's number + 1. */
SEC("tp")
int count_tp(void *ctx)
{
	on_event(bpf_get_attach_cookie(ctx) - 1);
	return 1;
}

SEC("raw_tp")
int count_raw(void *ctx)
{
	on_event(bpf_get_attach_cookie(ctx) - 1);
	return 0;
}

/* If attachments have no cookies this is loaded once per event, with the event's number instead of
 * the constant: core/bpf/tracepoints.h. */
SEC("raw_tp")
int count_each(void *ctx)
{
	__u64 event;

	asm volatile("%0 = 0x107ace0c00c1e ll" : "=r"(event));
	on_event(event);
	return 0;
}

SEC("tp/kvm/kvm_exit")
int exit_tp(void *ctx)
{
	on_exit(ctx);
	return 1;
}

SEC("tp/kvm/kvm_entry")
int entry_tp(void *ctx)
{
	on_entry(entry_vcpu_off && exit_vcpu_off, field(ctx, entry_vcpu_off));
	return 1;
}

SEC("raw_tp/kvm_entry")
int entry_raw(void *ctx)
{
	on_entry(false, 0);
	return 0;
}

SEC("tp/kvm/kvm_userspace_exit")
int uexit_tp(void *ctx)
{
	on_uexit(field(ctx, uexit_reason_off), field(ctx, uexit_errno_off));
	return 1;
}

/* (reason, errno) in all kernels so far */
SEC("raw_tp/kvm_userspace_exit")
int uexit_raw(__u64 *ctx)
{
	on_uexit(ctx[0], ctx[1]);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
