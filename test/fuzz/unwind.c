/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unwinding tables: any user can map any file and then do I/O. */
#include "core/symbols/elf_unwind.h"
#include "fuzz.h"

/* A register's number may make libdw ask for gigabytes, and libelf (0.188) forgets what it read of
 * a damaged file: the helper process has a limit of memory. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "max_allocation_size_mb=128";
}

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libelf.so";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct build_id any;
	enum unread unread = UNREAD_NOTHING;
	struct unwind_table t;

	if (elf_unwind(fuzz_fd(data, size), &any, &t, &unread))
		return 0;
	if (!t.n_rows || t.n_rows > MAX_UNWIND_ROWS || !t.n_rules || t.n_rules > MAX_UNWIND_RULES)
		abort();
	for (size_t i = 0; i < t.n_rows; i++)
		if ((t.rows[i] & 0xffff) >= t.n_rules || t.rows[i] >> 16 >= UNWIND_MAX_OFFSET ||
		    (i && t.rows[i] >> 16 <= t.rows[i - 1] >> 16))
			abort();
	for (size_t i = 0; i < t.n_rules; i++)
		if (!unwind_rule_is_valid(&t.rules[i]))
			abort();
	unwind_table_free(&t);
	return 0;
}
