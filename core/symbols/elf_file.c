// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/elf_file.h"

#include <elfutils/libdwelf.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"

void elf_file_build_id(Elf *elf, struct build_id *out)
{
	const void *bytes;
	ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);

	out->size = 0;
	if (size <= 0 || size > BUILD_ID_SIZE)
		return;
	memcpy(out->bytes, bytes, (size_t)size);
	out->size = (uint8_t)size;
}

static bool is_compressed(int fd)
{
	static const char *const magics[] = { "\037\213", "\3757zXZ", "BZh", "\050\265\057\375" };
	char bytes[8] = "";

	/* zlib reads from the descriptor's position. */
	if (pread(fd, bytes, sizeof(bytes), 0) < 0 || lseek(fd, 0, SEEK_SET))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++)
		if (memcmp(bytes, magics[i], strlen(magics[i])) == 0)
			return true;
	return false;
}

/* libdw returns the part that it could unpack before memory ran out. */
static bool is_whole(Elf *elf)
{
	size_t size;

	return elf_rawfile(elf, &size) && size <= MAX_UNPACKED;
}

static Elf *only_elf(Elf *elf)
{
	if (elf && elf_kind(elf) == ELF_K_ELF)
		return elf;
	elf_end(elf);
	return NULL;
}

Elf *elf_file_open(int fd, enum unread *unread)
{
	Elf *elf;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return NULL;
	elf = only_elf(elf_begin(fd, ELF_C_READ, NULL));
	if (elf || !is_compressed(fd))
		return elf;
	elf = only_elf(dwelf_elf_begin(fd));
	if (elf && is_whole(elf))
		return elf;
	elf_end(elf);
	unread_because(unread, UNREAD_PACKED);
	return NULL;
}

bool elf_file_is(const struct build_id *has, const struct build_id *id)
{
	return !id->size || (has->size == id->size && !memcmp(has->bytes, id->bytes, id->size));
}

Elf_Scn *elf_file_section(Elf *elf, const char *name, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		const char *its =
		    gelf_getshdr(section, header) ? elf_strptr(elf, names, header->sh_name) : NULL;

		if (its && header->sh_type != SHT_NOBITS && strcmp(its, name) == 0)
			return section;
	}
	return NULL;
}
