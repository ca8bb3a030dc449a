// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/cpus.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_CPUS 65536

uint32_t cpus_parse_list(const char *text)
{
	unsigned long last = 0;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return 0;
	while (isdigit((unsigned char)*text)) {
		last = strtoul(text, &end, 10);
		if (last >= MOST_CPUS)
			return 0;
		text = *end == '-' || *end == ',' ? end + 1 : end;
	}
	return *text == '\n' || !*text ? (uint32_t)last + 1 : 0;
}

uint32_t cpus_possible(void)
{
	FILE *file = fopen("/sys/devices/system/cpu/possible", "re");
	char line[4096] = "";
	uint32_t n = 0;
	long online;

	if (file) {
		if (fgets(line, sizeof(line), file))
			n = cpus_parse_list(line);
		fclose(file);
	}
	if (n)
		return n;
	online = sysconf(_SC_NPROCESSORS_CONF);
	return online > 0 ? (uint32_t)online : 1;
}
