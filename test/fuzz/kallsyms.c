/* SPDX-License-Identifier: GPL-2.0-or-later */
/* /proc/kallsyms: the kernel's, but a container may have put anything there. */
#include "core/system/kallsyms.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const wanted[] = { "vring_interrupt", "submit_bio" };
	const char *path = fuzz_path(data, size);
	struct kallsyms *k = NULL;
	uint64_t values[2];
	struct error err;

	kallsyms_find(path, wanted, values, 2);
	kallsyms_shown(path, &err);
	if (kallsyms_open(path, &k, &err))
		return 0;
	kallsyms_hidden(k);
	for (unsigned int shift = 0; shift < 64; shift++) {
		kallsyms_name(k, UINT64_MAX << shift);
		kallsyms_name(k, UINT64_C(0xffffffff81000000) + (1U << shift / 3));
	}
	kallsyms_free(k);
	return 0;
}
