// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of io_uring whose number, way and time are known, by system calls alone.
 *
 *	uring [-r RINGS] [-q] [-u] [-e ENTRIES] -f FILE STEP...
 *
 * A STEP is OPERATION:COUNT; it is done in each of RINGS rings, one after the other.  -q: a kernel
 * thread reads the submissions; -u: all requests have the same user_data; -e: the size of a ring.
 * It prints a line of JSON: by ring, what it has submitted and seen, and the tails of the ring.
 * Exit status 77: this kernel lacks an operation.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BLOCK	4096
#define BATCH	4
#define WAIT_MS 50
#define OPS	256
#define SKIP	77

/* Newer than the headers of some build machines. */
#define OP_READ_MULTISHOT 49
#define ACCEPT_MULTISHOT  1
#define POLL_MULTISHOT	  1
#define F_MORE		  2
#define SKIP_SUCCESS	  (1U << 6)

struct counts {
	uint64_t count, failed, shorts, more, ns;
};

struct ring {
	int fd;
	unsigned int entries, cq_entries, next; /* next: user_data */
	unsigned int *sq_head, *sq_tail, *sq_mask, *sq_flags, *sq_array;
	unsigned int *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	unsigned int queued; /* and not submitted yet */
	uint64_t submitted;
	struct counts ops[OPS];
	unsigned char op_of[65536]; /* by user_data */
	unsigned int length_of[65536];
};

static bool sqpoll, same_name;
static int file = -1;
static char buffer[BLOCK * 2] __attribute__((aligned(BLOCK)));

static void fail(const char *what)
{
	fprintf(stderr, "uring: %s: %s\n", what, strerror(errno));
	exit(errno == EINVAL || errno == ENOSYS || errno == EPERM ? SKIP : 1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void wait_ms(void)
{
	const struct timespec t = { .tv_nsec = WAIT_MS * 1000000 };

	nanosleep(&t, NULL);
}

static void *map(const struct ring *r, size_t size, off_t offset)
{
	void *at =
	    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, offset);

	if (at == MAP_FAILED)
		fail("mmap");
	return at;
}

static struct ring *open_ring(unsigned int entries)
{
	struct io_uring_params p = { .flags = sqpoll ? IORING_SETUP_SQPOLL : 0,
				     .sq_thread_idle = 20 };
	struct ring *r = calloc(1, sizeof(*r));
	char *sq, *cq;

	r->fd = (int)syscall(SYS_io_uring_setup, entries, &p);
	if (r->fd < 0)
		fail("io_uring_setup");
	r->entries = p.sq_entries;
	r->cq_entries = p.cq_entries;
	sq = map(r, p.sq_off.array + p.sq_entries * sizeof(unsigned int), IORING_OFF_SQ_RING);
	cq = map(r, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	r->sqes = map(r, p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	r->sq_head = (unsigned int *)(sq + p.sq_off.head);
	r->sq_tail = (unsigned int *)(sq + p.sq_off.tail);
	r->sq_mask = (unsigned int *)(sq + p.sq_off.ring_mask);
	r->sq_flags = (unsigned int *)(sq + p.sq_off.flags);
	r->sq_array = (unsigned int *)(sq + p.sq_off.array);
	r->cq_head = (unsigned int *)(cq + p.cq_off.head);
	r->cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	r->cq_mask = (unsigned int *)(cq + p.cq_off.ring_mask);
	r->cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	return r;
}

static int enter(const struct ring *r, unsigned int submit, unsigned int wait, unsigned int flags)
{
	int n;

	do
		n = (int)syscall(SYS_io_uring_enter, r->fd, submit, wait, flags, NULL, 0);
	while (n < 0 && errno == EINTR);
	return n;
}

/* An entry to be filled. */
static struct io_uring_sqe *put(struct ring *r, unsigned int op, int fd, const void *addr,
				unsigned int len, uint64_t offset)
{
	const unsigned int tail = *r->sq_tail + r->queued, i = tail & *r->sq_mask;
	struct io_uring_sqe *sqe = &r->sqes[i];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = (unsigned char)op;
	sqe->fd = fd;
	sqe->addr = (uintptr_t)addr;
	sqe->len = len;
	sqe->off = offset;
	if (!same_name)
		r->next = (r->next + 1) % 65536;
	sqe->user_data = r->next;
	r->op_of[r->next] = (unsigned char)op;
	r->length_of[r->next] = len;
	r->sq_array[i] = i;
	r->queued++;
	return sqe;
}

static void submit(struct ring *r)
{
	const unsigned int n = r->queued;

	__atomic_store_n(r->sq_tail, *r->sq_tail + n, __ATOMIC_SEQ_CST);
	r->queued = 0;
	r->submitted += n;
	/* Up to 5.17, and for some requests later, the kernel stops after an invalid one. */
	for (unsigned int done = 0; !sqpoll && done < n;) {
		const int one = enter(r, n - done, 0, 0);

		if (one <= 0)
			fail("io_uring_enter");
		done += (unsigned int)one;
	}
	if (!sqpoll)
		return;
	while (__atomic_load_n(r->sq_head, __ATOMIC_SEQ_CST) != *r->sq_tail) {
		if (__atomic_load_n(r->sq_flags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
			enter(r, 0, 0, IORING_ENTER_SQ_WAKEUP);
		else
			usleep(100);
	}
}

/* The next completion. */
static struct io_uring_cqe next(struct ring *r)
{
	struct io_uring_cqe cqe;
	struct counts *of;

	while (__atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE) == *r->cq_head)
		if (enter(r, 0, 1, IORING_ENTER_GETEVENTS) < 0)
			fail("io_uring_enter, to wait");
	cqe = r->cqes[*r->cq_head & *r->cq_mask];
	__atomic_store_n(r->cq_head, *r->cq_head + 1, __ATOMIC_RELEASE);
	of = &r->ops[r->op_of[cqe.user_data]];
	if (cqe.flags & F_MORE) {
		of->more++;
		return cqe;
	}
	of->count++;
	of->failed += cqe.res < 0 && cqe.res != -ETIME;
	of->shorts += cqe.res >= 0 && (cqe.res & 0xffff) < 0x8000 &&
		      (unsigned int)cqe.res < r->length_of[cqe.user_data] &&
		      r->op_of[cqe.user_data] != IORING_OP_PROVIDE_BUFFERS;
	return cqe;
}

/* One that must not have failed. */
static struct io_uring_cqe next_good(struct ring *r)
{
	struct io_uring_cqe cqe = next(r);

	if (cqe.res < 0 && cqe.res != -ETIME) {
		errno = -cqe.res;
		fail("a request");
	}
	return cqe;
}

/* ---- the steps ---- */

static void put_one(struct ring *r, const char *name, unsigned int i)
{
	struct io_uring_sqe *sqe = NULL;

	if (!strcmp(name, "nop") || !strcmp(name, "chain"))
		sqe = put(r, IORING_OP_NOP, -1, NULL, 0, 0);
	else if (!strcmp(name, "worker") || !strcmp(name, "read"))
		sqe = put(r, IORING_OP_READ, file, buffer, BLOCK, 0);
	else if (!strcmp(name, "write"))
		sqe = put(r, IORING_OP_WRITE, file, buffer, BLOCK, BLOCK);
	else if (!strcmp(name, "short"))
		sqe = put(r, IORING_OP_READ, file, buffer, BLOCK, 2 * BLOCK - 100);
	else if (!strcmp(name, "sync"))
		sqe = put(r, IORING_OP_FSYNC, file, NULL, 0, 0);
	else if (!strcmp(name, "bad"))
		sqe = put(r, IORING_OP_READ, -1, buffer, BLOCK, 0);
	else if (!strcmp(name, "invalid"))
		sqe = put(r, OPS - 1, -1, NULL, 0, 0);
	else if (!strcmp(name, "fixed"))
		sqe = put(r, IORING_OP_READ_FIXED, file, buffer, BLOCK, 0);
	else {
		fprintf(stderr, "uring: no such step: %s\n", name);
		exit(2);
	}
	if (!strcmp(name, "worker"))
		sqe->flags |= IOSQE_ASYNC;
	if (!strcmp(name, "chain") && i % BATCH != BATCH - 1)
		sqe->flags |= IOSQE_IO_LINK;
}

/* Batches, each of which is waited for. */
static void do_batches(struct ring *r, const char *name, unsigned int n)
{
	for (unsigned int i = 0; i < n; i += BATCH) {
		unsigned int of_batch = n - i < BATCH ? n - i : BATCH;
		const uint64_t begin = now_ns();

		for (unsigned int k = 0; k < of_batch; k++)
			put_one(r, name, i + k);
		submit(r);
		for (unsigned int k = 0; k < of_batch; k++) {
			const unsigned int op = r->op_of[next(r).user_data];

			r->ops[op].ns += now_ns() - begin;
		}
	}
}

/* That post nothing unless they fail. */
static void do_quiet(struct ring *r, const char *name, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		put_one(r, name, i);
		r->sqes[(*r->sq_tail + r->queued - 1) & *r->sq_mask].flags |= SKIP_SUCCESS;
		submit(r);
		if (!strcmp(name, "bad"))
			next(r);
	}
}

/* None is waited for before all are submitted. */
static void do_overflow(struct ring *r, const char *name, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		put_one(r, name, i);
		submit(r);
	}
	for (unsigned int i = 0; i < n; i++)
		next(r);
}

/* Reads of a socket that is written to later.  (Up to 6.3 a worker waits for a pipe.) */
static void do_socket(struct ring *r, unsigned int n)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	for (unsigned int i = 0; i < n; i++) {
		const uint64_t begin = now_ns();

		put(r, IORING_OP_READ, ends[0], buffer, 1, 0);
		submit(r);
		wait_ms();
		if (write(ends[1], "x", 1) != 1)
			fail("write");
		next_good(r);
		r->ops[IORING_OP_READ].ns += now_ns() - begin;
	}
	close(ends[0]);
	close(ends[1]);
}

/* Reads of a socket, at the same time, in flight until there is a line on standard input. */
static void do_hold(struct ring *r, unsigned int n)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	for (unsigned int i = 0; i < n; i++)
		put(r, IORING_OP_READ, ends[0], buffer, 1, 0);
	submit(r);
	printf("held\n");
	fflush(stdout);
	if (getchar() == EOF)
		return;
	for (unsigned int i = 0; i < n; i++) {
		if (write(ends[1], "x", 1) != 1)
			fail("write");
		next_good(r);
	}
	close(ends[0]);
	close(ends[1]);
}

static void do_timeout(struct ring *r, unsigned int n)
{
	const struct __kernel_timespec after = { .tv_nsec = WAIT_MS * 1000000 };

	for (unsigned int i = 0; i < n; i++) {
		const uint64_t begin = now_ns();

		put(r, IORING_OP_TIMEOUT, -1, &after, 1, 0);
		submit(r);
		next_good(r);
		r->ops[IORING_OP_TIMEOUT].ns += now_ns() - begin;
	}
}

/* Ends the one request with @user_data. */
static void cancel(struct ring *r, uint64_t user_data)
{
	struct io_uring_sqe *sqe = put(r, IORING_OP_ASYNC_CANCEL, -1, NULL, 0, 0);

	sqe->addr = user_data;
	submit(r);
	next(r);
	next(r);
}

static void do_accept(struct ring *r, unsigned int n)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(to);
	struct io_uring_sqe *sqe;
	uint64_t name;
	int server = socket(AF_INET, SOCK_STREAM, 0), client;

	if (server < 0 || bind(server, (struct sockaddr *)&to, sizeof(to)) || listen(server, 16) ||
	    getsockname(server, (struct sockaddr *)&to, &size))
		fail("listen");
	sqe = put(r, IORING_OP_ACCEPT, server, NULL, 0, 0);
	sqe->ioprio = ACCEPT_MULTISHOT;
	name = sqe->user_data;
	submit(r);
	for (unsigned int i = 0; i < n; i++) {
		client = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(client, (struct sockaddr *)&to, sizeof(to)))
			fail("connect");
		close(next_good(r).res);
		close(client);
	}
	cancel(r, name);
	close(server);
}

static void do_poll(struct ring *r, unsigned int n)
{
	struct io_uring_sqe *sqe;
	uint64_t name;
	int ends[2];
	char byte;

	if (pipe(ends))
		fail("pipe");
	sqe = put(r, IORING_OP_POLL_ADD, ends[0], NULL, POLL_MULTISHOT, 0);
	sqe->poll32_events = POLLIN;
	name = sqe->user_data;
	submit(r);
	for (unsigned int i = 0; i < n; i++) {
		if (write(ends[1], "x", 1) != 1)
			fail("write");
		next_good(r);
		if (read(ends[0], &byte, 1) != 1)
			fail("read");
	}
	cancel(r, name);
	close(ends[0]);
	close(ends[1]);
}

static void do_multishot_read(struct ring *r, unsigned int n)
{
	struct io_uring_sqe *sqe;
	uint64_t name;
	int ends[2];

	if (pipe(ends))
		fail("pipe");
	sqe = put(r, IORING_OP_PROVIDE_BUFFERS, (int)n + 1, buffer, 16, 0);
	sqe->buf_group = 7;
	submit(r);
	next_good(r);
	sqe = put(r, OP_READ_MULTISHOT, ends[0], NULL, 0, (uint64_t)-1);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = 7;
	name = sqe->user_data;
	submit(r);
	for (unsigned int i = 0; i < n; i++) {
		if (write(ends[1], "x", 1) != 1)
			fail("write");
		next_good(r);
	}
	cancel(r, name);
	close(ends[0]);
	close(ends[1]);
}

static void step(struct ring *r, const char *name, unsigned int n)
{
	const struct iovec all = { buffer, sizeof(buffer) };

	if (!strncmp(name, "overflow", 8))
		do_overflow(r, name[8] ? name + 8 : "nop", n);
	else if (!strncmp(name, "quiet", 5))
		do_quiet(r, name[5] ? name + 5 : "nop", n);
	else if (!strcmp(name, "socket"))
		do_socket(r, n);
	else if (!strcmp(name, "hold"))
		do_hold(r, n);
	else if (!strcmp(name, "timeout"))
		do_timeout(r, n);
	else if (!strcmp(name, "accept"))
		do_accept(r, n);
	else if (!strcmp(name, "poll"))
		do_poll(r, n);
	else if (!strcmp(name, "mread"))
		do_multishot_read(r, n);
	else {
		if (!strcmp(name, "fixed") &&
		    syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, &all, 1))
			fail("io_uring_register");
		do_batches(r, name, n);
	}
}

/* ---- what is reported ---- */

/* A number of the ring's fdinfo; -1: this kernel's has none. */
static long fdinfo(const struct ring *r, const char *key)
{
	char path[64], line[256];
	long value = -1;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", r->fd);
	info = fopen(path, "r");
	while (info && fgets(line, sizeof(line), info))
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtol(line + strlen(key), NULL, 0);
	if (info)
		fclose(info);
	return value;
}

static void report(const struct ring *r, bool first)
{
	const char *comma = "";

	printf("%s{\"fd\":%d,\"submitted\":%" PRIu64 ",\"sq_tail\":%u,\"cq_tail\":%u,"
	       "\"cq_entries\":%u,\"fdinfo_sq_tail\":%ld,\"fdinfo_cq_tail\":%ld,\"ops\":{",
	       first ? "" : ",", r->fd, r->submitted, *r->sq_tail,
	       __atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE), r->cq_entries, fdinfo(r, "SqTail:"),
	       fdinfo(r, "CqTail:"));
	for (unsigned int op = 0; op < OPS; op++) {
		const struct counts *of = &r->ops[op];

		if (!of->count && !of->more)
			continue;
		printf("%s\"%u\":{\"count\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"shorts\":%" PRIu64
		       ",\"more\":%" PRIu64 ",\"ns\":%" PRIu64 "}",
		       comma, op, of->count, of->failed, of->shorts, of->more, of->ns);
		comma = ",";
	}
	printf("}}");
}

#define RINGS 8

int main(int argc, char **argv)
{
	unsigned int n_rings = 1, entries = 16;
	static struct ring *rings[RINGS];
	const char *path = NULL;
	char *colon;
	int c;

	while ((c = getopt(argc, argv, "r:e:f:qu")) != -1) {
		if (c == 'r')
			n_rings = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c == 'e')
			entries = (unsigned int)strtoul(optarg, NULL, 10);
		else if (c == 'f')
			path = optarg;
		else if (c == 'q')
			sqpoll = true;
		else if (c == 'u')
			same_name = true;
		else
			return 2;
	}
	if (!path || !n_rings || n_rings > RINGS)
		return 2;
	file = open(path, O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, 2 * BLOCK) ||
	    pwrite(file, buffer, sizeof(buffer), 0) != sizeof(buffer))
		fail(path);
	for (unsigned int i = 0; i < n_rings; i++)
		rings[i] = open_ring(entries);
	for (int i = optind; i < argc; i++) {
		colon = strchr(argv[i], ':');
		if (!colon)
			return 2;
		*colon = 0;
		for (unsigned int k = 0; k < n_rings; k++)
			step(rings[k], argv[i], (unsigned int)strtoul(colon + 1, NULL, 10));
	}
	printf("{\"pid\":%d,\"rings\":[", getpid());
	for (unsigned int i = 0; i < n_rings; i++)
		report(rings[i], !i);
	printf("]}\n");
	return 0;
}
