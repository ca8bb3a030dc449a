/* SPDX-License-Identifier: GPL-2.0-or-later */
/* core/symbols/symbolizer.c: names of user frames, in memory that is bounded, whatever there is to
 * name.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/symbols/symbolizer.h"
#include "core/symbols/perf_map.h"
#include "core/system/process.h"
#include "core/symbols/symbol_server.h"
#include "core/symbols/symbol_wire.h"

#define BASE 0x100000UL /* where something is mapped */

static char map_path[64];
static struct {
	uint32_t pid;
	uint64_t start_ns;
} self;

static struct {
	bool hurry;
	unsigned int ready; /* helpers that are, or were */
} * shared;
static unsigned int started;

static bool is_hurry(void *ctx)
{
	(void)ctx;
	return shared->hurry;
}

/* A helper, without its sandbox; it does not answer what first comes in a hurry. */
static pid_t start_helper(int socket)
{
	const struct wire_status ready = { .type = WIRE_READY };
	struct pollfd request = { .fd = socket, .events = POLLIN };
	pid_t pid = fork();

	if (pid) {
		started++;
		return pid;
	}
	if (send(socket, &ready, sizeof(ready), 0) != sizeof(ready))
		_exit(1);
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
	if (poll(&request, 1, -1) != 1)
		_exit(1);
	while (shared->hurry)
		pause();
	symbol_server_serve(socket);
	_exit(0);
}

static const struct code_files files;

struct run {
	struct symbolizer symbolizer;
	struct stack_tree tree;
};

/* From now on stacks are of process @pid. */
static void look_at(pid_t pid)
{
	struct process process;

	assert_int_equal(process_read((uint32_t)pid, &process), 0);
	self.pid = (uint32_t)pid;
	self.start_ns = process.start_ns;
	snprintf(map_path, sizeof(map_path), "/tmp/perf-%d.map", (int)pid);
}

static int set_up(void **state)
{
	const struct symbol_client_config config = {
		.start = start_helper,
		.cpu_ns = symbol_client_default.cpu_ns,
		.wall_ns = symbol_client_default.wall_ns,
		.failed_ns = symbol_client_default.failed_ns,
		.wait = is_hurry,
	};
	struct run *run = calloc(1, sizeof(*run));

	started = 0;
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	run->tree.limit = 1 << 20;
	run->symbolizer.tree = &run->tree;
	run->symbolizer.files = &files;
	assert_int_equal(symbol_client_open(&config, &run->symbolizer.symbols), 0);
	look_at(getpid());
	*state = run;
	return 0;
}

static int tear_down(void **state)
{
	struct run *run = *state;

	unlink(map_path);
	symbolizer_free(&run->symbolizer);
	stack_tree_free(&run->tree);
	free(run);
	munmap(shared, sizeof(*shared));
	return 0;
}

static void write_map(const char *text)
{
	int fd = open(map_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* Stack @number: frames from @first on, 16 bytes from each other. */
static struct stack_id take_stack(struct run *run, uint64_t number, uint64_t first, size_t depth)
{
	struct stack_id id = { { number + 2, number } };
	struct stack_frames frames = { 0 };

	for (size_t i = 0; i < depth; i++) {
		frames.ip[2 * i] = UNWIND_IN_MEMORY | (first - BASE + 16 * i);
		frames.ip[2 * i + 1] = BASE;
	}
	assert_int_equal(symbolizer_take_stack(&run->symbolizer, &id, &frames), 0);
	return id;
}

/* Its number in the batch. */
static uint32_t ask(struct run *run, const struct stack_id *id)
{
	uint32_t number = 0;

	assert_int_equal(
	    symbolizer_queue_user(&run->symbolizer, self.pid, self.start_ns, id, &number), 0);
	return number;
}

/* The leaf's name. */
static const char *leaf_of(struct run *run, uint32_t number)
{
	struct frames frames =
	    stack_tree_frames(&run->tree, symbolizer_node(&run->symbolizer, number));

	return frames_next(&frames);
}

static void assert_leaf(struct run *run, uint64_t number, uint64_t address, const char *want)
{
	struct stack_id id = take_stack(run, number, address, 1);
	uint32_t asked = ask(run, &id);

	symbolizer_end_drain(&run->symbolizer);
	symbolizer_begin_batch(&run->symbolizer);
	assert_int_equal(symbolizer_resolve(&run->symbolizer), 0);
	assert_string_equal(leaf_of(run, asked), want);
	symbolizer_end_batch(&run->symbolizer);
}

/* An address is used again, as code is compiled anew. */
static void test_compiled_again(void **state)
{
	struct run *run = *state;

	write_map("100000 10 one\n100010 10 other\n");
	assert_leaf(run, 1, BASE, "one");
	assert_leaf(run, 1, BASE, "one");
	write_map("100000 10 two\n");
	assert_leaf(run, 1, BASE, "two");
	assert_leaf(run, 2, BASE + 16, "other"); /* was compiled before */
	assert_leaf(run, 3, BASE + 32, "[anon]+0x20");
	write_map("100020 10 late\n");
	assert_leaf(run, 3, BASE + 32, "late");
	assert_leaf(run, 1, BASE, "two");
	assert_int_equal(run->symbolizer.unread, 0);
}

/* One that had no map when it was asked for stays as it is. */
static void test_no_map(void **state)
{
	struct run *run = *state;

	assert_leaf(run, 1, BASE, "[anon]+0x0");
	write_map("100000 10 one\n100010 10 other\n");
	assert_leaf(run, 2, BASE + 16, "other");
	assert_int_equal(run->symbolizer.unread, 0);
}

/* Stacks queued while a batch is resolved are in the next one, whatever is dropped after the first.
 */
static void test_two_batches(void **state)
{
	struct run *run = *state;
	struct stack_id now = take_stack(run, 1, BASE, 1), next;
	uint32_t asked, asked_next;

	write_map("100000 10 one\n100010 10 other\n");
	asked = ask(run, &now);
	symbolizer_end_drain(&run->symbolizer);
	symbolizer_begin_batch(&run->symbolizer);
	assert_int_equal(symbolizer_resolve(&run->symbolizer), 0);
	now = take_stack(run, 1, BASE, 1);
	next = take_stack(run, 2, BASE + 16, 1);
	asked_next = ask(run, &next);
	assert_int_equal(ask(run, &now), asked_next + 1);
	symbolizer_end_drain(&run->symbolizer);
	assert_string_equal(leaf_of(run, asked), "one");
	run->tree.rebuilt++;
	symbolizer_end_batch(&run->symbolizer);
	symbolizer_begin_batch(&run->symbolizer);
	assert_int_equal(symbolizer_resolve(&run->symbolizer), 0);
	assert_string_equal(leaf_of(run, asked_next), "other");
	assert_string_equal(leaf_of(run, asked_next + 1), "one");
	symbolizer_end_batch(&run->symbolizer);
	assert_int_equal(run->symbolizer.unread, 0);
}

/* The owner of a perf map is looked up before its process ends; later cleanup changes nothing. */
static void test_ended(void **state)
{
	struct run *run = *state;
	struct stack_id id;
	uint32_t asked;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		if (setuid(12345))
			_exit(1);
		for (;;)
			pause();
	}
	look_at(pid);
	for (uid_t uid = 0; uid != 12345;)
		assert_int_equal(perf_map_owner(self.pid, self.start_ns, &uid), 0);
	write_map("100000 10 one\n");
	assert_int_equal(chown(map_path, 12345, 12345), 0);
	symbolizer_begin_batch(&run->symbolizer);
	id = take_stack(run, 1, BASE, 1);
	asked = ask(run, &id);
	symbolizer_end_drain(&run->symbolizer);
	run->tree.rebuilt++;
	symbolizer_end_batch(&run->symbolizer);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	symbolizer_begin_batch(&run->symbolizer);
	assert_int_equal(symbolizer_resolve(&run->symbolizer), 0);
	assert_string_equal(leaf_of(run, asked), "one");
	symbolizer_end_batch(&run->symbolizer);
}

/* With a helper that waits for a request. */
static void begin_hurry(void)
{
	while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < started)
		usleep(1000);
	shared->hurry = true;
}

/* A map for which there was no time at all is read when there is. */
static void test_no_time(void **state)
{
	struct run *run = *state;

	write_map("100000 10 one\n100010 10 two\n100020 10 three\n");
	assert_int_equal(chmod(map_path, 0666), 0);
	begin_hurry();
	assert_leaf(run, 1, BASE, "[anon]+0x0"); /* takes all of the time */
	assert_leaf(run, 2, BASE + 16, "[anon]+0x10");
	assert_true(run->symbolizer.unread > 0);
	shared->hurry = false;
	assert_leaf(run, 2, BASE + 16, "two");
	write_map("100010 10 later\n");
	begin_hurry();
	assert_leaf(run, 3, BASE + 32, "[anon]+0x20"); /* takes all of the time */
	write_map("100010 10 latest\n");
	assert_leaf(run, 2, BASE + 16, "two");
	shared->hurry = false;
	assert_leaf(run, 2, BASE + 16, "latest");
}

/* More stacks than a batch takes, and more than the table does. */
static void test_too_many_stacks(void **state)
{
	enum { STACKS = 5000, DEPTH = 60 };
	struct run *run = *state;
	static uint32_t asked[STACKS];
	uint64_t lost = 0, lost_by_batch;
	size_t nodes_size;
	char want[32];

	run->tree.limit = 1 << 30;
	write_map("100000 10 first\n");
	for (size_t i = 0; i < STACKS; i++) {
		struct stack_id id = take_stack(run, i, BASE + i * DEPTH * 16, DEPTH);

		asked[i] = ask(run, &id);
	}
	symbolizer_end_drain(&run->symbolizer);
	assert_in_range(symbolizer_queued_size(&run->symbolizer), 8 << 20, 20 << 20);
	lost_by_batch = run->symbolizer.lost;
	symbolizer_begin_batch(&run->symbolizer);
	assert_int_equal(symbolizer_queued_size(&run->symbolizer), 0);
	assert_int_equal(symbolizer_resolve(&run->symbolizer), 0);
	/* Names are never dropped.  The limit leaves room for about half of the batch's stacks. */
	nodes_size = (STACKS - lost_by_batch) * DEPTH * sizeof(struct stack_node);
	run->tree.limit = (stack_tree_memory(&run->tree) + nodes_size / 2) / 5 * 2;
	for (size_t i = 0; i < STACKS; i++) {
		const char *leaf = leaf_of(run, asked[i]);

		snprintf(want, sizeof(want), "[anon]+0x%zx", i * DEPTH * 16);
		if (strcmp(leaf, STACK_TREE_LOST) == 0)
			lost++;
		else
			assert_string_equal(leaf, i ? want : "first");
	}
	symbolizer_end_batch(&run->symbolizer);
	assert_in_range(lost_by_batch, 1, STACKS - 100);
	assert_in_range(lost, lost_by_batch + 1, STACKS - 100);
	assert_int_equal(run->symbolizer.lost, lost);
	assert_in_range(stack_tree_memory(&run->tree), run->tree.limit, 3 * run->tree.limit);
	assert_int_equal(run->symbolizer.unread, 0);
}

/* Names that take all of the table's room.  Each frame without one is counted once. */
static void test_long_names(void **state)
{
	enum { NAMES = 1000, MAX_NAME = 4000 };
	struct run *run = *state;
	char *name = malloc(MAX_NAME + 1);
	FILE *file = fopen(map_path, "we");
	uint32_t asked = 0;

	memset(name, 'x', MAX_NAME);
	name[MAX_NAME] = 0;
	for (size_t i = 0; i < NAMES; i++)
		fprintf(file, "%zx 10 %zu_%s\n", BASE + i * 16, i, name);
	fclose(file);
	free(name);
	for (size_t i = 0; i < NAMES / 50; i++) {
		struct stack_id id = take_stack(run, i, BASE + i * 800, 50);

		asked = ask(run, &id);
		symbolizer_end_drain(&run->symbolizer);
		symbolizer_begin_batch(&run->symbolizer);
		assert_int_equal(symbolizer_resolve(&run->symbolizer), 0);
		if (i < NAMES / 50 - 1)
			symbolizer_end_batch(&run->symbolizer);
	}
	assert_in_range(stack_tree_memory(&run->tree), run->tree.limit, 3 * run->tree.limit);
	assert_in_range(run->symbolizer.unread, NAMES / 2, NAMES - 100);
	assert_int_equal(run->symbolizer.unread % 50, 0);
	assert_string_equal(leaf_of(run, asked), "[anon]+0x3b60");
	symbolizer_end_batch(&run->symbolizer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_compiled_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_map, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_two_batches, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many_stacks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_long_names, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
