/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_VIRTIO_ENTRY_BPF_H
#define IOTRACE_PROBES_VIRTIO_ENTRY_BPF_H

/*
 * Thin entry points: one per function and attach method.  fexit has the arguments and the result;
 * with kprobes the arguments are stored at the entry until the return.
 */

#include "probes/arch.h"

static __always_inline bool failed(u64 result)
{
	return (s32)result != 0;
}

static __always_inline struct sums sums_of_sgs(u64 sgs, u32 out, u32 in)
{
	return (struct sums){
		.out_sgs = out,
		.in_sgs = in,
		.out_bytes = strip_truncated(lists_bytes(sgs, out)),
		.in_bytes = strip_truncated(lists_bytes(sgs + out * sizeof(u64), in)),
	};
}

static __always_inline struct sums sums_of_out(u64 sg, u32 num)
{
	return (struct sums){ .out_sgs = 1, .out_bytes = strip_truncated(list_bytes(sg, num)) };
}

static __always_inline struct sums sums_of_in(u64 sg, u32 num)
{
	return (struct sums){ .in_sgs = 1, .in_bytes = strip_truncated(list_bytes(sg, num)) };
}

/* ---- fexit ---- */

#define FEXIT_PROGS(name, function, event, object, run)                                            \
	CTX_PROGS(name, "fexit/" function, event, object, run)

/* virtqueue_add_sgs(vq, sgs, out_sgs, in_sgs, data, gfp) */
static __always_inline void on_sgs_added(u64 *ctx)
{
	struct sums s;

	if (failed(ctx[6]))
		return;
	s = sums_of_sgs(load_scalar_arg(&ctx[1]), ctx[2], ctx[3]);
	on_added(load_scalar_arg(&ctx[0]), load_scalar_arg(&ctx[4]), &s);
}

FEXIT_PROGS(sgs_fx, "virtqueue_add_sgs", SEEN_ADD, ctx[4], on_sgs_added(ctx))

/* @function(vq, sg, num, data[, ctx], gfp).  @result: index of the result in ctx[]. */
#define ADD_FEXIT(name, function, direction, result)                                               \
	static __always_inline void on_##name(u64 *ctx)                                            \
	{                                                                                          \
		struct sums s;                                                                     \
                                                                                                   \
		if (failed(ctx[result]))                                                           \
			return;                                                                    \
		s = sums_of_##direction(load_scalar_arg(&ctx[1]), ctx[2]);                         \
		on_added(load_scalar_arg(&ctx[0]), load_scalar_arg(&ctx[3]), &s);                  \
	}                                                                                          \
                                                                                                   \
	FEXIT_PROGS(name, function, SEEN_ADD, ctx[3], on_##name(ctx))

ADD_FEXIT(out_fx, "virtqueue_add_outbuf", out, 5)
ADD_FEXIT(in_fx, "virtqueue_add_inbuf", in, 5)
ADD_FEXIT(in_ctx_fx, "virtqueue_add_inbuf_ctx", in, 6)
ADD_FEXIT(out_pm_fx, "virtqueue_add_outbuf_premapped", out, 5)
ADD_FEXIT(in_pm_fx, "virtqueue_add_inbuf_premapped", in, 6)
ADD_FEXIT(in_cc_fx, "virtqueue_add_inbuf_cache_clean", in, 5)

static __always_inline u32 number_at(u64 address)
{
	u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

/* virtqueue_get_buf(vq, len) */
FEXIT_PROGS(get_fx, "virtqueue_get_buf", SEEN_GET, ctx[2],
	    on_got(load_scalar_arg(&ctx[0]), load_scalar_arg(&ctx[2]),
		   number_at(load_scalar_arg(&ctx[1])), true))

/* virtqueue_get_buf_ctx(vq, len, ctx) */
FEXIT_PROGS(get_ctx_fx, "virtqueue_get_buf_ctx", SEEN_GET_CTX, ctx[3],
	    on_got(load_scalar_arg(&ctx[0]), load_scalar_arg(&ctx[3]),
		   number_at(load_scalar_arg(&ctx[1])), false))

FEXIT_PROGS(detach_fx, "virtqueue_detach_unused_buf", SEEN_DETACH, ctx[1],
	    on_detached(load_scalar_arg(&ctx[0]), load_scalar_arg(&ctx[1])))

/* Once in a queue's life: without spares. */
SEC("fentry/vring_del_virtqueue")
int del_fe(u64 *ctx)
{
	on_gone(load_scalar_arg(&ctx[0]));
	return 0;
}

/* ---- kprobes ---- */

/* A call that has not returned yet. */
struct call {
	u64 vq;
	u64 token; /* of get: address of the length */
	struct sums sums;
	u64 counts; /* the call began while traced */
};

/* The key is the stack pointer, which is unique among concurrent calls, plus one of these:
 * virtqueue_get_buf() may jump to virtqueue_get_buf_ctx(), which then has the same stack
 * pointer. */
enum { SLOT_ADD, SLOT_GET, SLOT_GET_CTX, SLOT_DETACH };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2048);
	__type(key, u64);
	__type(value, struct call);
} calls SEC(".maps");

static __always_inline void enter(struct pt_regs *regs, struct call *call, u64 slot)
{
	u64 key = PT_REGS_SP(regs) + slot;
	struct call *last = bpf_map_lookup_elem(&calls, &key);

	/* The return of @last was missed: the kernel has a limited number of return probes at a
	 * time, and skips a probe that interrupts another. */
	if (last && last->counts)
		count_loss(&losses[VIRTIO_LOSS_CALLS], 1);
	call->counts = begin_ns != 0;
	if (bpf_map_update_elem(&calls, &key, call, BPF_ANY))
		count_loss(&losses[VIRTIO_LOSS_CALLS], 1);
}

/* The call that returns now. */
static __always_inline bool leave(struct pt_regs *regs, struct call *call, u64 slot)
{
	u64 key = KRETPROBE_ENTRY_SP(regs) + slot;
	struct call *known = bpf_map_lookup_elem(&calls, &key);

	if (!known) {
		if (begin_ns)
			count_loss(&losses[VIRTIO_LOSS_CALLS], 1);
		return false;
	}
	*call = *known;
	bpf_map_delete_elem(&calls, &key);
	return true;
}

SEC("kprobe/virtqueue_add_sgs")
int sgs_kp(struct pt_regs *regs)
{
	struct call call = {
		.vq = PT_REGS_PARM1(regs),
		.token = PT_REGS_PARM5(regs),
		.sums = sums_of_sgs(PT_REGS_PARM2(regs), PT_REGS_PARM3(regs), PT_REGS_PARM4(regs)),
	};

	enter(regs, &call, SLOT_ADD);
	return 0;
}

static __always_inline void on_add_return(struct pt_regs *regs)
{
	struct call call;

	if (leave(regs, &call, SLOT_ADD) && !failed(PT_REGS_RC(regs)))
		on_added(call.vq, call.token, &call.sums);
}

SEC("kretprobe/virtqueue_add_sgs")
int sgs_kr(struct pt_regs *regs)
{
	on_add_return(regs);
	return 0;
}

#define ADD_KPROBE(name, function, direction)                                                      \
	SEC("kprobe/" function)                                                                    \
	int name##_kp(struct pt_regs *regs)                                                        \
	{                                                                                          \
		struct call call = {                                                               \
			.vq = PT_REGS_PARM1(regs),                                                 \
			.token = PT_REGS_PARM4(regs),                                              \
			.sums = sums_of_##direction(PT_REGS_PARM2(regs), PT_REGS_PARM3(regs)),     \
		};                                                                                 \
                                                                                                   \
		enter(regs, &call, SLOT_ADD);                                                      \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("kretprobe/" function)                                                                 \
	int name##_kr(struct pt_regs *regs)                                                        \
	{                                                                                          \
		on_add_return(regs);                                                               \
		return 0;                                                                          \
	}

ADD_KPROBE(out, "virtqueue_add_outbuf", out)
ADD_KPROBE(in, "virtqueue_add_inbuf", in)
ADD_KPROBE(in_ctx, "virtqueue_add_inbuf_ctx", in)
ADD_KPROBE(out_pm, "virtqueue_add_outbuf_premapped", out)
ADD_KPROBE(in_pm, "virtqueue_add_inbuf_premapped", in)
ADD_KPROBE(in_cc, "virtqueue_add_inbuf_cache_clean", in)

static __always_inline void on_get_entry(struct pt_regs *regs, u64 slot)
{
	struct call call = { .vq = PT_REGS_PARM1(regs), .token = PT_REGS_PARM2(regs) };

	enter(regs, &call, slot);
}

static __always_inline void on_get_return(struct pt_regs *regs, const bool outer)
{
	struct call call;

	if (leave(regs, &call, outer ? SLOT_GET : SLOT_GET_CTX) && PT_REGS_RC(regs))
		on_got(call.vq, PT_REGS_RC(regs), number_at(call.token), outer);
}

SEC("kprobe/virtqueue_get_buf")
int get_kp(struct pt_regs *regs)
{
	on_get_entry(regs, SLOT_GET);
	return 0;
}

SEC("kretprobe/virtqueue_get_buf")
int get_kr(struct pt_regs *regs)
{
	on_get_return(regs, true);
	return 0;
}

SEC("kprobe/virtqueue_get_buf_ctx")
int get_ctx_kp(struct pt_regs *regs)
{
	on_get_entry(regs, SLOT_GET_CTX);
	return 0;
}

SEC("kretprobe/virtqueue_get_buf_ctx")
int get_ctx_kr(struct pt_regs *regs)
{
	on_get_return(regs, false);
	return 0;
}

SEC("kprobe/virtqueue_detach_unused_buf")
int detach_kp(struct pt_regs *regs)
{
	on_get_entry(regs, SLOT_DETACH);
	return 0;
}

SEC("kretprobe/virtqueue_detach_unused_buf")
int detach_kr(struct pt_regs *regs)
{
	struct call call;

	if (leave(regs, &call, SLOT_DETACH))
		on_detached(call.vq, PT_REGS_RC(regs));
	return 0;
}

SEC("kprobe/vring_del_virtqueue")
int del_kp(struct pt_regs *regs)
{
	on_gone(PT_REGS_PARM1(regs));
	return 0;
}

#endif
