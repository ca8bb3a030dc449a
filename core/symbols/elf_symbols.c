// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/elf_symbols.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <gelf.h>
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <libiberty/demangle.h>

#include "core/base/search.h"
#include "core/symbols/elf_file.h"

/* libdw reads compressed files and sections, which libelf alone does not.  Its other half, libdwfl,
 * is not used: it looks every address up by a walk over all symbols. */

/* ---- names ---- */

/* The output of the demangler so far. */
struct text {
	jmp_buf full;
	size_t size;
	char bytes[MAX_SYMBOL_NAME];
};

/* A name of 234 bytes can stand for gigabytes (a type that names the previous one twice, and so
 * on), and the only way to stop is to jump out. */
static void add_text(const char *bytes, size_t size, void *ctx)
{
	struct text *text = ctx;

	if (size >= sizeof(text->bytes) - text->size)
		longjmp(text->full, 1);
	if (size) /* @bytes may be NULL */
		memcpy(text->bytes + text->size, bytes, size);
	text->size += size;
}

/* Like cplus_demangle(), which has no callback: Rust's two schemes, then C++. */
static bool demangle(const char *symbol, struct text *text)
{
	text->size = 0;
	if (setjmp(text->full))
		return false;
	if (rust_demangle_callback(symbol, DMGL_AUTO, add_text, text))
		return true;
	text->size = 0;
	return cplus_demangle_v3_callback(symbol, DMGL_AUTO, add_text, text);
}

char *elf_demangle(const char *symbol)
{
	size_t len = strcspn(symbol, "@"); /* "memcpy@@GLIBC_2.14" */
	char *plain = strndup(symbol, len ? len : strlen(symbol)), *nice;
	static struct text text;

	if (!plain || strlen(plain) >= MAX_SYMBOL || !demangle(plain, &text))
		return plain;
	nice = strndup(text.bytes, text.size);
	free(plain);
	return nice;
}

/* ---- symbols ---- */

static int compare_places(const void *a, const void *b)
{
	const struct elf_place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* The mapped places first, by address; returns their number.  Usually they are already in file
 * order. */
static size_t sort_places(struct elf_place *places, size_t n)
{
	size_t mapped = 0;
	bool sorted = true;

	for (size_t i = 0; i < n; i++) {
		struct elf_place place = places[i];

		if (place.address == UINT64_MAX)
			continue;
		places[i] = places[mapped];
		places[mapped] = place;
		if (mapped && place.address < places[mapped - 1].address)
			sorted = false;
		mapped++;
	}
	if (!sorted)
		qsort(places, mapped, sizeof(*places), compare_places);
	return mapped;
}

/* The intended address of the file's bytes in memory, which symbols refer to. */
static void set_addresses(Elf *elf, struct elf_place *places, size_t n)
{
	size_t headers = 0;
	GElf_Phdr header;

	for (size_t i = 0; i < n; i++) {
		places[i].address = UINT64_MAX;
		places[i].rank = -1;
	}
	if (elf_getphdrnum(elf, &headers))
		return;
	for (size_t h = 0; h < headers; h++) {
		if (!gelf_getphdr(elf, (int)h, &header) || header.p_type != PT_LOAD)
			continue;
		for (size_t i = 0; i < n; i++)
			if (places[i].offset >= header.p_offset &&
			    places[i].offset - header.p_offset < header.p_filesz)
				places[i].address =
				    places[i].offset - header.p_offset + header.p_vaddr;
	}
}

/* Chooses among several symbols that contain a place: one with a size, then the one that begins
 * last, then a function, then the name that looks least like an internal alias of the other
 * ("write" before "__write"), then a global one. */
#define RANK_SIZED 32

static int rank_of(const GElf_Sym *sym, const char *name)
{
	size_t underscores = strspn(name, "_");
	int rank = underscores < 3 ? (int)(3 - underscores) * 4 : 0;

	if (sym->st_size)
		rank += RANK_SIZED;
	if (GELF_ST_TYPE(sym->st_info) != STT_NOTYPE)
		rank += 16;
	if (GELF_ST_BIND(sym->st_info) == STB_GLOBAL)
		rank += 2;
	else if (GELF_ST_BIND(sym->st_info) == STB_WEAK)
		rank += 1;
	return rank;
}

static bool is_better(const struct elf_place *place, const GElf_Sym *sym, int rank)
{
	if (place->rank < 0)
		return true;
	if ((rank >= RANK_SIZED) != (place->rank >= RANK_SIZED))
		return rank >= RANK_SIZED;
	if (sym->st_value != place->start)
		return sym->st_value > place->start;
	return rank > place->rank;
}

#define UNSIZED_REACH 65536 /* hand-written assembly without a size */

static void take_symbol(const GElf_Sym *sym, const char *name, struct elf_place *places, size_t n)
{
	uint64_t reach = sym->st_size ? sym->st_size : UNSIZED_REACH;
	int rank = rank_of(sym, name);

	for (size_t i = search_first_at(places, n, sizeof(*places), sym->st_value); i < n; i++) {
		struct elf_place *place = &places[i];

		if (place->address - sym->st_value >= reach)
			return;
		/* rank -2: named by a better source */
		if (place->rank == -2 || !is_better(place, sym, rank))
			continue;
		place->symbol = name;
		place->rank = rank;
		place->start = sym->st_value;
	}
}

static bool is_code(Elf *elf, const GElf_Sym *sym)
{
	int type = GELF_ST_TYPE(sym->st_info);
	GElf_Shdr header;
	Elf_Scn *section;

	if (sym->st_shndx == SHN_UNDEF || !sym->st_name)
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	if (type != STT_NOTYPE || sym->st_shndx >= SHN_LORESERVE)
		return false;
	section = elf_getscn(elf, sym->st_shndx);
	return section && gelf_getshdr(section, &header) && (header.sh_flags & SHF_EXECINSTR);
}

struct search {
	Elf *elf;
	struct build_id id;
	const struct debug_opener *opener;
	struct elf_place *places;
	size_t n;
	enum unread *unread;
};

static void walk_symbols(const struct search *s, Elf *elf, Elf_Scn *section,
			 const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = header->sh_entsize && data ? data->d_size / header->sh_entsize : 0;
	const char *name;
	GElf_Sym sym;

	if (!data)
		unread_because(s->unread, UNREAD_DAMAGED);
	for (size_t i = 0; i < count && i < INT_MAX; i++) {
		if (!gelf_getsym(data, (int)i, &sym) || !is_code(elf, &sym))
			continue;
		name = elf_strptr(elf, header->sh_link, sym.st_name);
		if (!name)
			unread_because(s->unread, UNREAD_DAMAGED);
		/* "$x" and the like only mark code on ARM. */
		else if (name[0] && name[0] != '$')
			take_symbol(&sym, name, s->places, s->n);
	}
}

/* Are its section headers after its end? libelf then reports none. */
static bool lost_sections(Elf *elf)
{
	GElf_Ehdr header;
	size_t n;

	return gelf_getehdr(elf, &header) && header.e_shoff && (elf_getshdrnum(elf, &n) || !n);
}

/* All symbol tables of @type.  The names are settled afterwards. */
static void walk_tables(const struct search *s, Elf *elf, unsigned int type)
{
	struct elf_place *places = s->places;
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	if (lost_sections(elf))
		unread_because(s->unread, UNREAD_DAMAGED);
	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == type)
			walk_symbols(s, elf, section, &header);
	for (size_t i = 0; i < s->n; i++)
		if (places[i].rank >= 0) {
			places[i].rank = -2;
			places[i].name = strndup(places[i].symbol, MAX_SYMBOL);
		}
}

static bool all_named(const struct elf_place *places, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!places[i].name)
			return false;
	return true;
}

/* ---- debug files ---- */

/* The checksum of the file; false: it is too long (a sparse file may have any size). */
static bool crc_of(int fd, uint32_t *out)
{
	unsigned char bytes[65536];
	uLong crc = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;

	while (at <= MAX_CHECKED && (n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		crc = crc32(crc, bytes, (uInt)n);
		at += n;
	}
	*out = (uint32_t)crc;
	return at <= MAX_CHECKED;
}

static bool has_crc(const struct search *s, int fd, uint32_t crc)
{
	struct stat st;
	uint32_t found;

	if (fstat(fd, &st) == 0 && st.st_size <= MAX_CHECKED && crc_of(fd, &found))
		return found == crc;
	unread_because(s->unread, UNREAD_CHECKSUM);
	return false;
}

/* Reads the symbols of the file that answers @query if it is the right debug file: by build id or,
 * without one, by the checksum @crc. */
static void try_debug_file(const struct search *s, const struct debug_query *query,
			   const uint32_t *crc)
{
	int fd = s->opener->open(s->opener->ctx, query);
	struct build_id id;
	Elf *elf;

	if (fd < 0)
		return;
	elf = elf_file_open(fd, s->unread);
	if (!elf)
		goto out;
	elf_file_build_id(elf, &id);
	if (s->id.size ? elf_file_is(&id, &s->id) : crc && has_crc(s, fd, *crc))
		walk_tables(s, elf, SHT_SYMTAB);
	elf_end(elf);
out:
	close(fd);
}

bool debug_link_is_name(const char *link)
{
	return link[0] && strlen(link) < DEBUG_LINK_SIZE && !strchr(link, '/') &&
	       strcmp(link, ".") != 0 && strcmp(link, "..") != 0;
}

/* Like gdb: next to the file, in .debug next to it, and below /usr/lib/debug.  The file found next
 * to it may be the file itself: then it is not the debug file, and has no symbols. */
static void debug_by_link(const struct search *s, struct debug_query *query)
{
	const char *name;
	GElf_Word crc;

	name = dwelf_elf_gnu_debuglink(s->elf, &crc);
	if (!name || !debug_link_is_name(name))
		return;
	snprintf(query->link, sizeof(query->link), "%s", name);
	for (query->where = DEBUG_IN_DIR; query->where < DEBUG_WHERES; query->where++)
		try_debug_file(s, query, &crc);
}

/* .gnu_debugdata: a compressed ELF file with the symbols missing in .dynsym. */
static void unpack_symbols(const struct search *s, const Elf_Data *data)
{
	int fd = s->opener->scratch;
	Elf *elf = NULL;

	if (lseek(fd, 0, SEEK_SET) == 0 &&
	    write(fd, data->d_buf, data->d_size) == (ssize_t)data->d_size)
		elf = elf_file_open(fd, s->unread);
	else
		unread_because(s->unread, UNREAD_DEBUGDATA);
	if (elf)
		walk_tables(s, elf, SHT_SYMTAB);
	elf_end(elf);
	(void)!ftruncate(fd, 0);
}

static void minimal_debug_info(const struct search *s)
{
	GElf_Shdr header;
	Elf_Scn *section = elf_file_section(s->elf, ".gnu_debugdata", &header);
	Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;

	if (data)
		unpack_symbols(s, data);
}

static void search_all(const struct search *s)
{
	walk_tables(s, s->elf, SHT_SYMTAB);
	for (uint32_t i = 0; i < s->opener->n_roots && !all_named(s->places, s->n); i++) {
		struct debug_query query = { .root = i, .where = DEBUG_BY_BUILD_ID, .id = s->id };

		if (s->id.size >= 2)
			try_debug_file(s, &query, NULL);
		/* In another root the links next to the file's path would be links of that root. */
		if (i == 0 && !all_named(s->places, s->n))
			debug_by_link(s, &query);
	}
	if (!all_named(s->places, s->n))
		minimal_debug_info(s);
	if (!all_named(s->places, s->n))
		walk_tables(s, s->elf, SHT_DYNSYM);
}

/* Places of one function, which are neighbours, share the demangler's work. */
static void demangle_all(struct elf_place *places, size_t n)
{
	char *symbol = NULL, *nice = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!places[i].name)
			continue;
		if (!symbol || strcmp(symbol, places[i].name) != 0) {
			free(symbol);
			symbol = places[i].name;
			free(nice);
			nice = elf_demangle(symbol);
		} else {
			free(places[i].name);
		}
		places[i].name = nice ? strdup(nice) : NULL;
	}
	free(symbol);
	free(nice);
}

int elf_symbols(int fd, const struct build_id *id, const struct debug_opener *opener,
		struct elf_place *places, size_t n, enum unread *unread)
{
	struct search s = {
		.opener = opener,
		.places = places,
		.unread = unread,
	};

	s.elf = elf_file_open(fd, unread);
	if (!s.elf)
		return -ENOEXEC;
	elf_file_build_id(s.elf, &s.id);
	if (!elf_file_is(&s.id, id)) {
		elf_end(s.elf);
		return -ESTALE;
	}
	set_addresses(s.elf, places, n);
	s.n = sort_places(places, n);
	search_all(&s);
	elf_end(s.elf);
	demangle_all(places, s.n);
	return 0;
}
