/* SPDX-License-Identifier: GPL-2.0-or-later */
/* /tmp/perf-PID.map, which any user can write, and names that are to be demangled. */
#include "core/symbols/elf_symbols.h"
#include "core/symbols/perf_map.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_map_place places[8];
	enum unread unread = UNREAD_NOTHING;
	char *text;

	for (size_t i = 0; i < 8; i++)
		places[i] = (struct perf_map_place){ .address = i < 7 ? 0x1000 * i : UINT64_MAX };
	perf_map_read(fuzz_fd(data, size), places, 8, &unread);
	for (size_t i = 0; i < 8; i++)
		free(places[i].name);
	text = fuzz_text(data, size);
	free(elf_demangle(text));
	free(text);
	return 0;
}
