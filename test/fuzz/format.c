/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Format files of tracepoints, and the names of exit reasons that are made of them. */
#include "cmd/kvm/exit_reasons.h"
#include "cmd/kvm/event_format.h"
#include "fuzz.h"

static void parse(const char *text)
{
	struct event_format format;

	if (event_format_parse(text, &format))
		return;
	event_format_field(&format, "exit_reason");
	for (size_t i = 0; i < format.n_tables; i++)
		for (unsigned int shift = 0; shift < 64; shift++)
			event_table_name(&format.tables[i], UINT64_C(1) << shift);
	event_format_free(&format);
}

static void name(char *text, enum cpu_virt cpu)
{
	const struct reason_formats formats = { .exit = text, .uexit = text, .entry = text };
	char buf[REASON_NAME_SIZE];
	struct reasons *r;

	if (reasons_open(&formats, cpu, &r))
		return;
	for (uint32_t i = 0; i < 4; i++) {
		reason_name(r, REASON_EXIT, i, 1U << i * 8, buf);
		reason_name(r, REASON_UEXIT, i, 0x80000000U >> i * 7, buf);
	}
	reasons_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	parse(text);
	/* Its length says which machine it is of. */
	name(text, (enum cpu_virt)(size % (CPU_ARM64 + 1)));
	free(text);
	return 0;
}
