// SPDX-License-Identifier: GPL-2.0-or-later
#include "test/offline/reach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REGS	   11 /* r0 .. r9, r10 the frame pointer */
#define SLOTS	   64 /* of 8 bytes: a frame */
#define FRAME_SIZE 512

/*
 * What is known of a value.  Whether it may point into the frame matters, because a store through
 * such a pointer may change what lies there.
 */
enum known {
	OTHER, /* anything but a pointer into the frame */
	CONST, /* this number */
	FRAME, /* the frame pointer plus this number */
	ANY,
};

struct value {
	enum known known;
	uint64_t n;
};

struct state {
	bool reached;
	struct value regs[REGS];
	struct value slots[SLOTS];
};

struct walk {
	const struct function *function;
	const struct code *code;
	struct state *states; /* by instruction of the function: before it */
	size_t *todo;
	bool *queued;
	size_t n_todo;
};

static const struct value other = { OTHER, 0 }, any = { ANY, 0 };

static struct value number(uint64_t n)
{
	return (struct value){ CONST, n };
}

static bool may_point(struct value v)
{
	return v.known == FRAME || v.known == ANY;
}

/* ---- joining what comes from two ways ---- */

static struct value join(struct value a, struct value b)
{
	if (a.known == b.known && a.n == b.n)
		return a;
	return may_point(a) || may_point(b) ? any : other;
}

static bool join_into(struct value *to, struct value from)
{
	struct value joined = join(*to, from);
	bool changed = joined.known != to->known || joined.n != to->n;

	*to = joined;
	return changed;
}

static void flow_to(struct walk *w, size_t at, const struct state *from)
{
	struct state *to;
	bool changed;

	if (at >= w->function->n)
		return; /* no program that the kernel takes runs off its end */
	to = &w->states[at];
	changed = !to->reached;
	if (changed) {
		*to = *from;
		to->reached = true;
	} else {
		for (int i = 0; i < REGS; i++)
			changed |= join_into(&to->regs[i], from->regs[i]);
		for (int i = 0; i < SLOTS; i++)
			changed |= join_into(&to->slots[i], from->slots[i]);
	}
	if (changed && !w->queued[at]) {
		w->queued[at] = true;
		w->todo[w->n_todo++] = at;
	}
}

/* ---- the frame ---- */

/* The slot that 8 bytes at frame pointer + @off are exactly, or -1. */
static int slot_at(int64_t off)
{
	if (off < -FRAME_SIZE || off > -8 || off % 8)
		return -1;
	return (int)((off + FRAME_SIZE) / 8);
}

/* Something was written to slot @i that is no pointer, or nothing was. */
static void smear(struct state *s, int i)
{
	s->slots[i] = may_point(s->slots[i]) ? any : other;
}

/* Something may have been written from frame pointer + @off upwards. */
static void smear_from(struct state *s, int64_t off)
{
	for (int i = 0; i < SLOTS; i++)
		if ((int64_t)i * 8 - FRAME_SIZE + 8 > off)
			smear(s, i);
}

static void store(struct state *s, struct value address, int16_t off, unsigned int size,
		  struct value v)
{
	int64_t at = (int64_t)address.n + off;
	int slot = size == 8 ? slot_at(at) : -1;

	if (address.known == FRAME && slot >= 0) {
		s->slots[slot] = v;
	} else if (address.known == FRAME) {
		for (int i = 0; i < SLOTS; i++) {
			int64_t begin = (int64_t)i * 8 - FRAME_SIZE;

			if (begin < at + (int64_t)size && begin + 8 > at)
				smear(s, i);
		}
	} else if (address.known == ANY) {
		for (int i = 0; i < SLOTS; i++)
			s->slots[i] = may_point(v) || may_point(s->slots[i]) ? any : other;
	}
}

static struct value load(const struct state *s, struct value address, int16_t off,
			 unsigned int size)
{
	int slot = size == 8 ? slot_at((int64_t)address.n + off) : -1;

	if (address.known == FRAME)
		return slot >= 0 ? s->slots[slot] : other; /* a part of a pointer is none */
	return address.known == ANY ? any : other;
}

/* ---- instructions ---- */

static unsigned int access_size(__u8 code)
{
	switch (BPF_SIZE(code)) {
	case BPF_B:
		return 1;
	case BPF_H:
		return 2;
	case BPF_W:
		return 4;
	}
	return 8;
}

/* @a OP @b where both are numbers; false when the operation is not known here. */
static bool compute(__u8 op, bool wide, uint64_t a, uint64_t b, uint64_t *out)
{
	unsigned int shift = (unsigned int)b & (wide ? 63 : 31);

	if (!wide) {
		a = (uint32_t)a;
		b = (uint32_t)b;
	}
	switch (op) {
	case BPF_ADD:
		*out = a + b;
		break;
	case BPF_SUB:
		*out = a - b;
		break;
	case BPF_MUL:
		*out = a * b;
		break;
	case BPF_OR:
		*out = a | b;
		break;
	case BPF_AND:
		*out = a & b;
		break;
	case BPF_XOR:
		*out = a ^ b;
		break;
	case BPF_LSH:
		*out = a << shift;
		break;
	case BPF_RSH:
		*out = a >> shift;
		break;
	case BPF_ARSH:
		*out = wide ? (uint64_t)((int64_t)a >> shift)
			    : (uint64_t)((int32_t)(uint32_t)a >> shift);
		break;
	case BPF_NEG:
		*out = 0 - a;
		break;
	default:
		return false;
	}
	if (!wide)
		*out = (uint32_t)*out;
	return true;
}

static struct value move(struct value v, bool wide, int16_t sign_extends)
{
	if (wide && !sign_extends)
		return v;
	if (v.known == CONST && !sign_extends)
		return number((uint32_t)v.n);
	return may_point(v) ? any : other;
}

static struct value operate(__u8 op, bool wide, struct value a, struct value b)
{
	uint64_t n;

	if (a.known == CONST && (b.known == CONST || op == BPF_NEG))
		return compute(op, wide, a.n, b.n, &n) ? number(n) : other;
	if (wide && a.known == FRAME && b.known == CONST && (op == BPF_ADD || op == BPF_SUB))
		return (struct value){ FRAME, op == BPF_ADD ? a.n + b.n : a.n - b.n };
	return may_point(a) || may_point(b) ? any : other;
}

static void run_alu(struct state *s, const struct bpf_insn *insn)
{
	bool wide = BPF_CLASS(insn->code) == BPF_ALU64;
	struct value b = BPF_SRC(insn->code) == BPF_X ? s->regs[insn->src_reg]
						      : number((uint64_t)(int64_t)insn->imm);
	struct value *a = &s->regs[insn->dst_reg];

	if (BPF_OP(insn->code) == BPF_MOV)
		*a = move(b, wide, insn->off);
	else if (BPF_OP(insn->code) == BPF_END)
		*a = may_point(*a) ? any : other;
	else
		*a = operate(BPF_OP(insn->code), wide, *a, b);
}

/*
 * A call, of a helper or of a function of ours.  It may write where its arguments point to: upwards
 * from there, and, where a pointer into the frame lies in the frame, anywhere.
 */
static void run_call(struct state *s)
{
	bool gets_frame = false, holds_frame = false;

	for (int i = 0; i < SLOTS; i++)
		holds_frame |= may_point(s->slots[i]);
	for (int i = 1; i <= 5; i++) {
		gets_frame |= may_point(s->regs[i]);
		if (s->regs[i].known == FRAME)
			smear_from(s, (int64_t)s->regs[i].n);
		else if (s->regs[i].known == ANY)
			smear_from(s, -FRAME_SIZE);
	}
	if (gets_frame && holds_frame)
		smear_from(s, -FRAME_SIZE);
	for (int i = 0; i <= 5; i++)
		s->regs[i] = other; /* the kernel allows no pointer into a frame to be returned */
}

static void run_atomic(struct state *s, const struct bpf_insn *insn)
{
	store(s, s->regs[insn->dst_reg], insn->off, 1, other); /* part of a slot: smears it */
	if (insn->imm & BPF_FETCH)
		s->regs[insn->imm == BPF_CMPXCHG ? BPF_REG_0 : insn->src_reg] = other;
}

/* Does the jump @code happen?  1, 0, or -1: that depends. */
static int decide(__u8 code, struct value a, struct value b)
{
	bool wide = BPF_CLASS(code) == BPF_JMP;
	uint64_t x = wide ? a.n : (uint32_t)a.n, y = wide ? b.n : (uint32_t)b.n;
	int64_t sx = wide ? (int64_t)x : (int32_t)x, sy = wide ? (int64_t)y : (int32_t)y;

	if (a.known != CONST || b.known != CONST)
		return -1;
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return x == y;
	case BPF_JNE:
		return x != y;
	case BPF_JGT:
		return x > y;
	case BPF_JGE:
		return x >= y;
	case BPF_JLT:
		return x < y;
	case BPF_JLE:
		return x <= y;
	case BPF_JSET:
		return (x & y) != 0;
	case BPF_JSGT:
		return sx > sy;
	case BPF_JSGE:
		return sx >= sy;
	case BPF_JSLT:
		return sx < sy;
	case BPF_JSLE:
		return sx <= sy;
	}
	return -1;
}

static void run_jump(struct walk *w, size_t at, struct state *s, const struct bpf_insn *insn)
{
	size_t target = (size_t)((int64_t)at + 1 + insn->off);
	struct value b = BPF_SRC(insn->code) == BPF_X ? s->regs[insn->src_reg]
						      : number((uint64_t)(int64_t)insn->imm);
	int taken;

	switch (BPF_OP(insn->code)) {
	case BPF_EXIT:
		return;
	case BPF_CALL:
		run_call(s);
		flow_to(w, at + 1, s);
		return;
	case BPF_JA:
		if (BPF_CLASS(insn->code) == BPF_JMP32) /* -mcpu=v4 */
			target = (size_t)((int64_t)at + 1 + insn->imm);
		flow_to(w, target, s);
		return;
	}
	taken = decide(insn->code, s->regs[insn->dst_reg], b);
	if (taken != 0)
		flow_to(w, target, s);
	if (taken != 1)
		flow_to(w, at + 1, s);
}

static void run_load_imm64(struct walk *w, size_t at, struct state *s, const struct bpf_insn *insn)
{
	bool is_number = !insn->src_reg && !w->code->address[w->function->start + at];

	s->regs[insn->dst_reg] =
	    is_number ? number((uint32_t)insn[0].imm | (uint64_t)(uint32_t)insn[1].imm << 32)
		      : other;
	flow_to(w, at + 2, s);
}

static void run(struct walk *w, size_t at)
{
	const struct bpf_insn *insn = &w->code->insns[w->function->start + at];
	unsigned int size = access_size(insn->code);
	struct state s = w->states[at];

	if (insn->dst_reg >= REGS || insn->src_reg >= REGS)
		return;
	switch (BPF_CLASS(insn->code)) {
	case BPF_JMP:
	case BPF_JMP32:
		run_jump(w, at, &s, insn);
		return;
	case BPF_ALU:
	case BPF_ALU64:
		run_alu(&s, insn);
		break;
	case BPF_LDX:
		s.regs[insn->dst_reg] = load(&s, s.regs[insn->src_reg], insn->off, size);
		break;
	case BPF_ST:
		store(&s, s.regs[insn->dst_reg], insn->off, size,
		      number((uint64_t)(int64_t)insn->imm));
		break;
	case BPF_STX:
		if (BPF_MODE(insn->code) == BPF_ATOMIC)
			run_atomic(&s, insn);
		else
			store(&s, s.regs[insn->dst_reg], insn->off, size, s.regs[insn->src_reg]);
		break;
	case BPF_LD:
		if (BPF_SIZE(insn->code) == BPF_DW && BPF_MODE(insn->code) == BPF_IMM) {
			run_load_imm64(w, at, &s, insn);
			return;
		}
		run_call(&s); /* of a packet: as a helper */
		break;
	}
	flow_to(w, at + 1, &s);
}

/* ---- functions ---- */

/* Marks in @reached what @function can reach of itself. */
static int walk_function(const struct object *o, const struct function *function, bool *reached)
{
	struct walk w = { .function = function, .code = &o->code[function->code] };
	struct state start = { 0 };
	int r = 0;

	w.states = calloc(function->n + 1, sizeof(*w.states));
	w.todo = calloc(function->n + 1, sizeof(*w.todo));
	w.queued = calloc(function->n + 1, sizeof(*w.queued));
	if (!w.states || !w.todo || !w.queued) {
		r = -ENOMEM;
		goto out;
	}
	start.regs[BPF_REG_10].known = FRAME; /* and OTHER all else */
	flow_to(&w, 0, &start);
	while (w.n_todo) {
		size_t at = w.todo[--w.n_todo];

		w.queued[at] = false;
		run(&w, at);
	}
	for (size_t i = 0; i < function->n; i++)
		reached[function->start + i] |= w.states[i].reached;
out:
	free(w.states);
	free(w.todo);
	free(w.queued);
	return r;
}

/* The next function that reached code of @function names and that was not entered. */
static size_t next_callee(const struct object *o, const struct function *function,
			  const bool *reached, const bool *entered)
{
	const struct code *code = &o->code[function->code];

	for (size_t i = function->start; i < function->start + function->n; i++)
		if (reached[i] && code->callee[i] != NO_FUNCTION && !entered[code->callee[i]])
			return code->callee[i];
	return NO_FUNCTION;
}

int reach(const struct object *o, size_t entry, bool **reached, bool *entered)
{
	const struct function *function = &o->functions[entry];
	size_t callee;
	int r;

	entered[entry] = true;
	r = walk_function(o, function, reached[function->code]);
	while (!r &&
	       (callee = next_callee(o, function, reached[function->code], entered)) != NO_FUNCTION)
		r = reach(o, callee, reached, entered);
	return r;
}
