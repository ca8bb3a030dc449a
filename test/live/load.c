/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A workload whose I/O is known exactly: it does what the command line says,
 * and nothing else, and reports it in one line of JSON per process.
 *
 * With -r the offsets are spread over the device, never twice in a row next
 * to each other and always with a gap of one I/O between two places, so that
 * the kernel can merge no two of them: COUNT I/Os are COUNT requests.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_JOBS    16
#define MAX_THREADS 64
#define MAX_DEPTH   1024

enum op {
	OP_READ,
	OP_WRITE,
	OP_DSYNC_WRITE,
	OP_BUFWRITE,
	OP_BUFWRITE_RANGE,
	OP_BUFWRITE_DIRTY,
	OP_SYNCWRITE,
	OP_FSYNC,
	OP_DISCARD,
	OP_ZEROOUT,
	OP_COUNT,
};

static const struct {
	const char *name;
	int flags;
	const char *meaning;
} ops[OP_COUNT] = {
	[OP_READ] = { "read", O_RDONLY | O_DIRECT, "direct reads" },
	[OP_WRITE] = { "write", O_RDWR | O_DIRECT, "direct writes" },
	[OP_DSYNC_WRITE] = { "dsync-write", O_RDWR | O_DIRECT | O_DSYNC,
			     "direct writes with O_DSYNC" },
	[OP_BUFWRITE] = { "bufwrite", O_RDWR, "buffered writes, then one fdatasync" },
	[OP_BUFWRITE_RANGE] = { "bufwrite-range", O_RDWR,
				"buffered writes, then sync_file_range: no flush" },
	[OP_BUFWRITE_DIRTY] = { "bufwrite-dirty", O_RDWR, "buffered writes, left to writeback" },
	[OP_SYNCWRITE] = { "syncwrite", O_RDWR, "buffered writes, an fdatasync after each" },
	[OP_FSYNC] = { "fsync", O_RDWR, "fsync and nothing else" },
	[OP_DISCARD] = { "discard", O_RDWR, "BLKDISCARD" },
	[OP_ZEROOUT] = { "zeroout", O_RDWR, "BLKZEROOUT" },
};

struct job {
	enum op op;
	uint64_t count;
	uint64_t size;
	const char *path;
};

struct options {
	char name[16];
	unsigned int threads;
	unsigned int depth;
	bool spread;
	bool wait;
	bool keep;
	bool fork;
	unsigned int children;
	pid_t pid;
	bool numbered;
	bool tolerant;
	uint64_t pause_us;
	uint64_t busy_us;
	int status;
	int signal;
	const char *report;
	struct job jobs[MAX_JOBS];
	unsigned int n_jobs;
};

/* The places of a file or device that the I/Os of a job go to. */
struct places {
	uint64_t n;
	uint64_t step;	 /* distance in bytes */
	uint64_t stride; /* I/O number i goes to place i * stride % n */
};

/* A thread's part of a job. */
struct part {
	const struct options *options;
	const struct job *job;
	struct places places;
	int fd;
	uint64_t first;
	uint64_t count;
	uint64_t *took_ns; /* one per I/O */
	uint64_t failed;
	char name[32];
	int error;
};

static void die(const char *what, int error)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(error));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static void places_init(struct places *places, uint64_t length, uint64_t size, bool spread)
{
	if (!size)
		size = 1;
	places->step = spread ? 2 * size : size;
	places->n = length / places->step;
	places->stride = 1;
	if (!places->n) {
		fprintf(stderr, "load: %" PRIu64 " bytes are too few for this size of I/O\n",
			length);
		exit(1);
	}
	if (!spread)
		return;
	places->stride = (uint64_t)((double)places->n * 0.6180339887) | 1;
	while (gcd(places->stride, places->n) != 1)
		places->stride += 2;
}

static uint64_t place(const struct places *places, uint64_t i)
{
	return i % places->n * places->stride % places->n * places->step;
}

static uint64_t length_of(int fd, const char *path)
{
	struct stat st;
	uint64_t length;

	if (fstat(fd, &st))
		die(path, errno);
	if (!S_ISBLK(st.st_mode))
		return (uint64_t)st.st_size;
	if (ioctl(fd, BLKGETSIZE64, &length))
		die(path, errno);
	return length;
}

static int whole(ssize_t done, uint64_t size)
{
	if (done < 0)
		return errno;
	return (uint64_t)done == size ? 0 : EIO;
}

static int one_io(const struct part *part, uint64_t offset, void *buffer)
{
	uint64_t size = part->job->size;
	uint64_t range[2] = { offset, size };
	int fd = part->fd;
	int error;

	switch (part->job->op) {
	case OP_READ:
		return whole(pread(fd, buffer, size, (off_t)offset), size);
	case OP_SYNCWRITE:
		error = whole(pwrite(fd, buffer, size, (off_t)offset), size);
		if (error)
			return error;
		return fdatasync(fd) ? errno : 0;
	case OP_FSYNC:
		return fsync(fd) ? errno : 0;
	case OP_DISCARD:
		return ioctl(fd, BLKDISCARD, range) ? errno : 0;
	case OP_ZEROOUT:
		return ioctl(fd, BLKZEROOUT, range) ? errno : 0;
	default:
		return whole(pwrite(fd, buffer, size, (off_t)offset), size);
	}
}

static void *aligned_buffer(uint64_t size)
{
	void *buffer;

	if (posix_memalign(&buffer, 4096, size ? size : 1))
		die("memory", ENOMEM);
	memset(buffer, 0xa5, size);
	return buffer;
}

static int run_sync(struct part *part)
{
	void *buffer = aligned_buffer(part->job->size);
	int error = 0;

	for (uint64_t i = 0; i < part->count && !error; i++) {
		uint64_t start = now_ns();

		while (part->options->busy_us && now_ns() - start < part->options->busy_us * 1000)
			;
		start = now_ns();
		error = one_io(part, place(&part->places, part->first + i), buffer);
		part->took_ns[i] = now_ns() - start;
		if (error && part->options->tolerant) {
			part->failed++;
			error = 0;
		}
		if (part->options->pause_us)
			usleep((useconds_t)part->options->pause_us);
	}
	free(buffer);
	return error;
}

struct flight {
	struct iocb cb;
	uint64_t start;
	void *buffer;
};

/*
 * One I/O per system call: a batch would be plugged, and a plug is where
 * neighbours get merged.
 */
static int submit_one(struct part *part, aio_context_t ctx, struct flight *flight, uint64_t i)
{
	struct iocb *cb = &flight->cb;

	memset(cb, 0, sizeof(*cb));
	cb->aio_fildes = (uint32_t)part->fd;
	cb->aio_lio_opcode = part->job->op == OP_READ ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
	cb->aio_buf = (uint64_t)(uintptr_t)flight->buffer;
	cb->aio_nbytes = part->job->size;
	cb->aio_offset = (int64_t)place(&part->places, part->first + i);
	cb->aio_data = (uint64_t)(uintptr_t)flight;
	flight->start = now_ns();
	return syscall(SYS_io_submit, ctx, 1, &cb) == 1 ? 0 : errno;
}

/* Keeps @depth I/Os in flight until all are through. */
static int keep_flying(struct part *part, aio_context_t ctx, struct flight *flights)
{
	unsigned int depth = part->options->depth;
	uint64_t started = 0, ended = 0;
	struct io_event event;
	int error = 0;

	for (; started < depth && started < part->count && !error; started++)
		error = submit_one(part, ctx, &flights[started], started);
	while (ended < part->count && !error) {
		struct flight *flight;

		if (syscall(SYS_io_getevents, ctx, 1, 1, &event, NULL) != 1)
			return errno;
		flight = (struct flight *)(uintptr_t)event.data;
		part->took_ns[ended++] = now_ns() - flight->start;
		if ((uint64_t)event.res != part->job->size)
			error = event.res < 0 ? (int)-event.res : EIO;
		else if (started < part->count)
			error = submit_one(part, ctx, flight, started++);
	}
	return error;
}

static int run_async(struct part *part)
{
	unsigned int depth = part->options->depth;
	struct flight *flights = calloc(depth, sizeof(*flights));
	aio_context_t ctx = 0;
	int error;

	if (!flights)
		return ENOMEM;
	for (unsigned int i = 0; i < depth; i++)
		flights[i].buffer = aligned_buffer(part->job->size);
	error = syscall(SYS_io_setup, depth, &ctx) ? errno : 0;
	if (!error) {
		error = keep_flying(part, ctx, flights);
		syscall(SYS_io_destroy, ctx);
	}
	for (unsigned int i = 0; i < depth; i++)
		free(flights[i].buffer);
	free(flights);
	return error;
}

static void *run_part(void *arg)
{
	struct part *part = arg;
	bool async =
	    part->options->depth > 1 && (part->job->op == OP_READ || part->job->op == OP_WRITE);

	if (part->name[0])
		prctl(PR_SET_NAME, part->name);
	part->error = async ? run_async(part) : run_sync(part);
	return NULL;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The fsync, or the like, that ends a job of buffered writes.  Returns 0 or an errno. */
static int after_job(const struct job *job, int fd)
{
	const unsigned int flags =
	    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

	if (job->op == OP_BUFWRITE && fdatasync(fd))
		return errno;
	if (job->op == OP_BUFWRITE_RANGE && sync_file_range(fd, 0, 0, flags))
		return errno;
	return 0;
}

/* Does I/Os first .. first + count - 1 of the job and appends what it did to the report. */
static void run_job(const struct options *options, const struct job *job, uint64_t first,
		    uint64_t count, FILE *report)
{
	struct part parts[MAX_THREADS];
	pthread_t threads[MAX_THREADS] = { 0 };
	unsigned int n = options->threads ? options->threads : 1;
	uint64_t *took_ns = calloc(count + 1, sizeof(*took_ns));
	uint64_t begin, done = 0, bytes, failed = 0, total_ns = 0;
	int fd = open(job->path, ops[job->op].flags | O_CLOEXEC);
	struct places places;
	int error;

	if (!took_ns)
		die("memory", ENOMEM);
	if (fd < 0)
		die(job->path, errno);
	places_init(&places, length_of(fd, job->path), job->size, options->spread);
	begin = now_ns();
	for (unsigned int i = 0; i < n; i++) {
		struct part *part = &parts[i];

		*part = (struct part){ .options = options, .job = job, .places = places, .fd = fd };
		part->first = first + done;
		part->count = count / n + (i < count % n);
		part->took_ns = took_ns + done;
		done += part->count;
		if (!options->threads) {
			run_part(part);
			continue;
		}
		snprintf(part->name, sizeof(part->name), "thread-%u", i);
		if (pthread_create(&threads[i], NULL, run_part, part))
			die("pthread_create", EAGAIN);
	}
	for (unsigned int i = 0; i < n; i++) {
		if (options->threads)
			pthread_join(threads[i], NULL);
		if (parts[i].error)
			die(job->path, parts[i].error);
		failed += parts[i].failed;
	}
	error = after_job(job, fd);
	if (error && !options->tolerant)
		die(job->path, error);
	failed += error != 0;
	close(fd);
	bytes = job->op == OP_FSYNC ? 0 : count * job->size;
	for (uint64_t i = 0; i < count; i++)
		total_ns += took_ns[i];
	qsort(took_ns, count, sizeof(*took_ns), compare_u64);
	fprintf(report,
		"{\"op\":\"%s\",\"path\":\"%s\",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64
		",\"failed\":%" PRIu64 ",\"seconds\":%.6f,\"total_ns\":%" PRIu64
		",\"min_ns\":%" PRIu64 ",\"median_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64 "}",
		ops[job->op].name, job->path, count, bytes, failed,
		(double)(now_ns() - begin) / 1e9, total_ns, took_ns[0], took_ns[count / 2],
		took_ns[count ? count - 1 : 0]);
	free(took_ns);
}

/* The report is one write, so that reports of several processes do not mix. */
static void write_report(const struct options *options, const char *line, size_t length)
{
	int fd = STDOUT_FILENO;

	if (options->report)
		fd = open(options->report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, line, length) != (ssize_t)length)
		die(options->report ? options->report : "standard output", errno);
	if (fd != STDOUT_FILENO)
		close(fd);
}

/* Does every job's part number `part` of `parts` in this process. */
static void run_jobs(const struct options *options, const char *name, unsigned int part,
		     unsigned int parts)
{
	char *line;
	size_t length;
	FILE *report = open_memstream(&line, &length);

	if (!report)
		die("memory", ENOMEM);
	prctl(PR_SET_NAME, name);
	fprintf(report, "{\"pid\":%d,\"comm\":\"", getpid());
	for (const char *c = name; *c; c++)
		fprintf(report, "\\u%04x", (unsigned char)*c);
	fputs("\",\"ops\":[", report);
	for (unsigned int i = 0; i < options->n_jobs; i++) {
		const struct job *job = &options->jobs[i];
		uint64_t first = job->count * part / parts;
		uint64_t end = job->count * (part + 1) / parts;

		if (i)
			fputc(',', report);
		run_job(options, job, first, end - first, report);
	}
	fputs("]}\n", report);
	fclose(report);
	write_report(options, line, length);
	free(line);
}

static void wait_for(pid_t child)
{
	int status;

	if (child < 0)
		die("fork", errno);
	if (waitpid(child, &status, 0) != child || status)
		exit(1);
}

/* Half of the I/O in a child, half in the child's child, none here. */
static void run_in_descendants(const struct options *options)
{
	char name[32];
	pid_t child = fork();

	if (child == 0) {
		pid_t grandchild = fork();

		snprintf(name, sizeof(name), "%.13s-%c", options->name, grandchild ? 'c' : 'g');
		run_jobs(options, name, grandchild ? 0 : 1, 2);
		if (grandchild)
			wait_for(grandchild);
		exit(0);
	}
	wait_for(child);
}

#define PID_TRIES 10000 /* a millisecond each */

/* fork(), but the child gets the number @pid, as soon as no other process has it. */
static pid_t fork_as(pid_t pid)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uint64_t)(uintptr_t)&pid,
		.set_tid_size = 1,
	};
	long child = -1;

	for (int i = 0; i < PID_TRIES; i++) {
		child = syscall(SYS_clone3, &args, sizeof(args));
		if (child >= 0 || errno != EEXIST)
			break;
		usleep(1000);
	}
	return (pid_t)child;
}

/* The I/O in equal parts, each in a child of its own, which ends before the next one starts. */
static void run_in_children(const struct options *options)
{
	for (unsigned int i = 0; i < options->children; i++) {
		pid_t child = options->pid ? fork_as(options->pid) : fork();
		char name[32];

		if (child == 0) {
			snprintf(name, sizeof(name), "%s", options->name);
			if (options->numbered)
				snprintf(name, sizeof(name), "%.8s-%u", options->name, i);
			run_jobs(options, name, i, options->children);
			_exit(0);
		}
		wait_for(child);
	}
}

static void usage(FILE *out)
{
	fputs(
	    "Usage: load [-n NAME] [-t THREADS] [-q DEPTH] [-r] [-w] [-k] [-f | -F N [-i PID] [-N]] [-e]\n"
	    "            [-s USECS] [-b USECS] [-x STATUS] [-X SIGNAL] [-R FILE]\n"
	    "            OP COUNT SIZE PATH [OP COUNT SIZE PATH ...]\n"
	    "  -n  name of the process (comm)\n"
	    "  -t  the I/O is done by that many threads, which have names of their own\n"
	    "  -q  that many reads or writes at a time in each thread (Linux AIO)\n"
	    "  -r  spread over the device, never mergeable (otherwise one after the other)\n"
	    "  -w  wait for a line on standard input before the first I/O\n"
	    "  -k  when done, stay until standard input is closed\n"
	    "  -f  half of the I/O in a child, the other half in a grandchild\n"
	    "  -F  the I/O in equal parts in N children, one after the other\n"
	    "  -i  each of them gets that number; -N  each gets a name of its own: NAME-0, NAME-1 ...\n"
	    "  -e  go on after an I/O that failed or was short, and count it\n"
	    "  -s  pause after each I/O; -b  compute before each, for this time\n"
	    "      (none of -e, -s and -b goes with -q)\n"
	    "  -x  end with that status; -X  end by that signal\n"
	    "  -R  append the report to FILE, not standard output\n"
	    "OP is one of:\n",
	    out);
	for (int i = 0; i < OP_COUNT; i++)
		fprintf(out, "  %-15s %s\n", ops[i].name, ops[i].meaning);
}

static uint64_t number(const char *text, uint64_t max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value > max) {
		fprintf(stderr, "load: bad number: %s\n", text);
		exit(2);
	}
	return value;
}

static enum op op_by_name(const char *name)
{
	for (int i = 0; i < OP_COUNT; i++) {
		if (!strcmp(ops[i].name, name))
			return (enum op)i;
	}
	fprintf(stderr, "load: unknown operation: %s\n", name);
	exit(2);
}

static void parse_jobs(struct options *options, int n, char **args)
{
	if (n < 4 || n % 4 || n / 4 > MAX_JOBS) {
		usage(stderr);
		exit(2);
	}
	for (int i = 0; i < n; i += 4) {
		struct job *job = &options->jobs[options->n_jobs++];

		job->op = op_by_name(args[i]);
		job->count = number(args[i + 1], 100000000);
		job->size = number(args[i + 2], UINT64_C(1) << 40);
		job->path = args[i + 3];
	}
}

static void parse(struct options *options, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "+n:t:q:rwkfF:i:Nes:b:x:X:R:h")) != -1) {
		switch (c) {
		case 'n':
			snprintf(options->name, sizeof(options->name), "%s", optarg);
			break;
		case 't':
			options->threads = (unsigned int)number(optarg, MAX_THREADS);
			break;
		case 'q':
			options->depth = (unsigned int)number(optarg, MAX_DEPTH);
			break;
		case 'r':
			options->spread = true;
			break;
		case 'w':
			options->wait = true;
			break;
		case 'k':
			options->keep = true;
			break;
		case 'f':
			options->fork = true;
			break;
		case 'F':
			options->children = (unsigned int)number(optarg, 1000000);
			break;
		case 'i':
			options->pid = (pid_t)number(optarg, 4194304);
			break;
		case 'N':
			options->numbered = true;
			break;
		case 'e':
			options->tolerant = true;
			break;
		case 's':
			options->pause_us = number(optarg, 10000000);
			break;
		case 'b':
			options->busy_us = number(optarg, 10000000);
			break;
		case 'x':
			options->status = (int)number(optarg, 255);
			break;
		case 'X':
			options->signal = (int)number(optarg, 64);
			break;
		case 'R':
			options->report = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	parse_jobs(options, argc - optind, argv + optind);
}

static void end_by_signal(int number_of_signal)
{
	const struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	signal(number_of_signal, SIG_DFL);
	raise(number_of_signal);
}

int main(int argc, char **argv)
{
	static struct options options = { .name = "load", .depth = 1 };
	int c;

	/* Else a thread that gives memory back reads /proc/sys/vm/overcommit_memory, or two do at
	 * the same time: the tests count reads and opens. */
	mallopt(M_ARENA_MAX, 1);
	parse(&options, argc, argv);
	prctl(PR_SET_NAME, options.name);
	if (options.wait) {
		while ((c = getchar()) != EOF && c != '\n')
			;
	}
	if (options.fork)
		run_in_descendants(&options);
	else if (options.children)
		run_in_children(&options);
	else
		run_jobs(&options, options.name, 0, 1);
	if (options.keep) {
		while (getchar() != EOF)
			;
	}
	if (options.signal)
		end_by_signal(options.signal);
	return options.status;
}
