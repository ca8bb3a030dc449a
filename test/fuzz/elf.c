/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Symbols of programs: any user can map any file and then do I/O. */
#include "core/elf_symbols.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const roots[] = { "/nowhere" };
	const struct elf_debug_dirs dirs = { roots, 1 };
	int fd = fuzz_fd(data, size);
	struct elf_place places[16];
	struct build_id id;

	elf_build_id(fd, &id);
	for (size_t i = 0; i < 16; i++)
		places[i] = (struct elf_place){ .offset = i < 12 ? i * 0x155 : UINT64_MAX >> i };
	elf_symbols(fd, "/nowhere/program", &dirs, places, 16);
	for (size_t i = 0; i < 16; i++)
		free(places[i].name);
	return 0;
}
