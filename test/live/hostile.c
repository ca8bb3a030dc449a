/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process whose stack goes through code that it was given, and which writes 64 KiB to a disk
 * from there: main(), outer(), the code in FILE, inner(), put(), pwrite().
 *
 * It says "ready ADDRESS" once everything is mapped, and works when it reads a line; then it says
 * "done" and waits for the next line.
 */
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define PAGE	  4096
#define IO_BYTES  65536
#define NO_FRAMES 64 /* in the page: code that puts its second argument where a frame should be */
#define FRAMES	  100
#define PLACE	  16 /* bytes of a function */

struct frame {
	struct frame *next;
	uint64_t back;
};

typedef int (*code_t)(int (*)(void), struct frame *);

static int disk;
static void *buffer;
static struct {
	const char *file, *root, *device;
	off_t offset;
	unsigned int uid, flips, writes, pause_ms, pages;
	bool in_memory, no_frames, leaves;
} o = { .offset = PAGE, .writes = 1, .pages = 1 };

int put(void);
int inner(void);
int outer(char *page);

__attribute__((noinline)) int put(void)
{
	return pwrite(disk, buffer, IO_BYTES, 0) != IO_BYTES;
}

/* The C library has no frame pointers: of put() nothing is seen. */
__attribute__((noinline)) int inner(void)
{
	int r = put();

	return r + 1;
}

/* Where nothing is mapped; or one place after the other in what follows the code's page. */
static uint64_t next_place(const char *page)
{
	static uint64_t n;

	if (o.pages == 1)
		return 0x100000000 + (uint64_t)rand() % 0x100000000;
	return (uintptr_t)page + PAGE + n++ * PLACE % ((o.pages - 1) * PAGE) + PLACE / 2;
}

/* Frames that were never made. */
static struct frame *make_frames(const char *page)
{
	static struct frame frames[FRAMES];

	for (int i = 0; i < FRAMES; i++) {
		frames[i].next = i + 1 < FRAMES ? &frames[i + 1] : NULL;
		frames[i].back = next_place(page);
	}
	return frames;
}

__attribute__((noinline)) int outer(char *page)
{
	struct frame *frames = make_frames(page);
	int r;

	if (page)
		r = ((code_t)(uintptr_t)(page + (o.no_frames ? NO_FRAMES : 0)))(inner, frames);
	else
		r = inner();
	return r - 1;
}

static void need(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* Memory of no file, or of a device's. */
static char *map_memory(void)
{
	int fd = o.device ? open(o.device, O_RDWR) : -1;
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | (o.device ? 0 : MAP_ANONYMOUS), fd, 0);

	need(page != MAP_FAILED, "memory");
	return page;
}

static char *map_code(void)
{
	const char *file = o.file;
	char *page;
	int fd;

	if (!file)
		return NULL;
	fd = open(file, O_RDONLY);
	need(fd >= 0, file);
	if (!o.in_memory) {
		page = mmap(NULL, o.pages * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, o.offset);
		need(page != MAP_FAILED, "mmap");
		return page;
	}
	page = map_memory();
	need(pread(fd, page, PAGE, o.offset) == PAGE, file);
	need(mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0, "mprotect");
	return page;
}

static void become_user(void)
{
	if (o.uid)
		need(setgroups(0, NULL) == 0 && setgid(o.uid) == 0 && setuid(o.uid) == 0, "setuid");
}

static void flip(char *page)
{
	for (unsigned int i = 0; i < o.flips; i++)
		need(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0 &&
			 mprotect(page, PAGE, PROT_READ | PROT_EXEC) == 0,
		     "mprotect");
}

static int work(char *page)
{
	const struct timespec pause = { o.pause_ms / 1000, o.pause_ms % 1000 * 1000000L };
	int r = 0;

	for (unsigned int i = 0; i < o.writes; i++) {
		if (i)
			nanosleep(&pause, NULL);
		flip(page);
		r |= outer(page);
	}
	return r;
}

static void await_line(void)
{
	int c;

	fflush(stdout);
	while ((c = getchar()) != '\n' && c != EOF)
		;
}

static unsigned int number(const char *text)
{
	return (unsigned int)strtoul(text, NULL, 0);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:u:r:m:o:p:jd:bf:c:s:x")) != -1)
		switch (c) {
		case 'n': /* name of the process */
			prctl(PR_SET_NAME, optarg);
			break;
		case 'u':
			o.uid = number(optarg);
			break;
		case 'r':
			o.root = optarg;
			break;
		case 'm': /* FILE that has the code, in the root */
			o.file = optarg;
			break;
		case 'o': /* offset of the code's page in it */
			o.offset = (off_t)number(optarg);
			break;
		case 'p': /* pages of FILE that are mapped */
			o.pages = number(optarg);
			break;
		case 'd': /* a device that can be mapped: as -j, but its memory */
			o.device = optarg;
			o.in_memory = true;
			break;
		case 'j': /* the code is copied to memory of no file */
			o.in_memory = true;
			break;
		case 'b':
			o.no_frames = true;
			break;
		case 'f': /* changes of the page's protection before each write */
			o.flips = number(optarg);
			break;
		case 'c': /* writes */
			o.writes = number(optarg);
			break;
		case 's': /* ms between them */
			o.pause_ms = number(optarg);
			break;
		case 'x': /* ends at once */
			o.leaves = true;
			break;
		default:
			exit(2);
		}
}

int main(int argc, char **argv)
{
	char *page;
	int r;

	parse(argc, argv);
	need(optind + 1 == argc, "usage: hostile [OPTIONS] DISK");
	disk = open(argv[optind], O_RDWR | O_DIRECT);
	need(disk >= 0, argv[optind]);
	buffer = aligned_alloc(IO_BYTES, IO_BYTES);
	need(buffer != NULL, "memory");
	memset(buffer, 0x5a, IO_BYTES);
	need(!o.root || (chroot(o.root) == 0 && chdir("/") == 0), "chroot");
	page = map_code();
	become_user();
	printf("ready %llx\n", (unsigned long long)(uintptr_t)page);
	await_line();
	r = work(page);
	if (o.leaves)
		_exit(r);
	puts("done");
	await_line();
	return r;
}
