// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/elf_symbols.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <libiberty/demangle.h>

#include "core/search.h"

/* libdw reads what libelf alone does not: files and sections that are compressed.  Its other half,
 * libdwfl, is left out: it looks every address up by a walk over all symbols. */

/* ---- names ---- */

char *elf_demangle(const char *symbol)
{
	size_t len = strcspn(symbol, "@"); /* "memcpy@@GLIBC_2.14" */
	char *plain = strndup(symbol, len ? len : strlen(symbol)), *nice;

	if (!plain)
		return NULL;
	/* libiberty, because it has C++ and both of Rust's schemes in one function. */
	nice = cplus_demangle(plain, DMGL_AUTO | DMGL_NO_OPTS);
	if (!nice)
		return plain;
	free(plain);
	return nice;
}

/* ---- build ids ---- */

static void build_id_of(Elf *elf, struct build_id *out)
{
	const void *bytes;
	ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);

	out->size = 0;
	if (size <= 0 || size > BUILD_ID_SIZE)
		return;
	memcpy(out->bytes, bytes, (size_t)size);
	out->size = (uint8_t)size;
}

static Elf *open_elf(int fd)
{
	Elf *elf;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return NULL;
	elf = dwelf_elf_begin(fd);
	if (elf && elf_kind(elf) == ELF_K_ELF)
		return elf;
	elf_end(elf);
	return NULL;
}

void elf_build_id(int fd, struct build_id *out)
{
	Elf *elf = open_elf(fd);

	out->size = 0;
	if (!elf)
		return;
	build_id_of(elf, out);
	elf_end(elf);
}

/* ---- symbols ---- */

static int compare_places(const void *a, const void *b)
{
	const struct elf_place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Where the file's bytes are meant to be in memory: what symbols are about. */
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

/* Of several symbols that a place lies in: one that says how long it is, then the one that begins
 * last, then a function, then the name that looks least like an internal alias of the other
 * ("write" before "__write"), then one that others may use. */
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

#define UNSIZED_REACH 65536 /* of hand-written assembly that says no size */

static void take_symbol(const GElf_Sym *sym, const char *name, struct elf_place *places, size_t n)
{
	uint64_t reach = sym->st_size ? sym->st_size : UNSIZED_REACH;
	int rank = rank_of(sym, name);

	for (size_t i = search_first_at(places, n, sizeof(*places), sym->st_value); i < n; i++) {
		struct elf_place *place = &places[i];
		char *copy;

		if (place->address - sym->st_value >= reach)
			return;
		/* rank -2: named by a better source */
		if (place->rank == -2 || !is_better(place, sym, rank))
			continue;
		copy = strdup(name);
		if (!copy)
			return;
		free(place->name);
		place->name = copy;
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

static void walk_symbols(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
			 struct elf_place *places, size_t n)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = header->sh_entsize && data ? data->d_size / header->sh_entsize : 0;
	const char *name;
	GElf_Sym sym;

	for (size_t i = 0; i < count && i < INT_MAX; i++) {
		if (!gelf_getsym(data, (int)i, &sym) || !is_code(elf, &sym))
			continue;
		name = elf_strptr(elf, header->sh_link, sym.st_name);
		/* "$x" and the like only mark code on ARM. */
		if (name && name[0] && name[0] != '$')
			take_symbol(&sym, name, places, n);
	}
}

/* All symbol tables of @type.  What they name is settled afterwards. */
static void walk_tables(Elf *elf, unsigned int type, struct elf_place *places, size_t n)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == type)
			walk_symbols(elf, section, &header, places, n);
	for (size_t i = 0; i < n; i++)
		if (places[i].rank >= 0)
			places[i].rank = -2;
}

static bool all_named(const struct elf_place *places, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!places[i].name && places[i].address != UINT64_MAX)
			return false;
	return true;
}

/* ---- debug files ---- */

struct search {
	Elf *elf;
	struct build_id id;
	const char *path;
	struct elf_place *places;
	size_t n;
};

static uint32_t crc_of(int fd)
{
	unsigned char bytes[65536];
	uLong crc = crc32(0, NULL, 0);
	ssize_t n;

	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		crc = crc32(crc, bytes, (uInt)n);
	return (uint32_t)crc;
}

/* Takes the symbols of @path if it is the file's own debug file: by build id, or, where the file
 * has none, by the checksum @crc. */
static void try_debug_file(const struct search *s, const char *path, const uint32_t *crc)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct build_id id;
	Elf *elf;

	if (fd < 0)
		return;
	elf = open_elf(fd);
	if (!elf)
		goto out;
	build_id_of(elf, &id);
	if (s->id.size ? id.size == s->id.size && !memcmp(id.bytes, s->id.bytes, id.size)
		       : crc && crc_of(fd) == *crc)
		walk_tables(elf, SHT_SYMTAB, s->places, s->n);
	elf_end(elf);
out:
	close(fd);
}

static void debug_by_build_id(const struct search *s, const char *root)
{
	char hex[2 * BUILD_ID_SIZE + 1], path[PATH_MAX];

	if (s->id.size < 2)
		return;
	for (size_t i = 0; i < s->id.size; i++)
		snprintf(hex + 2 * i, 3, "%02x", s->id.bytes[i]);
	snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, hex,
		 hex + 2);
	try_debug_file(s, path, NULL);
}

/* As gdb looks for it: beside the file, in .debug beside it, and below /usr/lib/debug. */
static void debug_by_link(const struct search *s, const char *root)
{
	const char *slash = strrchr(s->path, '/'), *name;
	int dir = slash ? (int)(slash - s->path) : 0;
	char path[PATH_MAX];
	GElf_Word crc;

	name = dwelf_elf_gnu_debuglink(s->elf, &crc);
	if (!name || strchr(name, '/'))
		return;
	/* Beside it may be the file itself: then it is not the debug file, and has no symbols. */
	snprintf(path, sizeof(path), "%s%.*s/%s", root, dir, s->path, name);
	try_debug_file(s, path, &crc);
	snprintf(path, sizeof(path), "%s%.*s/.debug/%s", root, dir, s->path, name);
	try_debug_file(s, path, &crc);
	snprintf(path, sizeof(path), "%s/usr/lib/debug%.*s/%s", root, dir, s->path, name);
	try_debug_file(s, path, &crc);
}

/* .gnu_debugdata: an ELF file with the symbols that .dynsym has not, compressed. */
static void minimal_debug_info(const struct search *s)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(s->elf, &names))
		return;
	while ((section = elf_nextscn(s->elf, section))) {
		const char *name;
		Elf_Data *data;
		Elf *elf;
		int fd;

		if (!gelf_getshdr(section, &header))
			continue;
		name = elf_strptr(s->elf, names, header.sh_name);
		data = name && !strcmp(name, ".gnu_debugdata") ? elf_rawdata(section, NULL) : NULL;
		fd = data ? memfd_create("gnu_debugdata", MFD_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		elf = write(fd, data->d_buf, data->d_size) == (ssize_t)data->d_size ? open_elf(fd)
										    : NULL;
		if (elf)
			walk_tables(elf, SHT_SYMTAB, s->places, s->n);
		elf_end(elf);
		close(fd);
	}
}

static void search_all(const struct search *s, const struct elf_debug_dirs *dirs)
{
	walk_tables(s->elf, SHT_SYMTAB, s->places, s->n);
	for (size_t i = 0; i < dirs->n && !all_named(s->places, s->n); i++) {
		debug_by_build_id(s, dirs->roots[i]);
		if (!all_named(s->places, s->n))
			debug_by_link(s, dirs->roots[i]);
	}
	if (!all_named(s->places, s->n))
		minimal_debug_info(s);
	if (!all_named(s->places, s->n))
		walk_tables(s->elf, SHT_DYNSYM, s->places, s->n);
}

int elf_symbols(int fd, const char *path, const struct elf_debug_dirs *dirs,
		struct elf_place *places, size_t n)
{
	struct search s = { .elf = open_elf(fd), .path = path, .places = places, .n = n };

	if (!s.elf)
		return -ENOEXEC;
	build_id_of(s.elf, &s.id);
	set_addresses(s.elf, places, n);
	qsort(places, n, sizeof(*places), compare_places);
	search_all(&s, dirs);
	elf_end(s.elf);
	for (size_t i = 0; i < n; i++) {
		char *nice = places[i].name ? elf_demangle(places[i].name) : NULL;

		if (!nice)
			continue;
		free(places[i].name);
		places[i].name = nice;
	}
	return 0;
}
