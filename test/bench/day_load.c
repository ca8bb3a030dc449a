// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Processes as a machine has them over a day: day_load MODE DISK [RATE [N]] (`test/bench/day`).
 * Each writes 4 KiB to DISK, RATE times a second, until it is killed; spawn ends after N times; jit
 * compiles N functions each time.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE	 4096
#define NS	 1000000000L
#define NOINLINE __attribute__((noinline))

static int fd;
static void *block;

NOINLINE static int put(void)
{
	int r = pwrite(fd, block, PAGE, 0) != PAGE;

	__asm__ volatile("" ::: "memory");
	return r;
}

NOINLINE static int back(void)
{
	int r = put();

	__asm__ volatile("" ::: "memory");
	return r;
}

#if defined(__x86_64__)
/* push rbp; mov rbp,rsp; call rdi; pop rbp; ret */
static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
#elif defined(__aarch64__)
/* stp x29,x30,[sp,#-16]!; mov x29,sp; blr x0; ldp x29,x30,[sp],#16; ret */
static const unsigned int code[] = { 0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0 };
#else
static const unsigned char code[] = { 0 }; /* not executed */
#define NO_CODE
#endif

static int run_code(void *page)
{
	int (*function)(int (*)(void));

#ifdef NO_CODE
	return back();
#endif
	__builtin___clear_cache((char *)page, (char *)page + sizeof(code));
	memcpy(&function, &page, sizeof(function));
	return function(back);
}

static void *new_pages(size_t n)
{
	return mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Writes code, makes it executable, executes it, and makes it writable again. */
static int flip(void)
{
	static void *page;

	if (!page)
		page = new_pages(1);
	memcpy(page, code, sizeof(code));
	mprotect(page, PAGE, PROT_READ | PROT_EXEC);
	if (run_code(page))
		return 1;
	return mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

static unsigned int number = 1; /* N */

/* The map of a user who is not root. */
static FILE *open_map(void)
{
	char path[64];
	FILE *map;

	if (setgid(65534) || setuid(65534) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		return NULL;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	return map;
}

#define CODE_PAGES 4096

/* Compiles, and runs the last function; its page is used again after CODE_PAGES of these. */
static int jit(void)
{
	static unsigned int n;
	static char *pages;
	static FILE *map;
	char *page;

	if (!map) {
		map = open_map();
		pages = new_pages(CODE_PAGES);
	}
	if (!map)
		return 1;
	page = pages + (size_t)(n / number % CODE_PAGES) * PAGE;
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	memcpy(page, code, sizeof(code));
	mprotect(page, PAGE, PROT_READ | PROT_EXEC);
	for (unsigned int i = 1; i < number; i++, n++)
		fprintf(map, "%x %zx compiled_%u\n", PAGE + n % 65536, sizeof(code), n);
	fprintf(map, "%lx %zx compiled_%u\n", (unsigned long)page, sizeof(code), n++);
	fflush(map);
	return run_code(page);
}

/* Maps itself at an address where nothing was before, and takes it away again. */
static int load(void)
{
	static unsigned long address = 0x10000000000;
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *at = mmap((void *)address, PAGE, PROT_READ | PROT_EXEC,
			MAP_PRIVATE | MAP_FIXED_NOREPLACE, self, 0);

	close(self);
	address += 2 * PAGE;
	return at == MAP_FAILED || back() || munmap(at, PAGE);
}

/* A process that lives for one write. */
static int spawn(const char *self, const char *disk)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0) {
		execl(self, self, "once", disk, (char *)NULL);
		_exit(1);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

static int once(const char *self, const char *mode, const char *disk)
{
	if (strcmp(mode, "flip") == 0)
		return flip();
	if (strcmp(mode, "jit") == 0)
		return jit();
	if (strcmp(mode, "load") == 0)
		return load();
	if (strcmp(mode, "spawn") == 0)
		return spawn(self, disk);
	return back();
}

static void wait_for(struct timespec *next, double rate)
{
	long ns = next->tv_nsec + (long)(NS / rate);

	next->tv_sec += ns / NS;
	next->tv_nsec = ns % NS;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "", *disk = argc > 2 ? argv[2] : "";
	double rate = argc > 3 ? strtod(argv[3], NULL) : 0;
	struct timespec next;

	if (argc > 4)
		number = (unsigned int)strtoul(argv[4], NULL, 10);
	fd = open(disk, O_RDWR | O_DIRECT | O_CLOEXEC);
	block = aligned_alloc(PAGE, PAGE);
	if (fd < 0 || !block) {
		fprintf(stderr, "day_load: cannot open %s\n", disk);
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned int i = 0; i < number || strcmp(mode, "spawn") != 0; i++) {
		if (once(argv[0], mode, disk)) {
			fprintf(stderr, "day_load: %s failed\n", mode);
			return 1;
		}
		if (rate <= 0)
			return 0;
		wait_for(&next, rate);
	}
	return 0;
}
