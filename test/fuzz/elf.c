/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Symbols of programs: any user can map any file and then do I/O. */
#include "core/symbols/elf_symbols.h"
#include "fuzz.h"

/* Debug files: the input again. */
static int open_debug(void *ctx, const struct debug_query *query)
{
	(void)query;
	return dup(*(const int *)ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct build_id any;
	static int scratch = -1;
	int fd = fuzz_fd(data, size);
	struct debug_opener opener = { open_debug, &fd, 1, 0 };
	struct elf_place places[16];
	enum unread unread = UNREAD_NOTHING;

	if (scratch < 0)
		scratch = memfd_create("scratch", MFD_CLOEXEC);
	opener.scratch = scratch;
	for (size_t i = 0; i < 16; i++)
		places[i] = (struct elf_place){ .offset = i < 12 ? i * 0x155 : UINT64_MAX >> i };
	elf_symbols(fd, &any, &opener, places, 16, &unread);
	for (size_t i = 0; i < 16; i++)
		free(places[i].name);
	return 0;
}
