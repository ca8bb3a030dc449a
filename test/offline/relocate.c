// SPDX-License-Identifier: GPL-2.0-or-later
#include "test/offline/relocate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

/*
 * How libbpf resolves a CO-RE relocation is not in its API: it does so while it loads an object
 * into the running kernel, and with another kernel's types (btf_custom_path) it knows
 * no modules.  But the functions that do it are in its static library, under names that are hidden
 * only from who links the shared one; bpftool calls them so.  These are 1.1's.  The other way was
 * to write the matching of types once more: then two programs could have two opinions, and the one
 * that counts is libbpf's.
 */
struct bpf_core_cand {
	const struct btf *btf;
	__u32 id;
};

struct bpf_core_cand_list {
	struct bpf_core_cand *cands;
	int len;
};

struct bpf_core_relo_res {
	__u64 orig_val, new_val;
	bool poison;
	char rest[64]; /* this and the next: room for what they hold, and for what may come */
};

struct bpf_core_spec {
	_Alignas(16) char rest[4096];
};

size_t bpf_core_essential_name_len(const char *name);
int bpf_core_add_cands(struct bpf_core_cand *local, size_t essential_len, const struct btf *btf,
		       const char *btf_name, int start_id, struct bpf_core_cand_list *cands);
int bpf_core_calc_relo_insn(const char *prog, const struct bpf_core_relo *relo, int index,
			    const struct btf *local, struct bpf_core_cand_list *cands,
			    struct bpf_core_spec *scratch, struct bpf_core_relo_res *res);
int bpf_core_patch_insn(const char *prog, struct bpf_insn *insn, int insn_index,
			const struct bpf_core_relo *relo, int index,
			const struct bpf_core_relo_res *res);

static char last_warning[200]; /* libbpf's, without what is the same in all */

__attribute__((format(printf, 2, 0))) static int note_warning(enum libbpf_print_level level,
							      const char *fmt, va_list args)
{
	char text[200];
	const char *at;

	if (level != LIBBPF_WARN)
		return 0;
	vsnprintf(text, sizeof(text), fmt, args);
	text[strcspn(text, "\n\t")] = 0;
	at = strstr(text, "relo #0: ");
	snprintf(last_warning, sizeof(last_warning), "%s", at ? at + strlen("relo #0: ") : text);
	return 0;
}

/* The types that may be one of the object's: the same for all relocations that name it. */
struct candidates {
	bool known;
	struct bpf_core_cand_list list;
	const char *in;
	int error;
};

/*
 * The types that may be the type that @relo names.  Like libbpf it searches vmlinux and, only if
 * vmlinux has no such type, all modules.
 */
static void find_candidates(const struct object *o, const struct bpf_core_relo *relo,
			    const struct types *types, size_t n, struct candidates *found)
{
	struct bpf_core_cand local = { o->btf, relo->type_id };
	const struct btf_type *t = btf__type_by_id(o->btf, relo->type_id);
	const char *name = btf__name_by_offset(o->btf, t->name_off);

	found->known = true;
	for (size_t i = 0; !found->error && i < n; i++) {
		if (i && found->in == types[0].name)
			break;
		found->error = bpf_core_add_cands(
		    &local, bpf_core_essential_name_len(name), types[i].btf, types[i].name,
		    i ? (int)btf__type_cnt(types[0].btf) : 1, &found->list);
		if (!found->in && found->list.len)
			found->in = types[i].name;
	}
}

static int calculate(struct object *o, const struct bpf_core_relo *relo,
		     const struct candidates *found, struct bpf_core_relo_res *res)
{
	static struct bpf_core_spec scratch[3];
	struct bpf_core_cand_list cands = { 0 };
	int r;

	if (found->error)
		return found->error;
	if (found->list.len) {
		/* libbpf removes candidates that do not fit this relocation from the list. */
		cands.len = found->list.len;
		cands.cands = calloc((size_t)cands.len, sizeof(*cands.cands));
		if (!cands.cands)
			return -ENOMEM;
		memcpy(cands.cands, found->list.cands, (size_t)cands.len * sizeof(*cands.cands));
	}
	r = bpf_core_calc_relo_insn("", relo, 0, o->btf, &cands, scratch, res);
	free(cands.cands);
	return r;
}

static void relocate_one(struct object *o, const struct relocation *relocation,
			 const struct candidates *found, struct result *result)
{
	struct bpf_insn *insn = &o->code[relocation->code].insns[relocation->insn];
	struct bpf_core_relo_res res = { 0 };
	__u8 code = insn->code;
	int r;

	memset(result, 0, sizeof(*result));
	last_warning[0] = 0;
	result->in = found->in;
	r = calculate(o, &relocation->relo, found, &res);
	if (!r)
		r = bpf_core_patch_insn("", insn, (int)relocation->insn, &relocation->relo, 0,
					&res);
	result->value = res.new_val;
	/* Poison is a call of a function that there is not; a load may get another size. */
	if (r)
		result->fate = FATE_FAILED;
	else if (insn->code != code && insn->code == (BPF_JMP | BPF_CALL))
		result->fate = FATE_POISONED;
	if (r)
		snprintf(result->why, sizeof(result->why), "%s",
			 last_warning[0] ? last_warning : strerror(-r));
}

int relocate(struct object *o, const struct types *types, size_t n, struct result *results)
{
	static struct candidates none = { .known = true };
	static struct candidates unknown = { .known = true, .error = -EINVAL };
	size_t n_types = btf__type_cnt(o->btf);
	struct candidates *by_type = calloc(n_types, sizeof(*by_type));

	if (!by_type)
		return -ENOMEM;
	libbpf_set_print(note_warning);
	for (size_t i = 0; i < o->n_relocations; i++) {
		const struct bpf_core_relo *relo = &o->relocations[i].relo;
		struct candidates *found =
		    relo->type_id < n_types ? &by_type[relo->type_id] : &unknown;

		if (relo->kind == BPF_CORE_TYPE_ID_LOCAL)
			found = &none;
		if (!found->known)
			find_candidates(o, relo, types, n, found);
		relocate_one(o, &o->relocations[i], found, &results[i]);
	}
	for (size_t i = 0; i < n_types; i++)
		free(by_type[i].list.cands);
	free(by_type);
	return 0;
}
