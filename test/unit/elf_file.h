/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_ELF_FILE_H
#define IOTRACE_TEST_UNIT_ELF_FILE_H

/* Small ELF files, as a test wants them. */

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct elf_file {
	const char *symbol; /* NULL: no .symtab; a function at offset 0x1000, of 0x100 bytes */
	const char *link;   /* NULL: no .gnu_debuglink */
	unsigned int crc;
	const void *debugdata; /* NULL: no .gnu_debugdata */
	size_t debugdata_size;
};

static inline Elf64_Shdr elf_file_section(FILE *out, Elf64_Word name, Elf64_Word type,
					  const void *data, size_t size)
{
	static const char zeros[8];
	Elf64_Shdr header = {
		.sh_name = name, .sh_type = type, .sh_size = size, .sh_addralign = 8
	};

	fwrite(zeros, 1, (size_t)(-ftell(out) & 7), out);
	header.sh_offset = (Elf64_Off)ftell(out);
	fwrite(data, 1, size, out);
	return header;
}

/* The file's bytes, the caller's to free. */
static inline char *elf_file_bytes(const struct elf_file *file, size_t *size)
{
	static const char names[] = "\0.symtab\0.strtab\0.shstrtab\0.gnu_debuglink\0.gnu_debugdata";
	enum { SYMTAB = 1, STRTAB = 9, SHSTRTAB = 17, LINK = 27, DEBUGDATA = 42 };
	Elf64_Ehdr head = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(head),
		.e_ehsize = sizeof(head),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shstrndx = 1,
	};
	const Elf64_Phdr load = { .p_type = PT_LOAD, .p_flags = PF_X, .p_filesz = 0x10000 };
	Elf64_Sym symbols[2] = { { 0 },
				 { .st_name = 1,
				   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				   .st_shndx = 1,
				   .st_value = 0x1000,
				   .st_size = 0x100 } };
	Elf64_Shdr sections[6] = { { 0 } };
	size_t n = 1, length;
	char *bytes = NULL, text[512] = "";
	FILE *out = open_memstream(&bytes, size);

	fwrite(&head, sizeof(head), 1, out);
	fwrite(&load, sizeof(load), 1, out);
	sections[n++] = elf_file_section(out, SHSTRTAB, SHT_STRTAB, names, sizeof(names));
	if (file->symbol) {
		length = (size_t)snprintf(text + 1, sizeof(text) - 1, "%s", file->symbol) + 2;
		sections[n++] = elf_file_section(out, STRTAB, SHT_STRTAB, text, length);
		sections[n] = elf_file_section(out, SYMTAB, SHT_SYMTAB, symbols, sizeof(symbols));
		sections[n].sh_link = (Elf64_Word)(n - 1);
		sections[n++].sh_entsize = sizeof(symbols[0]);
	}
	if (file->link) {
		memset(text, 0, sizeof(text));
		length = ((size_t)snprintf(text, 256, "%s", file->link) + 4) & ~3UL;
		memcpy(text + length, &file->crc, 4);
		sections[n++] = elf_file_section(out, LINK, SHT_PROGBITS, text, length + 4);
	}
	if (file->debugdata)
		sections[n++] = elf_file_section(out, DEBUGDATA, SHT_PROGBITS, file->debugdata,
						 file->debugdata_size);
	head.e_shoff = elf_file_section(out, 0, 0, sections, n * sizeof(sections[0])).sh_offset;
	head.e_shnum = (Elf64_Half)n;
	fclose(out);
	memcpy(bytes, &head, sizeof(head));
	return bytes;
}

/* The file in memory: a descriptor.  Its mode is 0600: only its owner may write to it. */
static inline int elf_file_fd(const struct elf_file *file)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);
	size_t size;
	char *bytes = elf_file_bytes(file, &size);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || fchmod(fd, 0600))
		abort();
	free(bytes);
	return fd;
}

#endif
