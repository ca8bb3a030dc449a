/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the helper process costs: names of 100,000 places in the code of each FILE, by
 * symbol_client_elf() and by elf_symbols() in the process itself, in turns.  For each file the
 * medians of both in ms, and of their ratio.  Exit status 0: the helper takes at most 1.5 times as
 * long, or 0.3 us more per place.
 *
 *	symbols [-n PLACES] [-r ROUNDS] FILE...
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/isolation/open_regular.h"
#include "core/symbols/symbol_client.h"
#include "core/symbols/symbol_server.h"

#define MAX_ROUNDS 1000
#define MAX_RATIO  1.5
#define MAX_MORE   0.3e-3 /* ms per place */

static size_t n_places = 100000, n_rounds = 21;
static int own_root, scratch;

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

static int open_debug(void *ctx, const struct debug_query *query)
{
	(void)ctx;
	(void)query;
	return -ENOENT;
}

/* Part of a file, in bytes. */
struct range {
	uint64_t start, size;
};

static struct range code_of(int fd)
{
	struct range code = { 0 };
	size_t n = 0;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!elf || elf_getphdrnum(elf, &n))
		fail("not an ELF file");
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr segment;

		if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_LOAD &&
		    segment.p_flags & PF_X && segment.p_filesz > code.size)
			code = (struct range){ segment.p_offset, segment.p_filesz };
	}
	elf_end(elf);
	if (!code.size)
		fail("no code");
	return code;
}

static uint64_t place(struct range code, size_t i)
{
	return code.start + i * code.size / n_places;
}

static uint64_t time_here(int fd, struct range code, size_t *named)
{
	static const struct build_id any;
	const struct debug_opener opener = { .open = open_debug, .scratch = scratch };
	struct elf_place *places = calloc(n_places, sizeof(*places));
	uint64_t begin_ns = clock_mono_ns();
	enum unread unread = UNREAD_NOTHING;

	*named = 0;
	for (size_t i = 0; i < n_places; i++)
		places[i] = (struct elf_place){ .offset = place(code, i), .tag = i };
	if (elf_symbols(fd, &any, &opener, places, n_places, &unread))
		fail("elf_symbols");
	for (size_t i = 0; i < n_places; i++) {
		*named += places[i].name != NULL;
		free(places[i].name);
	}
	free(places);
	return clock_mono_ns() - begin_ns;
}

static uint64_t time_client(struct symbol_client *c, const struct opened_file *opened,
			    struct range code, size_t *named)
{
	const struct symbol_file file = { .file = *opened, .path = "/" };
	struct symbol_place *places = calloc(n_places, sizeof(*places));
	uint64_t begin_ns = clock_mono_ns();

	*named = 0;
	for (size_t i = 0; i < n_places; i++)
		places[i].at = place(code, i);
	if (symbol_client_elf(c, &file, places, n_places))
		fail("symbol_client_elf");
	for (size_t i = 0; i < n_places; i++)
		*named += places[i].name != NULL;
	free(places);
	return clock_mono_ns() - begin_ns;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return values[n / 2];
}

static bool bench(struct symbol_client *c, const char *path)
{
	static double here[MAX_ROUNDS], client[MAX_ROUNDS], ratios[MAX_ROUNDS];
	struct opened_file file;
	size_t named[2] = { 0 };
	struct range code;
	double ratio, ms[2];

	if (open_regular(own_root, path, 0, &file))
		fail(path);
	code = code_of(file.fd);
	for (size_t i = 0; i < n_rounds; i++) {
		here[i] = (double)time_here(file.fd, code, &named[0]) / 1e6;
		client[i] = (double)time_client(c, &file, code, &named[1]) / 1e6;
		ratios[i] = client[i] / here[i];
	}
	opened_file_close(&file);
	ratio = median(ratios, n_rounds);
	ms[0] = median(here, n_rounds);
	ms[1] = median(client, n_rounds);
	printf("%-50s %7zu named %8.1f ms here %8.1f ms by the helper, ratio %.2f\n", path,
	       named[1], ms[0], ms[1], ratio);
	if (!named[0] || named[0] != named[1])
		fail("the names are not the same");
	return ratio <= MAX_RATIO || ms[1] - ms[0] <= MAX_MORE * (double)n_places;
}

int main(int argc, char **argv)
{
	struct symbol_client *c;
	bool passed = true;
	int option, r;

	if (symbol_server_is(argc, argv))
		symbol_server_run();
	while ((option = getopt(argc, argv, "n:r:")) != -1) {
		if (option == 'n')
			n_places = strtoul(optarg, NULL, 10);
		else if (option == 'r')
			n_rounds = strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	if (!n_places || !n_rounds || n_rounds > MAX_ROUNDS || optind == argc)
		return 2;
	own_root = open_root("/");
	scratch = memfd_create("scratch", MFD_CLOEXEC);
	r = symbol_client_open(NULL, &c);
	if (r) {
		errno = -r;
		fail("symbol_client_open");
	}
	for (int i = optind; i < argc; i++)
		passed &= bench(c, argv[i]);
	symbol_client_close(c);
	return !passed;
}
