// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/cpus.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/cleanup.h"

#define MAX_CPUS 65536

uint32_t cpus_parse_list(const char *text)
{
	unsigned long cpu, most = 0;
	char *end;

	for (;; text = end + 1) {
		if (!isdigit((unsigned char)*text))
			return 0;
		cpu = strtoul(text, &end, 10);
		if (cpu >= MAX_CPUS)
			return 0;
		if (cpu > most)
			most = cpu;
		if (!*end || *end == '\n')
			return (uint32_t)most + 1;
		if (*end != '-' && *end != ',')
			return 0;
	}
}

uint32_t cpus_possible(void)
{
	FILE *file FCLOSE_AT_END = fopen("/sys/devices/system/cpu/possible", "re");
	char line[4096] = "";
	uint32_t n = 0;
	long online;

	if (file && fgets(line, sizeof(line), file))
		n = cpus_parse_list(line);
	if (n)
		return n;
	online = sysconf(_SC_NPROCESSORS_CONF);
	return online > 0 ? (uint32_t)online : 1;
}
