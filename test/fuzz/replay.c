/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `iotrace SUBCOMMAND --replay FILE` as it is run: options, settings, tables, every form of output,
 * and on a terminal the full screen with the keys that are pressed.  What it writes is looked at
 * (shown.h).  Checksums are not (output/framed_file.c).
 *
 * An input is a recording, which is shown in all forms; or the number of one form, the number of
 * keys, the keys, and a recording.  With FUZZ_SUBCOMMAND recordings of other subcommands are
 * skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "cmd/cli/command.h"
#include "shown.h"
#include "core/base/array.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
int LLVMFuzzerInitialize(int *argc, char ***argv);
void __sanitizer_set_report_fd(void *fd);

/* ---- forms ---- */

#define OPTIONS 6
static char out_path[32], written_path[32], heatmap_option[48];

struct form {
	const char *subcommand; /* NULL: of all */
	enum shown_form shown;
	bool screen;
	const char *options[OPTIONS];
};

static const struct form forms[] = {
	{ NULL, SHOWN_FREE, false, { "-v" } },
	{ NULL, SHOWN_JSON, false, { "--json" } },
	{ NULL, SHOWN_CSV, false, { "--csv" } },
	{ "top", SHOWN_TEXT, false, { "-s", "io", "-r", "2" } },
	{ "top", SHOWN_JSON, false, { "-s", "time", "--json" } },
	{ "top", SHOWN_FREE, true, { NULL } },
	{ "breakdown", SHOWN_TEXT, false, { "--hist", "-r", "1" } },
	{ "breakdown", SHOWN_TEXT, false, { "--heatmap" } },
	{ "breakdown", SHOWN_TEXT, false, { "-r", "1", "--heatmap" } },
	{ "breakdown", SHOWN_SVG, false, { heatmap_option } },
	{ NULL, SHOWN_JSON, false, { "--begin", "-1h", "--json" } },
	{ NULL, SHOWN_FREE, false, { "--begin", "-3s", "--end", "-1" } },
	{ NULL, SHOWN_CSV, false, { "--begin", "19:47:11", "--end", "03:12", "--csv" } },
	{ "top", SHOWN_JSON, false, { "-d", "vdb,sda", "-p", "163", "--json" } },
	{ "top", SHOWN_CSV, false, { "--by", "comm,disk", "-d", "vdb", "--csv" } },
	{ "top", SHOWN_TEXT, false, { "--by", "unit", "--cgroup", "web", "-s", "io" } },
	{ "top", SHOWN_FREE, true, { "--by", "disk", "-d", "vdb" } },
	{ "breakdown", SHOWN_TEXT, false, { "--by", "disk", "-d", "vda,vdb" } },
	{ "breakdown", SHOWN_JSON, false, { "--by", "comm", "-p", "1", "--json" } },
	{ "breakdown", SHOWN_TEXT, false, { "-d", "vdb", "--heatmap" } },
	{ "breakdown", SHOWN_TEXT, false, { "-u", "--by", "user" } },
	{ "stack", SHOWN_JSON, false, { "--by", "disk", "--json" } },
	{ "stack", SHOWN_FREE, false, { "--by", "process,disk", "-d", "vdb" } },
	{ "stack", SHOWN_SVG, false, { "--by", "comm", "--svg", written_path } },
	{ "slow", SHOWN_JSON, false, { "-m", "1", "--cgroup", "/", "--json" } },
	{ "slow", SHOWN_FREE, false, { "--by", "unit,disk", "-d", "loop0", "-p", "7" } },
	{ "slow", SHOWN_TRACE, false, { "--format", "perfetto" } },
	{ "breakdown", SHOWN_TRACE, false, { "--format", "perfetto" } },
	{ "virtio", SHOWN_JSON, false, { "-d", "virtio_blk", "-q", "req.0", "--json" } },
	{ "stack", SHOWN_JSON, false, { "--sum", "--json" } },
	{ "stack", SHOWN_SVG, false, { "--sum", "--svg", written_path } },
	{ "top", SHOWN_FREE, false, { "--sum=2", "--by", "disk" } },
	{ "breakdown", SHOWN_JSON, false, { "--sum", "--json" } },
	{ "virtio", SHOWN_FREE, false, { "--sum" } },
	{ "kvm", SHOWN_JSON, false, { "--sum", "--json" } },
	{ "blame", SHOWN_FREE, false, { "--sum=3" } },
	{ "stack", SHOWN_FOLDED, false, { "-f" } },
	{ "stack", SHOWN_FOLDED, false, { "-f", "--order", "disk", "-r", "2" } },
	{ "stack", SHOWN_FREE, false, { "--value", "ios", "-r", "2" } },
	{ "stack", SHOWN_SVG, false, { "--svg", written_path } },
	{ "stack", SHOWN_SVG, false, { "--value", "time", "--svg", written_path } },
	{ "virtio", SHOWN_TEXT, false, { "-T" } },
	{ "kvm", SHOWN_FREE, false, { "-1" } },
	{ "kvm", SHOWN_FREE, false, { "-l", "-c" } },
	{ "kvm", SHOWN_FREE, false, { "-l", "-z", "-a" } },
	{ "kvm", SHOWN_FREE, false, { "-l", "-L", written_path } },
	{ "kvm", SHOWN_FREE, false, { "-f", "kvm_exit", "-p", "7" } },
	{ "kvm", SHOWN_JSON, false, { "--json", "-g", "web \"1\"" } },
	{ "kvm", SHOWN_FREE, true, { NULL } },
	{ "kvm", SHOWN_FREE, true, { "-g", "web \"1\"" } },
};
#define FORMS ARRAY_SIZE(forms)

/* ---- what is captured ---- */

struct capture {
	int fd;
	const char *name;
};

static struct capture outputs[] = { { -1, "-o" }, { -1, "written" }, { -1, "errors" } };
enum { OUT, WRITTEN, ERRORS, CAPTURES };
static int recording_fd, null_fd;

/* A file in memory, and its name. */
static int memory_file(char *path, size_t size)
{
	int fd = memfd_create("iotrace-fuzz", 0);

	if (fd < 0)
		abort();
	snprintf(path, size, "/proc/self/fd/%d", fd);
	return fd;
}

static char *captured(int fd, size_t *size)
{
	off_t end = lseek(fd, 0, SEEK_END);
	char *text = malloc((size_t)end + 1);

	if (end < 0 || !text || pread(fd, text, (size_t)end, 0) != end)
		abort();
	text[end] = 0;
	*size = (size_t)end;
	return text;
}

static void check_captured(int fd, enum shown_form form, bool whole)
{
	size_t size;
	char *text = captured(fd, &size);

	if (whole)
		shown_check(form, text, size);
	else
		shown_check_characters(form, text, size);
	free(text);
}

/* ---- the terminal ---- */

struct terminal {
	int master, slave;
	pthread_t reader;
};

/* Reads what the screen shows and drops it, so that the program does not wait for its reader. */
static void *read_screen(void *terminal)
{
	const struct terminal *t = terminal;
	char buffer[4096];

	while (read(t->master, buffer, sizeof(buffer)) > 0)
		;
	return NULL;
}

/* In a question: an empty answer, which all take; on a page of help, or of a row's details: back;
 * then the end. */
static const char last_keys[] = "\025\rqq";

static void open_terminal(struct terminal *t, const char *keys, size_t n, uint8_t size)
{
	static const struct winsize sizes[] = { { 24, 80, 0, 0 },   { 8, 40, 0, 0 },
						{ 100, 300, 0, 0 }, { 1, 1, 0, 0 },
						{ 3, 200, 0, 0 },   { 60, 17, 0, 0 } };
	struct winsize window = sizes[size % ARRAY_SIZE(sizes)];
	struct termios modes;

	if (openpty(&t->master, &t->slave, NULL, NULL, &window))
		abort();
	tcgetattr(t->slave, &modes);
	cfmakeraw(&modes);
	tcsetattr(t->slave, TCSANOW, &modes);
	if (write(t->master, keys, n) != (ssize_t)n ||
	    write(t->master, last_keys, sizeof(last_keys) - 1) < 0 ||
	    pthread_create(&t->reader, NULL, read_screen, t))
		abort();
}

static void close_terminal(struct terminal *t)
{
	close(t->slave); /* with the last of it the reader ends */
	pthread_join(t->reader, NULL);
	close(t->master);
}

/* ---- a run ---- */

static void redirect(int in, int out, int errors)
{
	fflush(NULL);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(errors, STDERR_FILENO) < 0)
		abort();
	clearerr(stdin);
	clearerr(stdout);
	clearerr(stderr);
}

static int own_errors; /* standard error, while a run's is captured */

static int run(const struct command_entry *command, const struct form *form, const char *keys,
	       size_t n_keys)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction before[ARRAY_SIZE(ends)];
	char name[64], recording[32], replay[] = "--replay", output[] = "-o";
	char *argv[8 + OPTIONS] = { name, replay, recording };
	struct terminal terminal;
	int argc = 3, status;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaction(ends[i], NULL, &before[i]);
	snprintf(name, sizeof(name), "iotrace %s", command->name);
	snprintf(recording, sizeof(recording), "/proc/self/fd/%d", recording_fd);
	for (size_t i = 0; i < OPTIONS && form->options[i]; i++)
		argv[argc++] = (char *)form->options[i];
	if (!form->screen && !(form->options[1] && strcmp(form->options[1], "-L") == 0)) {
		argv[argc++] = output;
		argv[argc++] = out_path;
	}
	for (int i = 0; i < CAPTURES; i++)
		if (ftruncate(outputs[i].fd, 0) || lseek(outputs[i].fd, 0, SEEK_SET))
			abort();
	if (form->screen)
		open_terminal(&terminal, keys, n_keys, n_keys ? (uint8_t)keys[0] : 0);
	redirect(form->screen ? terminal.slave : null_fd, form->screen ? terminal.slave : null_fd,
		 outputs[ERRORS].fd);
	status = tool_main(command->tool, argc, argv);
	redirect(null_fd, null_fd, own_errors);
	if (form->screen)
		close_terminal(&terminal);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		sigaction(ends[i], &before[i], NULL);
	return status;
}

static void show(const struct command_entry *command, const struct form *form, const char *keys,
		 size_t n_keys)
{
	int status = run(command, form, keys, n_keys);
	bool svg = form->shown == SHOWN_SVG;

	if (status < STATUS_OK || status > STATUS_UNSUPPORTED)
		abort();
	check_captured(outputs[ERRORS].fd, SHOWN_FREE, true);
	check_captured(outputs[OUT].fd, svg ? SHOWN_FREE : form->shown, status == STATUS_OK);
	if (lseek(outputs[WRITTEN].fd, 0, SEEK_END) > 0)
		check_captured(outputs[WRITTEN].fd, form->shown, status == STATUS_OK);
}

/* ---- an input ---- */

#define HEAD_SIZE  16 /* of a recording; a block has 12 bytes before its payload and 4 behind it */
#define BLOCK_HEAD 12
#define BLOCK_TAIL 4
#define KEYS_MAX   64

struct input {
	uint8_t form, keys[KEYS_MAX];
	size_t n_keys;
	const uint8_t *recording;
	size_t size;
	bool in_all_forms;
};

static bool is_recording(const uint8_t *data, size_t size)
{
	return size >= 4 && memcmp(data, "\x89IOT", 4) == 0;
}

static struct input input_of(const uint8_t *data, size_t size)
{
	struct input in = { .recording = data, .size = size, .in_all_forms = true };
	size_t n;

	if (is_recording(data, size) || size < 2)
		return in;
	in.in_all_forms = false;
	in.form = data[0];
	n = data[1] % KEYS_MAX;
	in.n_keys = n < size - 2 ? n : size - 2;
	memcpy(in.keys, data + 2, in.n_keys);
	in.recording = data + 2 + in.n_keys;
	in.size = size - 2 - in.n_keys;
	return in;
}

/* Any byte is a key that does something. */
static size_t keys_of(const struct input *in, char *keys, size_t room)
{
	static const char *const pressed[] = {
		"q",
		"h",
		"?",
		"s",
		"<",
		">",
		"r",
		"/",
		"p",
		"d",
		"g",
		"t",
		"b",
		"Z",
		"a",
		"+",
		"-",
		"j",
		"k",
		"c",
		"f",
		"o",
		"x",
		"\r",
		"\033 ",
		"\b",
		"1",
		"7",
		"w",
		"kvm_",
		"\xe2\x82\xac",
		"\xff",
		"\033OA",
		"\033OB",
		"\033[5~",
		"\033[6~",
		"\033OH",
		"\033OF",
		"web \"1\"",
	};
	size_t used = 0;

	for (size_t i = 0; i < in->n_keys; i++) {
		const char *key = pressed[in->keys[i] % ARRAY_SIZE(pressed)];

		if (used + strlen(key) < room)
			used += (size_t)snprintf(keys + used, room - used, "%s", key);
	}
	return used;
}

/* The subcommand that the recording says it is of. */
static const struct command_entry *command_of(const struct input *in)
{
	const uint8_t *at = in->recording + HEAD_SIZE + BLOCK_HEAD, *end = in->recording + in->size;

	if (in->size < HEAD_SIZE + BLOCK_HEAD)
		return NULL;
	for (int text = 0; text < 2 && at < end; text++) /* version, kernel */
		at = at[0] < end - at ? at + at[0] + 1 : end;
	for (size_t i = 0; i < n_commands; i++) {
		size_t len = strlen(commands[i].name);

		if (at < end && at[0] == len && (size_t)(end - at) > len &&
		    memcmp(at + 1, commands[i].name, len) == 0)
			return commands[i].tool ? &commands[i] : NULL;
	}
	return NULL;
}

static bool is_form_of(const struct form *form, const struct command_entry *command)
{
	return !form->subcommand || strcmp(form->subcommand, command->name) == 0;
}

static void show_all(const struct command_entry *command)
{
	static const char keys[] = "xbbojkgweb\r\025\rf7\r\025\rtbsr>ahqjjkZ/d\r\025\rb";

	for (size_t i = 0; i < FORMS; i++)
		if (is_form_of(&forms[i], command))
			show(command, &forms[i], keys, sizeof(keys) - 1);
}

static void show_one(const struct command_entry *command, const struct input *in)
{
	size_t n = 0, wanted;
	char keys[512];

	for (size_t i = 0; i < FORMS; i++)
		n += is_form_of(&forms[i], command);
	wanted = in->form % n;
	for (size_t i = 0; i < FORMS; i++)
		if (is_form_of(&forms[i], command) && wanted-- == 0)
			show(command, &forms[i], keys, keys_of(in, keys, sizeof(keys)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = input_of(data, size);
	const struct command_entry *command = command_of(&in);
	const char *only = getenv("FUZZ_SUBCOMMAND");

	if (only && (!command || strcmp(command->name, only) != 0))
		return -1; /* not one to go on with */
	if (!command)
		command = &commands[0];
	if (ftruncate(recording_fd, 0) ||
	    pwrite(recording_fd, in.recording, in.size, 0) != (ssize_t)in.size)
		abort();
	if (in.in_all_forms)
		show_all(command);
	else
		show_one(command, &in);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char path[32];

	(void)argc;
	(void)argv;
	/* Like main(), without its limits and signal handlers. */
	signal(SIGPIPE, SIG_IGN);
	setenv("TERM", "xterm", 1);
	own_errors = dup(STDERR_FILENO);
	__sanitizer_set_report_fd((void *)(long)own_errors);
	null_fd = open("/dev/null", O_RDWR);
	recording_fd = memory_file(path, sizeof(path));
	outputs[OUT].fd = memory_file(out_path, sizeof(out_path));
	outputs[WRITTEN].fd = memory_file(written_path, sizeof(written_path));
	snprintf(heatmap_option, sizeof(heatmap_option), "--heatmap=%s", written_path);
	outputs[ERRORS].fd = memory_file(path, sizeof(path));
	return 0;
}

/* ---- mutations that leave a recording whole ---- */

#define BLOCKS_MAX 64
enum { ROWS = 3, INTERVAL = 4 };

struct block {
	uint32_t type, size;
	uint8_t *payload;
};

struct blocks {
	struct block v[BLOCKS_MAX];
	size_t n;
};

static uint32_t get_u32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

static void put_u32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

/* Copies; what is no block is left out. */
static void take_blocks(const uint8_t *data, size_t size, struct blocks *blocks)
{
	blocks->n = 0;
	for (size_t at = HEAD_SIZE; blocks->n < BLOCKS_MAX && at + BLOCK_HEAD <= size;) {
		struct block *b = &blocks->v[blocks->n++];
		size_t left = size - at - BLOCK_HEAD;

		b->type = get_u32(data + at + 4);
		b->size = get_u32(data + at + 8);
		if (b->size > left)
			b->size = (uint32_t)left;
		b->payload = malloc(b->size + 1);
		if (!b->payload)
			abort();
		memcpy(b->payload, data + at + BLOCK_HEAD, b->size);
		at += BLOCK_HEAD + b->size + BLOCK_TAIL;
	}
}

static void mutate_block(struct block *b)
{
	const size_t room = b->size + 256;

	b->payload = realloc(b->payload, room);
	if (!b->payload)
		abort();
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it loses sight of an array's items */
	b->size = (uint32_t)LLVMFuzzerMutate(b->payload, b->size, room);
}

/* Blocks @from to @to come once more, behind themselves. */
static void repeat_blocks(struct blocks *blocks, size_t from, size_t to)
{
	for (size_t i = from; i <= to && blocks->n < BLOCKS_MAX; i++) {
		const struct block *b = &blocks->v[i];
		struct block copy = { b->type, b->size, malloc(b->size + 1) };
		size_t at = to + 1 + (i - from);

		if (!copy.payload)
			abort();
		memcpy(copy.payload, b->payload, b->size);
		memmove(&blocks->v[at + 1], &blocks->v[at], (blocks->n - at) * sizeof(*b));
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): alike */
		blocks->v[at] = copy;
		blocks->n++;
	}
}

static void drop_block(struct blocks *blocks, size_t i)
{
	free(blocks->v[i].payload);
	blocks->n--;
	memmove(&blocks->v[i], &blocks->v[i + 1], (blocks->n - i) * sizeof(blocks->v[0]));
}

/* The fourth number of an interval says whether it is the last: only the last one does. */
static void mark_last(struct blocks *blocks)
{
	size_t last = 0;

	for (size_t i = 0; i < blocks->n; i++)
		last = blocks->v[i].type == INTERVAL ? i : last;
	for (size_t i = 0; i < blocks->n; i++) {
		const struct block *b = &blocks->v[i];
		size_t at = 0;

		for (int number = 0; number < 3 && at < b->size; number++) {
			while (at < b->size && b->payload[at] & 0x80)
				at++;
			at++;
		}
		if (b->type == INTERVAL && at < b->size)
			b->payload[at] = i == last;
	}
}

static void mutate_blocks(struct blocks *blocks, unsigned int seed)
{
	const size_t n = blocks->n, i = n ? (seed >> 8) % n : 0;
	size_t begin = i;

	if (!n)
		return;
	switch (seed % 8) {
	case 0: /* an interval again */
	case 1:
		while (begin > 1 && blocks->v[begin - 1].type == ROWS)
			begin--;
		repeat_blocks(blocks, begin, i);
		break;
	case 2:
		if (n > 1)
			drop_block(blocks, i);
		break;
	case 3: {
		size_t k = (seed >> 16) % n;
		struct block b = blocks->v[i];

		blocks->v[i] = blocks->v[k];
		blocks->v[k] = b;
		break;
	}
	case 4: /* what the run's options were */
		mutate_block(&blocks->v[0]);
		break;
	default:
		mutate_block(&blocks->v[i]);
	}
	if (seed >> 28)
		mark_last(blocks);
}

/* Numbers them anew.  The bytes, or 0: there is no room. */
static size_t put_blocks(const struct blocks *blocks, uint8_t *to, size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i < blocks->n; i++) {
		const struct block *b = &blocks->v[i];

		if (used + BLOCK_HEAD + b->size + BLOCK_TAIL > room)
			return 0;
		put_u32(to + used, (uint32_t)i);
		put_u32(to + used + 4, b->type);
		put_u32(to + used + 8, b->size);
		memcpy(to + used + BLOCK_HEAD, b->payload, b->size);
		used += BLOCK_HEAD + b->size;
		put_u32(to + used, 0);
		used += BLOCK_TAIL;
	}
	return used;
}

/* One form, some keys, and a changed recording. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct input in = input_of(data, size);
	struct blocks blocks;
	uint8_t keys[KEYS_MAX], *made;
	size_t n_keys = in.n_keys, at, used;

	if (seed % 16 == 0 || in.size < HEAD_SIZE || max_size < 2 + KEYS_MAX + in.size + 1024)
		return LLVMFuzzerMutate(data, size, max_size);
	made = malloc(max_size);
	if (!made)
		abort();
	memcpy(keys, in.keys, n_keys);
	if (seed % 16 == 1 || in.in_all_forms)
		n_keys = LLVMFuzzerMutate(keys, n_keys, KEYS_MAX - 1);
	made[0] = in.in_all_forms || seed % 16 < 4 ? (uint8_t)(seed >> 8) : in.form;
	made[1] = (uint8_t)n_keys;
	memcpy(made + 2, keys, n_keys);
	at = 2 + n_keys;
	memcpy(made + at, in.recording, HEAD_SIZE);
	at += HEAD_SIZE;
	take_blocks(in.recording, in.size, &blocks);
	mutate_blocks(&blocks, seed / 16 * 2654435761U);
	used = put_blocks(&blocks, made + at, max_size - at);
	for (size_t i = 0; i < blocks.n; i++)
		free(blocks.v[i].payload);
	if (used)
		memcpy(data, made, at + used);
	free(made);
	return used ? at + used : size;
}
