// SPDX-License-Identifier: GPL-2.0-or-later
#include "test/offline/object.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/btf.h>

#ifndef EM_BPF
#define EM_BPF 247
#endif
#define R_BPF_64_64 1  /* an address into ldimm64 */
#define R_BPF_64_32 10 /* a call */

/* .BTF.ext; libbpf's own reader of it is not public. */
struct ext_header {
	uint16_t magic;
	uint8_t version, flags;
	uint32_t hdr_len;
	uint32_t func_info_off, func_info_len;
	uint32_t line_info_off, line_info_len;
	uint32_t relo_off, relo_len; /* not in the first version */
};

struct ext_section {
	uint32_t name_off, n;
	char records[];
};

static void *grow(void *array, size_t n, size_t each)
{
	return realloc(array, (n + 1) * each);
}

/* ---- sections with code ---- */

static size_t code_at(const struct object *o, size_t index)
{
	for (size_t i = 0; i < o->n_code; i++)
		if (o->code[i].index == index)
			return i;
	return SIZE_MAX;
}

static int add_code(struct object *o, size_t index, const char *name, const Elf_Data *data)
{
	struct code *grown = grow(o->code, o->n_code, sizeof(*grown)), *code;

	if (!grown)
		return -ENOMEM;
	o->code = grown;
	code = &o->code[o->n_code++];
	*code = (struct code){ .name = name, .index = index };
	code->n = data->d_size / sizeof(struct bpf_insn);
	code->insns = calloc(code->n + 1, sizeof(*code->insns));
	code->address = calloc(code->n + 1, sizeof(*code->address));
	code->callee = calloc(code->n + 1, sizeof(*code->callee));
	if (!code->insns || !code->address || !code->callee)
		return -ENOMEM;
	memcpy(code->insns, data->d_buf, code->n * sizeof(*code->insns));
	for (size_t i = 0; i < code->n; i++)
		code->callee[i] = NO_FUNCTION;
	return 0;
}

static int read_code(struct object *o, size_t names)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int r = 0;

	while (!r && (section = elf_nextscn(o->elf, section))) {
		const Elf_Data *data;

		if (!gelf_getshdr(section, &header))
			return -EINVAL;
		if (header.sh_type != SHT_PROGBITS || !(header.sh_flags & SHF_EXECINSTR) ||
		    !header.sh_size)
			continue;
		data = elf_rawdata(section, NULL);
		if (!data || !data->d_buf)
			return -EINVAL;
		r = add_code(o, elf_ndxscn(section), elf_strptr(o->elf, names, header.sh_name),
			     data);
	}
	return r;
}

/* ---- symbols ---- */

static Elf_Data *find_symbols(Elf *elf, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, header) && header->sh_type == SHT_SYMTAB)
			return elf_getdata(section, NULL);
	return NULL;
}

static int read_functions(struct object *o, Elf_Data *symbols, const GElf_Shdr *header)
{
	GElf_Sym sym;

	for (int i = 0; gelf_getsym(symbols, i, &sym); i++) {
		size_t code = code_at(o, sym.st_shndx);
		struct function *grown;

		if (GELF_ST_TYPE(sym.st_info) != STT_FUNC || code == SIZE_MAX)
			continue;
		grown = grow(o->functions, o->n_functions, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		o->functions = grown;
		o->functions[o->n_functions++] = (struct function){
			.name = elf_strptr(o->elf, header->sh_link, sym.st_name),
			.code = code,
			.start = sym.st_value / sizeof(struct bpf_insn),
			.n = sym.st_size / sizeof(struct bpf_insn),
			.program = strcmp(o->code[code].name, ".text") != 0,
		};
		if (sym.st_value / 8 + sym.st_size / 8 > o->code[code].n)
			return -EINVAL;
	}
	return 0;
}

size_t object_function(const struct object *o, size_t code, size_t insn)
{
	for (size_t i = 0; i < o->n_functions; i++) {
		const struct function *f = &o->functions[i];

		if (f->code == code && insn >= f->start && insn - f->start < f->n)
			return i;
	}
	return NO_FUNCTION;
}

/* ---- where addresses go ---- */

static bool is_ldimm64(const struct bpf_insn *insn)
{
	return insn->code == (BPF_LD | BPF_IMM | BPF_DW);
}

static bool is_local_call(const struct bpf_insn *insn)
{
	return insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL;
}

/*
 * Where a function is called or pointed to by a relocation, which function it is: the symbol is the
 * function, or its section, and then the instruction says where in it (a call counts from
 * the next instruction on, in instructions; ldimm64 in bytes).
 */
static size_t target_of(const struct object *o, const struct bpf_insn *insn, const GElf_Sym *sym)
{
	size_t code = code_at(o, sym->st_shndx);
	int64_t at = (int64_t)(sym->st_value / sizeof(*insn));

	if (code == SIZE_MAX)
		return NO_FUNCTION;
	if (GELF_ST_TYPE(sym->st_info) == STT_SECTION)
		at += is_ldimm64(insn) ? insn->imm / (int)sizeof(*insn) : insn->imm + 1;
	return object_function(o, code, (size_t)at);
}

static int apply_addresses(struct object *o, struct code *code, Elf_Data *rels, Elf_Data *symbols)
{
	GElf_Rel rel;
	GElf_Sym sym;

	for (int i = 0; gelf_getrel(rels, i, &rel); i++) {
		size_t at = rel.r_offset / sizeof(struct bpf_insn);
		uint64_t type = GELF_R_TYPE(rel.r_info);

		if (at >= code->n || !gelf_getsym(symbols, (int)GELF_R_SYM(rel.r_info), &sym) ||
		    (type != R_BPF_64_64 && type != R_BPF_64_32))
			return -EINVAL;
		code->address[at] = true;
		code->callee[at] = target_of(o, &code->insns[at], &sym);
		if (is_local_call(&code->insns[at]) && code->callee[at] == NO_FUNCTION)
			return -EINVAL;
	}
	return 0;
}

static int read_addresses(struct object *o, Elf_Data *symbols)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int r = 0;

	while (!r && (section = elf_nextscn(o->elf, section))) {
		size_t code;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_REL)
			continue;
		code = code_at(o, header.sh_info);
		if (code != SIZE_MAX)
			r = apply_addresses(o, &o->code[code], elf_getdata(section, NULL), symbols);
	}
	return r;
}

/* Calls inside of one section need no relocation. */
static int resolve_calls(struct object *o)
{
	for (size_t c = 0; c < o->n_code; c++) {
		struct code *code = &o->code[c];

		for (size_t i = 0; i < code->n; i++) {
			if (!is_local_call(&code->insns[i]) || code->address[i])
				continue;
			code->callee[i] =
			    object_function(o, c, (size_t)((int64_t)i + 1 + code->insns[i].imm));
			if (code->callee[i] == NO_FUNCTION)
				return -EINVAL;
		}
	}
	return 0;
}

/* ---- CO-RE relocations ---- */

static int add_relocations(struct object *o, const struct ext_section *info, uint32_t each)
{
	const char *name = btf__name_by_offset(o->btf, info->name_off);
	size_t code = 0;

	while (code < o->n_code && strcmp(o->code[code].name, name) != 0)
		code++;
	if (code == o->n_code)
		return -EINVAL;
	for (uint32_t i = 0; i < info->n; i++) {
		struct relocation *grown = grow(o->relocations, o->n_relocations, sizeof(*grown));
		struct relocation *relocation;

		if (!grown)
			return -ENOMEM;
		o->relocations = grown;
		relocation = &o->relocations[o->n_relocations++];
		memcpy(&relocation->relo, info->records + (size_t)i * each,
		       sizeof(relocation->relo));
		relocation->code = code;
		relocation->insn = relocation->relo.insn_off / sizeof(struct bpf_insn);
		if (object_function(o, code, relocation->insn) == NO_FUNCTION)
			return -EINVAL;
	}
	return 0;
}

static int read_relocations(struct object *o, const char *bytes, size_t size)
{
	const struct ext_header *header = (const void *)bytes;
	size_t at, end;
	uint32_t each;
	int r = 0;

	if (size < sizeof(*header) || header->hdr_len < sizeof(*header) || !header->relo_len)
		return 0; /* none */
	at = (size_t)header->hdr_len + header->relo_off;
	end = at + header->relo_len;
	if (end > size || header->relo_len < sizeof(each))
		return -EINVAL;
	memcpy(&each, bytes + at, sizeof(each));
	at += sizeof(each);
	if (each < sizeof(struct bpf_core_relo))
		return -EINVAL;
	while (!r && at + sizeof(struct ext_section) <= end) {
		const struct ext_section *info = (const void *)(bytes + at);

		at += sizeof(*info) + (size_t)info->n * each;
		r = at > end ? -EINVAL : add_relocations(o, info, each);
	}
	return r;
}

/* The bytes of section @wanted; NULL. */
static const Elf_Data *find_section(Elf *elf, size_t names, const char *wanted)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		const char *name;

		if (!gelf_getshdr(section, &header))
			break;
		name = elf_strptr(elf, names, header.sh_name);
		if (name && strcmp(name, wanted) == 0)
			return elf_rawdata(section, NULL);
	}
	return NULL;
}

static int read_types(struct object *o, size_t names)
{
	const Elf_Data *types = find_section(o->elf, names, ".BTF");
	const Elf_Data *ext = find_section(o->elf, names, ".BTF.ext");

	if (!types)
		return 0;
	o->btf = btf__new(types->d_buf, (uint32_t)types->d_size);
	if (!o->btf)
		return -errno;
	return ext ? read_relocations(o, ext->d_buf, ext->d_size) : 0;
}

/* ---- the file ---- */

static int map_file(const char *path, struct object *o)
{
	struct stat st;

	o->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (o->fd < 0 || fstat(o->fd, &st))
		return -errno;
	o->size = (size_t)st.st_size;
	o->bytes = mmap(NULL, o->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, o->fd, 0);
	if (o->bytes == MAP_FAILED) {
		o->bytes = NULL;
		return -errno;
	}
	return 0;
}

static int read_object(struct object *o)
{
	Elf_Data *symbols;
	GElf_Shdr header;
	GElf_Ehdr ehdr;
	size_t names;
	int r;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return -EINVAL;
	o->elf = elf_memory(o->bytes, o->size);
	if (!o->elf || !gelf_getehdr(o->elf, &ehdr) || ehdr.e_machine != EM_BPF ||
	    elf_getshdrstrndx(o->elf, &names))
		return -EINVAL;
	r = read_code(o, names);
	symbols = find_symbols(o->elf, &header);
	if (!r)
		r = symbols ? read_functions(o, symbols, &header) : -EINVAL;
	if (!r)
		r = read_addresses(o, symbols);
	if (!r)
		r = resolve_calls(o);
	return r ? r : read_types(o, names);
}

int object_open(const char *path, struct object *o, struct error *err)
{
	int r;

	memset(o, 0, sizeof(*o));
	r = map_file(path, o);
	if (!r)
		r = read_object(o);
	if (r)
		error_set(err, STATUS_USAGE, r, "cannot read the BPF object %s: %s", path,
			  strerror(-r));
	return r;
}

void object_close(struct object *o)
{
	for (size_t i = 0; i < o->n_code; i++) {
		free(o->code[i].insns);
		free(o->code[i].address);
		free(o->code[i].callee);
	}
	free(o->code);
	free(o->functions);
	free(o->relocations);
	btf__free(o->btf);
	elf_end(o->elf);
	if (o->bytes)
		munmap(o->bytes, o->size);
	if (o->fd >= 0)
		close(o->fd);
	memset(o, 0, sizeof(*o));
	o->fd = -1;
}

/* ---- in words ---- */

struct text {
	char *buf;
	size_t size, len;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *fmt, ...)
{
	va_list args;
	int n;

	if (text->len >= text->size)
		return;
	va_start(args, fmt);
	n = vsnprintf(text->buf + text->len, text->size - text->len, fmt, args);
	va_end(args);
	text->len += n > 0 ? (size_t)n : 0;
}

static const struct btf_type *plain(const struct btf *btf, uint32_t id)
{
	const struct btf_type *t = btf__type_by_id(btf, id);

	while (t && (btf_is_mod(t) || btf_is_typedef(t)))
		t = btf__type_by_id(btf, t->type);
	return t;
}

/* One step of the access string: a member of a struct, an element of an array. */
static const struct btf_type *say_step(struct text *text, const struct btf *btf,
				       const struct btf_type *t, unsigned long index)
{
	const struct btf_member *member;
	const char *name;

	if (btf_is_array(t)) {
		say(text, "[%lu]", index);
		return plain(btf, btf_array(t)->type);
	}
	if (!btf_is_composite(t) || index >= btf_vlen(t))
		return NULL;
	member = btf_members(t) + index;
	name = btf__name_by_offset(btf, member->name_off);
	if (*name)
		say(text, ".%s", name);
	return plain(btf, member->type);
}

static void say_enumerator(struct text *text, const struct btf *btf, const struct btf_type *t,
			   unsigned long index)
{
	uint32_t name_off = 0;

	if (index < btf_vlen(t) && btf_is_enum(t))
		name_off = btf_enum(t)[index].name_off;
	else if (index < btf_vlen(t) && btf_is_enum64(t))
		name_off = btf_enum64(t)[index].name_off;
	say(text, "::%s", btf__name_by_offset(btf, name_off));
}

void object_describe(const struct object *o, const struct bpf_core_relo *relo, char *buf,
		     size_t size)
{
	struct text text = { buf, size, 0 };
	const struct btf_type *t = plain(o->btf, relo->type_id);
	const char *access = btf__name_by_offset(o->btf, relo->access_str_off);
	char *at;
	unsigned long index;

	buf[0] = 0;
	if (!t || !access)
		return;
	say(&text, "%s%s",
	    btf_is_any_enum(t)			   ? "enum "
	    : relo->kind >= BPF_CORE_TYPE_ID_LOCAL ? "struct "
						   : "",
	    btf__name_by_offset(o->btf, t->name_off));
	index = strtoul(access, &at, 10);
	if (btf_is_any_enum(t) && relo->kind >= BPF_CORE_ENUMVAL_EXISTS) {
		say_enumerator(&text, o->btf, t, index);
		return;
	}
	if (index)
		say(&text, "[%lu]", index);
	while (t && *at == ':') {
		index = strtoul(at + 1, &at, 10);
		t = say_step(&text, o->btf, t, index);
	}
}
