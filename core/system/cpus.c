// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/system/cpus.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

enum cpu_virt cpus_virt(const char *path, const char *machine)
{
	enum cpu_virt cpu = strcmp(machine, "aarch64") == 0 ? CPU_ARM64 : CPU_UNKNOWN;
	FILE *file = fopen(path, "re");
	char *line = NULL, *rest, *word;
	size_t size = 0;

	/* One processor's flags speak for all. */
	while (file && cpu == CPU_UNKNOWN && getline(&line, &size, file) >= 0) {
		if (strncmp(line, "flags", 5) != 0)
			continue;
		for (rest = line; cpu == CPU_UNKNOWN && (word = strsep(&rest, " \t\n"));)
			cpu = strcmp(word, "vmx") == 0	 ? CPU_VMX
			      : strcmp(word, "svm") == 0 ? CPU_SVM
							 : CPU_UNKNOWN;
		break;
	}
	free(line);
	if (file)
		fclose(file);
	return cpu;
}
