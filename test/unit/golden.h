/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_UNIT_GOLDEN_H
#define IOTRACE_TEST_UNIT_GOLDEN_H

/* What an output has to be is a file of golden/.  After cmocka.h. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* @text, of @size bytes, is golden/@name; with GOLDEN_UPDATE it becomes that. */
static inline void assert_golden(const char *name, const char *text, size_t size)
{
	char path[PATH_MAX], *want = NULL;
	size_t room = 0;
	FILE *file;

	assert_int_equal(strlen(text), size);
	snprintf(path, sizeof(path), "%s/golden/%s", TEST_SOURCE_DIR, name);
	if (getenv("GOLDEN_UPDATE")) {
		file = fopen(path, "w");
		assert_non_null(file);
		assert_true(fputs(text, file) >= 0);
		assert_int_equal(fclose(file), 0);
	}
	file = fopen(path, "r");
	assert_non_null(file);
	assert_true(getdelim(&want, &room, '\0', file) > 0);
	fclose(file);
	assert_string_equal(text, want);
	free(want);
}

#endif
