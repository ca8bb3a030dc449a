// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/elf_unwind.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "core/symbols/elf_file.h"

/* Registers, by their DWARF numbers.  REG_NONE: no register. */
enum { REG_NONE = 1000 };

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64, REG_SP = 7, REG_FP = 6, REG_BX = 3, REG_DI = 5, REG_RA = 16 };
#elif defined(__aarch64__)
enum {
	MACHINE = EM_AARCH64,
	REG_SP = 31,
	REG_FP = 29,
	REG_BX = REG_NONE,
	REG_DI = REG_NONE,
	REG_RA = 30
};
#else
enum {
	MACHINE = EM_NONE,
	REG_SP = REG_NONE,
	REG_FP = REG_NONE,
	REG_BX = REG_NONE,
	REG_DI = REG_NONE,
	REG_RA = REG_NONE
};
#endif

#define MAX_SEGMENTS 16

struct segment {
	uint64_t start, end; /* addresses */
	uint64_t offset;
};

struct reader {
	Elf *elf;
	Dwarf_CFI *cfi;
	struct segment segments[MAX_SEGMENTS];
	size_t n_segments;
	uint64_t entry;	     /* address */
	GElf_Phdr index;     /* .eh_frame_hdr */
	uint64_t *functions; /* addresses */
	size_t n_functions;
	uint64_t covered; /* bytes of code with rules */
	struct intern rules;
	struct unwind_table *out;
};

void unwind_table_free(struct unwind_table *t)
{
	free(t->rows);
	free(t->rules);
	*t = (struct unwind_table){ 0 };
}

int unwind_rule_is_valid(const struct unwind_rule *rule)
{
	return rule->cfa < UNWIND_CFAS && rule->ra < UNWIND_REGS && rule->fp < UNWIND_REGS &&
	       rule->bx < UNWIND_REGS && !rule->pad[0] && !rule->pad[1];
}

/* ---- rules ---- */

/* @op is "register + offset". */
static bool is_register(const Dwarf_Op *op, Dwarf_Word *reg, int64_t *offset)
{
	if (op->atom == DW_OP_bregx) {
		*reg = op->number;
		*offset = (int64_t)op->number2;
		return true;
	}
	if (op->atom < DW_OP_breg0 || op->atom > DW_OP_breg31)
		return false;
	*reg = op->atom - DW_OP_breg0;
	*offset = (int64_t)op->number;
	return true;
}

/* The CFA in the entries of a PLT: SP + 8 + ((IP & 15) >= n) * 8. */
static bool is_plt(const Dwarf_Op *ops, size_t n)
{
	static const uint8_t atoms[] = { DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
					 DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,	 DW_OP_plus };

	if (MACHINE != EM_X86_64 || n != sizeof(atoms) || ops[0].number != 8 || ops[1].number ||
	    ops[4].atom < DW_OP_lit0 || ops[4].atom > DW_OP_lit15)
		return false;
	for (size_t i = 0; i < n; i++)
		if (atoms[i] && ops[i].atom != atoms[i])
			return false;
	return true;
}

static void set_cfa(Dwarf_Frame *frame, struct unwind_rule *rule)
{
	int64_t offset;
	Dwarf_Word reg;
	Dwarf_Op *ops;
	size_t n;

	rule->cfa = UNWIND_EXPRESSION;
	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		return;
	if (is_plt(ops, n)) {
		rule->cfa = UNWIND_PLT;
		rule->cfa_off = (int32_t)(ops[4].atom - DW_OP_lit0);
		return;
	}
	if (!is_register(&ops[0], &reg, &offset) || offset != (int32_t)offset)
		return;
	if (n == 1 && reg == REG_SP)
		rule->cfa = UNWIND_SP;
	else if (n == 1 && reg == REG_FP)
		rule->cfa = UNWIND_FP;
	else if (n == 1 && reg == REG_BX)
		rule->cfa = UNWIND_BX;
	else if (n == 2 && reg == REG_FP && ops[1].atom == DW_OP_deref)
		rule->cfa = UNWIND_AT_FP;
	rule->cfa_off = rule->cfa == UNWIND_EXPRESSION ? 0 : (int32_t)offset;
}

/* Where the caller's register @number is saved. */
static enum unwind_reg place_of(Dwarf_Frame *frame, int number, __s16 *out)
{
	Dwarf_Op mem[3], *ops;
	int64_t offset = 0;
	Dwarf_Word reg;
	size_t n;

	if (number == REG_NONE)
		return UNWIND_SAME;
	if (dwarf_frame_register(frame, number, mem, &ops, &n))
		return UNWIND_UNKNOWN;
	/* By the ABI the called functions preserve all requested registers; libdw (0.188) knows
	 * this for rbp, but not for rbx, and reports "undefined". */
	if (!n)
		return ops && number == REG_RA ? UNWIND_UNKNOWN : UNWIND_SAME;
	if (ops[0].atom == DW_OP_call_frame_cfa) {
		if (n == 2 && ops[1].atom == DW_OP_plus_uconst)
			offset = (int64_t)ops[1].number;
		else if (n != 1)
			return UNWIND_UNKNOWN;
		*out = (__s16)offset;
		return offset == *out ? UNWIND_SAVED : UNWIND_UNKNOWN;
	}
	if (n == 1 && ops[0].atom == DW_OP_regx && ops[0].number == REG_DI && number == REG_RA)
		return UNWIND_IN_DI;
	if (n == 1 && is_register(&ops[0], &reg, &offset) && reg == REG_FP) {
		*out = (__s16)offset;
		return offset == *out ? UNWIND_SAVED_FP : UNWIND_UNKNOWN;
	}
	return UNWIND_UNKNOWN;
}

/* libdw before 0.190 takes arm64's negate_ra_state for a SPARC register window, and then reports
 * that x16 and all following registers are saved, which no compiler does. */
static bool is_misread(Dwarf_Frame *frame)
{
	__s16 offset;

	return MACHINE == EM_AARCH64 && place_of(frame, 16, &offset) == UNWIND_SAVED;
}

static struct unwind_rule rule_of(Dwarf_Frame *frame, bool is_signal)
{
	struct unwind_rule rule = { 0 };
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (is_signal)
		return (struct unwind_rule){ .cfa = UNWIND_SIGNAL };
	if (is_misread(frame))
		return (struct unwind_rule){ .cfa = UNWIND_POINTERS };
	/* Undefined: no operations, and not "the same". */
	if (dwarf_frame_register(frame, REG_RA, mem, &ops, &n) == 0 && !n && ops)
		return (struct unwind_rule){ .cfa = UNWIND_END };
	set_cfa(frame, &rule);
	rule.ra = place_of(frame, REG_RA, &rule.ra_off);
	rule.fp = place_of(frame, REG_FP, &rule.fp_off);
	rule.bx = place_of(frame, REG_BX, &rule.bx_off);
	if (rule.cfa == UNWIND_EXPRESSION || rule.ra == UNWIND_UNKNOWN)
		return (struct unwind_rule){ .cfa = UNWIND_EXPRESSION };
	return rule;
}

/* ---- rows ---- */

static const struct unwind_rule no_rule = { .cfa = UNWIND_NONE };

static int add_row(struct reader *r, uint64_t offset, const struct unwind_rule *rule)
{
	struct unwind_table *t = r->out;
	uint64_t last = t->n_rows ? t->rows[t->n_rows - 1] : 0;
	uint32_t number = intern_bytes(&r->rules, rule, sizeof(*rule), NULL);
	uint64_t *row;

	if (number == INTERN_NONE)
		return -ENOMEM;
	if (number >= MAX_UNWIND_RULES)
		return -E2BIG;
	/* It has rules, but no row for them: it may not keep frame pointers. */
	if (offset >= UNWIND_MAX_OFFSET && !t->n_rows)
		return add_row(r, UNWIND_MAX_OFFSET - 1, &no_rule);
	if (offset >= UNWIND_MAX_OFFSET || (t->n_rows && offset < last >> 16))
		return 0;
	if (t->n_rows && number == (last & 0xffff))
		return 0;
	if (t->n_rows && offset == last >> 16) {
		t->rows[t->n_rows - 1] = offset << 16 | number;
		return 0;
	}
	if (t->n_rows == MAX_UNWIND_ROWS)
		return -E2BIG;
	row = ARRAY_ADD(t->rows, t->n_rows);
	if (!row)
		return -ENOMEM;
	*row = offset << 16 | number;
	return 0;
}

static const struct segment *segment_of(const struct reader *r, uint64_t address)
{
	for (size_t i = 0; i < r->n_segments; i++)
		if (address >= r->segments[i].start && address < r->segments[i].end)
			return &r->segments[i];
	return NULL;
}

#define MAX_ENTRY 256 /* bytes of code at the entry point */

/* Code from @pc to @end has no rules.  The entry point has no caller: nothing is missing if it has
 * no rules, like in glibc's dynamic loader. */
static int add_gap(struct reader *r, const struct segment *segment, uint64_t pc, uint64_t end)
{
	static const struct unwind_rule outermost = { .cfa = UNWIND_END };
	uint64_t shift = segment->offset - segment->start, entry = r->entry;
	int err = 0;

	if (entry < pc || entry >= end)
		return add_row(r, pc + shift, &no_rule);
	if (pc < entry)
		err = add_row(r, pc + shift, &no_rule);
	if (!err)
		err = add_row(r, entry + shift, &outermost);
	if (!err && end - entry > MAX_ENTRY)
		err = add_row(r, entry + MAX_ENTRY + shift, &no_rule);
	return err;
}

/* The rows of the code from @start on, until @end at most. libdw reports the range of each rule. */
static int add_function(struct reader *r, const struct segment *segment, uint64_t start,
			uint64_t end)
{
	uint64_t pc = start;
	int err = 0;

	if (end > segment->end)
		end = segment->end;
	while (!err && pc < end) {
		Dwarf_Addr from, to;
		Dwarf_Frame *frame;
		struct unwind_rule rule;
		bool is_signal;

		if (dwarf_cfi_addrframe(r->cfi, pc, &frame))
			break;
		if (dwarf_frame_info(frame, &from, &to, &is_signal) < 0)
			to = 0;
		rule = rule_of(frame, is_signal);
		free(frame);
		err = add_row(r, pc - segment->start + segment->offset, &rule);
		if (to <= pc)
			break;
		r->covered += (to < end ? to : end) - pc;
		pc = to;
	}
	return !err && pc < end ? add_gap(r, segment, pc, end) : err;
}

/* ---- files ---- */

static int by_address(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The range of the code, and the index of .eh_frame. */
static int read_segments(struct reader *r)
{
	GElf_Ehdr head;
	GElf_Phdr p;
	size_t n;

	if (!gelf_getehdr(r->elf, &head) || head.e_machine != MACHINE ||
	    gelf_getclass(r->elf) != ELFCLASS64 || elf_getphdrnum(r->elf, &n))
		return -ENOENT;
	r->entry = head.e_entry;
	for (size_t i = 0; i < n && gelf_getphdr(r->elf, (int)i, &p); i++) {
		if (p.p_type == PT_GNU_EH_FRAME)
			r->index = p;
		if (p.p_type != PT_LOAD || !(p.p_flags & PF_X) || r->n_segments == MAX_SEGMENTS ||
		    p.p_vaddr + p.p_filesz < p.p_vaddr)
			continue;
		r->segments[r->n_segments++] =
		    (struct segment){ p.p_vaddr, p.p_vaddr + p.p_filesz, p.p_offset };
	}
	qsort(r->segments, r->n_segments, sizeof(r->segments[0]), by_address);
	return r->n_segments ? 0 : -ENOENT;
}

/* .eh_frame_hdr: version 1, three encodings, the address of .eh_frame, the number of entries, and
 * for each function its address and the address of its rules, both from the beginning of the index.
 */
struct index_head {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
};

struct index_entry {
	int32_t start, rules;
};

static int add_start(struct reader *r, uint64_t address)
{
	uint64_t *added;

	if (r->n_functions == MAX_UNWIND_ROWS)
		return -E2BIG;
	added = ARRAY_ADD(r->functions, r->n_functions);
	if (!added)
		return -ENOMEM;
	*added = address;
	return 0;
}

static int read_index(struct reader *r, const char *bytes, size_t size)
{
	struct index_head head;
	struct index_entry entry;
	int err = 0;

	if (size < sizeof(head))
		return -ENOENT;
	memcpy(&head, bytes, sizeof(head));
	if (head.version != 1 || head.count_encoding != DW_EH_PE_udata4 ||
	    (head.frame_encoding & 0x0f) != DW_EH_PE_sdata4 ||
	    head.table_encoding != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return -ENOENT;
	if (head.count > (size - sizeof(head)) / sizeof(entry))
		head.count = (uint32_t)((size - sizeof(head)) / sizeof(entry));
	for (uint32_t i = 0; !err && i < head.count; i++) {
		memcpy(&entry, bytes + sizeof(head) + i * sizeof(entry), sizeof(entry));
		err = add_start(r, r->index.p_vaddr + (uint64_t)(int64_t)entry.start);
	}
	return err;
}

/* Are the addresses of functions stored as 32-bit differences from their own position, like
 * compilers do? 'R' says so, after the data of 'L' and 'P'. */
static bool is_relative(const Dwarf_CIE *cie)
{
	const uint8_t *data = cie->augmentation_data;
	size_t left = cie->augmentation_data_size;

	if (cie->augmentation[0] != 'z')
		return false;
	for (const char *what = cie->augmentation + 1; *what && left; what++) {
		size_t size = 1;

		if (*what == 'R')
			return *data == (DW_EH_PE_pcrel | DW_EH_PE_sdata4);
		if (*what == 'P')
			size += (*data & 0x0f) == DW_EH_PE_absptr ? 8 : 4;
		else if (*what != 'L')
			continue;
		if (size > left)
			break;
		data += size;
		left -= size;
	}
	return false;
}

/* Static programs that are not PIE have no index. */
static int read_section(struct reader *r)
{
	GElf_Shdr section;
	Elf_Scn *scn = elf_file_section(r->elf, ".eh_frame", &section);
	Elf_Data *data = scn ? elf_rawdata(scn, NULL) : NULL;
	const uint8_t *ident = (const uint8_t *)elf_getident(r->elf, NULL);
	Dwarf_Off at = 0, next, ignored;
	Dwarf_CFI_Entry entry, cie;
	int err = data ? 0 : -ENOENT;

	while (!err && dwarf_next_cfi(ident, data, true, at, &next, &entry) == 0 && next > at) {
		at = next;
		if (!dwarf_cfi_cie_p(&entry) &&
		    entry.fde.end - entry.fde.start >= (ptrdiff_t)sizeof(int32_t) &&
		    dwarf_next_cfi(ident, data, true, entry.fde.CIE_pointer, &ignored, &cie) == 0 &&
		    dwarf_cfi_cie_p(&cie) && is_relative(&cie.cie)) {
			size_t offset = (size_t)(entry.fde.start - (const uint8_t *)data->d_buf);
			int32_t distance;

			memcpy(&distance, entry.fde.start, sizeof(distance));
			err = add_start(r, section.sh_addr + offset + (uint64_t)(int64_t)distance);
		}
	}
	return err;
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int read_functions(struct reader *r)
{
	Elf_Data *index;

	if (!r->index.p_filesz)
		return read_section(r);
	index =
	    elf_getdata_rawchunk(r->elf, (int64_t)r->index.p_offset, r->index.p_filesz, ELF_T_BYTE);
	return index ? read_index(r, index->d_buf, index->d_size) : -ENOENT;
}

/* The code of the functions, by address; and the code before the first function of a segment. */
static int add_functions(struct reader *r)
{
	const struct segment *last = NULL;
	int err = 0;

	for (size_t i = 0; !err && i < r->n_functions; i++) {
		uint64_t start = r->functions[i];
		const struct segment *segment = segment_of(r, start);

		if (!segment)
			continue;
		if (segment != last && start > segment->start)
			err = add_gap(r, segment, segment->start, start);
		last = segment;
		if (!err)
			err =
			    add_function(r, segment, start,
					 i + 1 < r->n_functions ? r->functions[i + 1] : UINT64_MAX);
	}
	return err;
}

static int read_rows(struct reader *r)
{
	int err = read_segments(r);

	if (!err)
		err = read_functions(r);
	if (err)
		return err;
	r->cfi = r->n_functions ? dwarf_getcfi_elf(r->elf) : NULL;
	if (!r->cfi)
		return -ENOENT;
	qsort(r->functions, r->n_functions, sizeof(*r->functions), compare_addresses);
	return add_functions(r);
}

/* On some processors, code that no compiler makes has no rules: the procedure linkage table,
 * crt1.o.  In a small library it is most of the code. */
#define MIN_WITHOUT_RULES (16 << 10) /* bytes */

/* Was most of the code compiled without rules, like chromium?  Then it has frame pointers: without
 * both, no debugger would find a caller. */
static bool has_frame_pointers(const struct reader *r)
{
	uint64_t code = 0;

	for (size_t i = 0; i < r->n_segments; i++)
		code += r->segments[i].end - r->segments[i].start;
	return r->covered < code / 2 && code - r->covered >= MIN_WITHOUT_RULES;
}

static int take_rules(struct reader *r)
{
	struct unwind_table *t = r->out;
	bool pointers = has_frame_pointers(r);

	t->rules = calloc(r->rules.n + 1, sizeof(*t->rules));
	if (!t->rules)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->rules.n; i++)
		memcpy(&t->rules[i], intern_key(&r->rules, i), sizeof(*t->rules));
	for (uint32_t i = 0; pointers && i < r->rules.n; i++)
		if (t->rules[i].cfa == UNWIND_NONE)
			t->rules[i].cfa = UNWIND_POINTERS;
	t->n_rules = r->rules.n;
	return t->n_rows ? 0 : -ENOENT;
}

int elf_unwind(int fd, const struct build_id *id, struct unwind_table *out, enum unread *unread)
{
	struct unwind_table made = { 0 };
	struct reader r = { .elf = elf_file_open(fd, unread), .out = &made };
	int err;

	if (!r.elf)
		return -ENOEXEC;
	elf_file_build_id(r.elf, &made.id);
	err = elf_file_is(&made.id, id) ? read_rows(&r) : -ESTALE;
	if (!err)
		err = take_rules(&r);
	dwarf_cfi_end(r.cfi);
	elf_end(r.elf);
	intern_free(&r.rules);
	free(r.functions);
	if (err)
		unwind_table_free(&made);
	else
		*out = made;
	return err;
}
