/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The helper process that reads symbols: files that are hostile to it, and helpers that are hostile
 * to us. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/isolation/open_regular.h"
#include "core/symbols/perf_map.h"
#include "core/system/process.h"
#include "core/isolation/sandbox.h"
#include "core/symbols/symbol_client.h"
#include "core/symbols/symbol_server.h"
#include "core/symbols/symbol_wire.h"
#include "test/unit/elf_file.h"
#include "test/unit/remove_tree.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static pid_t last_helper;

static pid_t start_and_note(int socket)
{
	last_helper = symbol_client_default.start(socket);
	return last_helper;
}

static struct symbol_client *open_client(void)
{
	struct symbol_client_config config = symbol_client_default;
	struct symbol_client *c = NULL;

	config.start = start_and_note;
	assert_int_equal(symbol_client_open(&config, &c), 0);
	return c;
}

static struct opened_file opened(int fd)
{
	struct opened_file file = { .fd = fd };

	assert_int_equal(opened_file_look(&file), 0);
	return file;
}

/* The name of the function in the middle of @fd's only one; NULL: it has none. */
static const char *name_in(struct symbol_client *c, const struct symbol_file *file, int want)
{
	struct symbol_place place = { .at = 0x1080 };

	assert_int_equal(symbol_client_elf(c, file, &place, 1), want);
	if (!want)
		assert_true(place.address == 0x1080);
	return place.name;
}

static const char *name_in_fd(struct symbol_client *c, int fd, int want)
{
	return name_in(c, &(struct symbol_file){ .file = opened(fd), .path = "/" }, want);
}

static void assert_honest(struct symbol_client *c)
{
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "_ZN4demo6honestEv" });

	assert_string_equal(name_in_fd(c, fd, 0), "demo::honest");
	close(fd);
}

/* ---- hostile files ---- */

static void assert_told(const struct symbol_client *c, size_t n, const char *path, const char *why)
{
	const struct symbol_unread *files;

	assert_int_equal(symbol_client_unread_files(c, &files), n);
	assert_string_equal(files[n - 1].path, path);
	assert_string_equal(files[n - 1].why, why);
}

#define MAX_HELPER_KB (288L << 10)
#define MAX_OWN_KB    (64L << 10)

/* Ends the helper, and checks the memory it had and the memory of this process. */
static void close_client(struct symbol_client *c)
{
	struct rusage usage;

	symbol_client_close(c);
	if (SANITIZED)
		return;
	getrusage(RUSAGE_CHILDREN, &usage);
	assert_true(usage.ru_maxrss > 0 && usage.ru_maxrss < MAX_HELPER_KB);
	getrusage(RUSAGE_SELF, &usage);
	assert_true(usage.ru_maxrss < MAX_OWN_KB);
}

static void test_honest(void **state)
{
	struct symbol_client *c = open_client();
	int fd = elf_file_fd(&(struct elf_file){ .symbol = NULL });

	(void)state;
	assert_honest(c);
	assert_null(name_in_fd(c, fd, 0));
	close(fd);
	fd = memfd_create("no elf", MFD_CLOEXEC);
	assert_null(name_in_fd(c, fd, -ENOEXEC));
	close(fd);
	assert_int_equal(symbol_client_unread(c), 0);
	close_client(c);
}

/* Many places, unordered, in more than one message; each gets its own answer. */
static void test_many(void **state)
{
	enum { N = 3 * WIRE_PLACES_EACH + 1 };
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" });
	const struct symbol_file file = { .file = opened(fd), .path = "/" };
	struct symbol_place *places = calloc(WIRE_MAX_PLACES + 1, sizeof(*places));
	struct symbol_client *c = open_client();

	(void)state;
	for (size_t i = 0; i < N; i++)
		places[i].at = i * 7919 % 0x12000;
	assert_int_equal(symbol_client_elf(c, &file, places, N), 0);
	for (size_t i = 0; i < N; i++) {
		uint64_t at = places[i].at;

		assert_true(places[i].address == (at < 0x10000 ? at : UINT64_MAX));
		assert_int_equal(places[i].name != NULL, at >= 0x1000 && at < 0x1100);
	}
	assert_int_equal(symbol_client_elf(c, &file, places, 0), 0);
	assert_int_equal(symbol_client_elf(c, &file, places, WIRE_MAX_PLACES + 1), -E2BIG);
	free(places);
	close(fd);
	close_client(c);
}

/* f<A<int, int>, A<A<int, int>, A<int, int>>, ...>: each argument is twice the one before. */
static void bomb_symbol(char *out, size_t size, int levels)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t n = (size_t)snprintf(out, size, "_Z1fI1AIiiE");

	for (int i = 1; i <= levels; i++)
		n += (size_t)snprintf(out + n, size - n, "S0_IS%c_S%c_E", digits[i], digits[i]);
	snprintf(out + n, size - n, "Evv");
}

static void test_demangler_bomb(void **state)
{
	struct symbol_client *c = open_client();
	char symbol[400];
	int fd;

	(void)state;
	bomb_symbol(symbol, sizeof(symbol), 4);
	fd = elf_file_fd(&(struct elf_file){ .symbol = symbol });
	assert_memory_equal(name_in_fd(c, fd, 0), "f<A<int, int>, A<A<int", 22);
	close(fd);
	bomb_symbol(symbol, sizeof(symbol), 30);
	fd = elf_file_fd(&(struct elf_file){ .symbol = symbol });
	assert_string_equal(name_in_fd(c, fd, 0), symbol);
	close(fd);
	assert_int_equal(symbol_client_unread(c), 0);
	assert_honest(c);
	close_client(c);
}

/* Appends what @in deflates to, as blocks that may be repeated. */
static size_t deflate_to(z_stream *z, const char *in, size_t size, char *out, size_t room)
{
	z->next_in = (unsigned char *)(uintptr_t)in;
	z->avail_in = (unsigned int)size;
	z->next_out = (unsigned char *)out;
	z->avail_out = (unsigned int)room;
	assert_int_equal(deflate(z, Z_FULL_FLUSH), Z_OK);
	assert_true(z->avail_out > 0);
	return room - z->avail_out;
}

/* A file that unpacks to an ELF file with @megabytes of zeros behind it. */
static char *packed(size_t megabytes, size_t *size)
{
	static const char zeros[1 << 20], end[] = { 3, 0 }; /* an empty block, the last */
	char block[8192], *elf = elf_file_bytes(&(struct elf_file){ .symbol = "packed" }, size);
	size_t room = 2 * *size + (megabytes + 1) * sizeof(block), block_size, n;
	unsigned long crc = crc32(0, (unsigned char *)elf, (unsigned int)*size);
	unsigned long zeros_crc = crc32(0, (const unsigned char *)zeros, sizeof(zeros));
	uint32_t tail[2] = { 0, (uint32_t)(*size + megabytes * sizeof(zeros)) };
	char *bytes = malloc(room);
	z_stream z = { 0 };

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
	n = deflate_to(&z, elf, *size, bytes, room);
	block_size = deflate_to(&z, zeros, sizeof(zeros), block, sizeof(block));
	deflateEnd(&z);
	for (size_t i = 0; i < megabytes; i++, n += block_size) {
		memcpy(bytes + n, block, block_size);
		crc = crc32_combine(crc, zeros_crc, sizeof(zeros));
	}
	tail[0] = (uint32_t)crc;
	memcpy(bytes + n, end, sizeof(end));
	memcpy(bytes + n + sizeof(end), tail, sizeof(tail));
	*size = n + sizeof(end) + sizeof(tail);
	free(elf);
	return bytes;
}

static void test_packed(void **state)
{
	static const size_t megabytes[] = { 1, 100 };
	struct symbol_client *c = open_client();

	(void)state;
	for (int bomb = 0; bomb < 2; bomb++) {
		struct elf_file file = { 0 };
		int fd = memfd_create("packed", MFD_CLOEXEC);
		const char *name;

		file.debugdata = packed(megabytes[bomb], &file.debugdata_size);
		assert_int_equal(write(fd, file.debugdata, file.debugdata_size),
				 (ssize_t)file.debugdata_size);
		name = name_in_fd(c, fd, bomb ? -ENOEXEC : 0);
		assert_string_equal(name ? name : "", bomb ? "" : "packed");
		close(fd);
		assert_int_equal(symbol_client_unread(c), bomb);

		fd = elf_file_fd(&file);
		name = name_in_fd(c, fd, 0);
		assert_string_equal(name ? name : "", bomb ? "" : "packed");
		close(fd);
		free((void *)(uintptr_t)file.debugdata);
		assert_int_equal(symbol_client_unread(c), 2 * bomb);
	}
	assert_told(c, 2, "/", "larger than 96 MiB when unpacked, or damaged");
	assert_honest(c);
	close_client(c);
}

/* The file that .gnu_debugdata is written to is used again. */
static void test_scratch(void **state)
{
	const struct build_id any = { 0 };
	const struct debug_opener opener = { .scratch = memfd_create("scratch", MFD_CLOEXEC) };
	struct elf_file file = { 0 };
	int fd;

	(void)state;
	file.debugdata = packed(1, &file.debugdata_size);
	fd = elf_file_fd(&file);
	for (int i = 0; i < 2; i++) {
		struct elf_place place = { .offset = 0x1080 };
		enum unread unread = UNREAD_NOTHING;

		assert_int_equal(elf_symbols(fd, &any, &opener, &place, 1, &unread), 0);
		assert_string_equal(place.name, "packed");
		free(place.name);
		assert_int_equal(lseek(opener.scratch, 0, SEEK_END), 0);
	}
	free((void *)(uintptr_t)file.debugdata);
	close(opener.scratch);
	close(fd);
}

/* A file whose headers give a wrong offset and a wrong size of its symbols. */
static int false_symbols(Elf64_Off offset, Elf64_Xword size)
{
	size_t file_size;
	char *bytes = elf_file_bytes(&(struct elf_file){ .symbol = "one" }, &file_size);
	const Elf64_Ehdr *head = (Elf64_Ehdr *)(void *)bytes;
	Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(bytes + head->e_shoff);
	int fd = memfd_create("false", MFD_CLOEXEC);

	for (int i = 0; i < head->e_shnum; i++)
		if (sections[i].sh_type == SHT_SYMTAB) {
			sections[i].sh_offset += offset;
			sections[i].sh_size = size;
		}
	assert_int_equal(write(fd, bytes, file_size), (ssize_t)file_size);
	free(bytes);
	return fd;
}

static void assert_damaged(int fd)
{
	struct symbol_client *c = open_client();

	assert_null(name_in_fd(c, fd, 0));
	assert_told(c, 1, "/", "damaged, or needs more than 256 MiB of memory");
	close(fd);
	assert_honest(c);
	close_client(c);
}

static void test_damaged(void **state)
{
	(void)state;
	assert_damaged(false_symbols(1U << 30, 48));
}

/* 1 GiB of symbols, nearly all in a hole */
static void test_too_many_symbols(void **state)
{
	int fd = false_symbols(0, 1U << 30);

	(void)state;
	assert_int_equal(ftruncate(fd, 2LL << 30), 0);
	if (SANITIZED)
		close(fd);
	else
		assert_damaged(fd);
}

/* Its owner cuts it short, again and again, while it is read: it has its name, or none. */
static void test_cut_file(void **state)
{
	struct symbol_client *c = open_client();
	struct elf_file file = { .symbol = "cut" };
	int fd = elf_file_fd(&file);
	size_t size;
	char *bytes = elf_file_bytes(&file, &size);
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			(void)!ftruncate(fd, (off_t)size / 2);
			(void)!pwrite(fd, bytes, size, 0);
		}
	}
	for (int i = 0; i < 300; i++) {
		const struct symbol_file asked = { .file = opened(fd), .path = "/" };
		struct symbol_place place = { .at = 0x1080 };

		if (symbol_client_elf(c, &asked, &place, 1) == 0 && place.name)
			assert_string_equal(place.name, "cut");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(pwrite(fd, bytes, size, 0), (ssize_t)size);
	assert_string_equal(name_in_fd(c, fd, 0), "cut");
	close(fd);
	free(bytes);
	assert_honest(c);
	close_client(c);
}

/* ---- debug files ---- */

static char tree[64];

static int make_tree(void **state)
{
	(void)state;
	snprintf(tree, sizeof(tree), "/tmp/iotrace-test-XXXXXX");
	assert_non_null(mkdtemp(tree));
	return 0;
}

static int remove_it(void **state)
{
	(void)state;
	return remove_tree(tree);
}

static int create(const char *name, const struct elf_file *file, unsigned int *crc)
{
	char path[256], *bytes;
	size_t size;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	bytes = elf_file_bytes(file, &size);
	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
	*crc = (unsigned int)crc32(0, (unsigned char *)bytes, (unsigned int)size);
	free(bytes);
	return fd;
}

/* The name that the function of TREE/usr/bin/program gets in root TREE by debug file @link. */
static const char *name_by_link(struct symbol_client *c, const char *link, unsigned int crc)
{
	int fd = elf_file_fd(&(struct elf_file){ .link = link, .crc = crc }),
	    root = open_root(tree);
	const struct symbol_file file = {
		.file = opened(fd), .path = "/program", .roots = &root, .n_roots = 1
	};
	const char *name = name_in(c, &file, 0);

	close(fd);
	close(root);
	return name;
}

static void test_debug_link(void **state)
{
	struct symbol_client *c = open_client();
	unsigned int crc;
	char path[128];

	(void)state;
	close(create("debug", &(struct elf_file){ .symbol = "linked" }, &crc));
	assert_string_equal(name_by_link(c, "debug", crc), "linked");
	assert_null(name_by_link(c, "debug", crc + 1));
	assert_null(name_by_link(c, "none", crc));
	assert_null(name_by_link(c, "..", crc));
	/* below the root, and not below ours */
	snprintf(path, sizeof(path), "%s/absolute", tree);
	assert_int_equal(symlink("/debug", path), 0);
	assert_string_equal(name_by_link(c, "absolute", crc), "linked");
	snprintf(path, sizeof(path), "%s/away", tree);
	assert_int_equal(symlink("/proc/self/exe", path), 0);
	assert_null(name_by_link(c, "away", crc));
	assert_int_equal(symbol_client_unread(c), 0);
	close_client(c);
}

/* A file that root alone may read is not read through another user's link. */
static void test_debug_link_of_another(void **state)
{
	struct symbol_client *c = open_client();
	unsigned int crc;
	int debug = create("debug", &(struct elf_file){ .symbol = "linked" }, &crc);
	int fd = elf_file_fd(&(struct elf_file){ .link = "debug", .crc = crc }),
	    root = open_root(tree);
	struct symbol_file file = { .path = "/program", .roots = &root, .n_roots = 1 };

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(fchown(fd, 12345, 12345), 0);
	file.file = opened(fd);
	assert_null(name_in(c, &file, 0));
	assert_int_equal(fchown(debug, 12345, 12345), 0);
	assert_string_equal(name_in(c, &file, 0), "linked");
	file.file.is_claimed = true; /* as by a server of FUSE */
	assert_null(name_in(c, &file, 0));
	assert_int_equal(fchmod(debug, 0604), 0);
	assert_string_equal(name_in(c, &file, 0), "linked");
	assert_int_equal(symbol_client_unread(c), 0);
	close(debug);
	close(fd);
	close(root);
	close_client(c);
}

/* A pipe would be waited for, and a device be started. */
static void test_debug_link_to_no_file(void **state)
{
	struct symbol_client *c = open_client();
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/pipe", tree);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_null(name_by_link(c, "pipe", 0));
	snprintf(path, sizeof(path), "%s/zero", tree);
	if (mknod(path, S_IFCHR | 0600, 0x105) == 0)
		assert_null(name_by_link(c, "zero", 0));
	assert_int_equal(symbol_client_unread(c), 0);
	assert_honest(c);
	close_client(c);
}

/* A sparse debug file of a terabyte: its checksum is not computed. */
static void test_sparse_debug_file(void **state)
{
	struct symbol_client *c = open_client();
	unsigned int crc;
	int fd = create("sparse", &(struct elf_file){ .symbol = "sparse" }, &crc);

	(void)state;
	assert_int_equal(ftruncate(fd, 1LL << 40), 0);
	close(fd);
	assert_null(name_by_link(c, "sparse", crc));
	assert_int_equal(symbol_client_unread(c), 1);
	assert_told(c, 1, "/program", "its debug file has no build ID and is larger than 1024 MiB");
	assert_honest(c);
	close_client(c);
}

/* ---- perf maps ---- */

static int perf_map_names(struct symbol_client *c, int fd, struct symbol_place *places, size_t n)
{
	const struct opened_file file = opened(fd);

	return symbol_client_perf_map(c, &file, "map", places, n);
}

static void assert_map(struct symbol_client *c, int fd, const char *want, uint64_t unread)
{
	struct symbol_place places[] = { { .at = 0x1008 }, { .at = 0x5000 } };

	assert_int_equal(perf_map_names(c, fd, places, 2), 0);
	assert_string_equal(places[0].name ? places[0].name : "", want);
	assert_null(places[1].name);
	assert_int_equal(symbol_client_unread(c), unread);
	close(fd);
}

static int map_of(const char *text, size_t size)
{
	int fd = memfd_create("map", MFD_CLOEXEC);

	assert_int_equal(write(fd, text, size), (ssize_t)size);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void test_perf_maps(void **state)
{
	static char line[200000];
	struct symbol_client *c = open_client();
	int fd;

	(void)state;
	assert_map(c, map_of("1000 10 one", 11), "one", 0);
	/* 400 MB of holes, no newline */
	fd = map_of("1000 10 one\n", 12);
	assert_int_equal(ftruncate(fd, 400 << 20), 0);
	assert_map(c, fd, "one", 1);
	assert_told(c, 1, "map", "a line is longer than 64 KiB");
	/* a line that is too long, between others */
	memset(line, 'x', sizeof(line));
	line[snprintf(line, sizeof(line), "1000 10 one\n1000 10 ")] = 'x';
	snprintf(line + sizeof(line) - 13, 13, "\n1000 9 two\n");
	assert_map(c, map_of(line, sizeof(line)), "two", 2);
	assert_told(c, 2, "map", "a line is longer than 64 KiB");
	/* many lines */
	for (size_t i = 0; i < sizeof(line); i++)
		line[i] = i % 50 ? 'x' : '\n';
	fd = map_of(line, sizeof(line));
	while (lseek(fd, 0, SEEK_END) <= MAX_PERF_MAP)
		assert_true(write(fd, line, sizeof(line)) > 0);
	lseek(fd, 0, SEEK_SET);
	assert_map(c, fd, "", 3);
	assert_told(c, 3, "map", "larger than 64 MiB");
	assert_honest(c);
	close_client(c);
}

/* A perf map that is not read in full is counted as one file, however often it changes. */
static void test_perf_map_that_grows(void **state)
{
	static char line[100000];
	struct symbol_client *c = open_client();
	struct symbol_place place = { .at = 0x1008 };
	uint64_t used_ns = 0;
	int fd;

	(void)state;
	memset(line, 'x', sizeof(line));
	snprintf(line, sizeof(line), "1000 10 one\n1000 10");
	line[strlen(line)] = ' ';
	fd = map_of(line, sizeof(line));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		assert_int_equal(perf_map_names(c, fd, &place, 1), 0);
		assert_string_equal(place.name, i ? "two" : "one");
		assert_int_equal(symbol_client_unread(c), 1);
		assert_true(symbol_client_cpu_ns(c) > used_ns);
		used_ns = symbol_client_cpu_ns(c);
		assert_int_equal(lseek(fd, 0, SEEK_END), sizeof(line) + 11 * (off_t)i);
		assert_int_equal(write(fd, "\n1000 9 two", 11), 11);
	}
	/* From the first line that begins behind where it stands. */
	assert_int_equal(lseek(fd, sizeof(line) + 11, SEEK_SET), sizeof(line) + 11);
	assert_int_equal(perf_map_names(c, fd, &place, 1), 0);
	assert_string_equal(place.name, "two");
	assert_int_equal(lseek(fd, sizeof(line) + 23, SEEK_SET), sizeof(line) + 23);
	assert_int_equal(perf_map_names(c, fd, &place, 1), 0);
	assert_null(place.name);
	close(fd);
	close_client(c);
}

static uint64_t start_of(pid_t pid)
{
	struct process process;

	assert_int_equal(process_read((uint32_t)pid, &process), 0);
	return process.start_ns;
}

/* Its descriptor, or -errno. */
static int open_map(pid_t pid, uint64_t start, uid_t uid)
{
	struct opened_file file;
	int r = perf_map_open((uint32_t)pid, start, uid, &file);

	return r ? r : file.fd;
}

static int open_own_map(void)
{
	return open_map(getpid(), start_of(getpid()), PERF_MAP_NO_OWNER);
}

static void make_map(pid_t pid, char path[64])
{
	int fd;

	snprintf(path, 64, "/tmp/perf-%d.map", (int)pid);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, "mine", 4), 4);
	close(fd);
}

static void assert_opens(int fd)
{
	char text[16];

	assert_int_equal(read(fd, text, sizeof(text)), 4);
	close(fd);
}

static void test_perf_map_of_another(void **state)
{
	char path[64];

	(void)state;
	make_map(getpid(), path);
	assert_opens(open_own_map());
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_int_equal(open_own_map(), -EACCES);
	}
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(open_own_map(), -EACCES);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(open_own_map(), -EACCES);
	unlink(path);
	assert_int_equal(open_own_map(), -ENOENT);
}

/* In another root directory a map is not root's own, whoever owns it. */
static void test_perf_map_elsewhere(void **state)
{
	struct opened_file file;
	char path[PATH_MAX];
	int told[2], fd;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	make_map(getpid(), path);
	assert_int_equal(
	    perf_map_open((uint32_t)getpid(), start_of(getpid()), PERF_MAP_NO_OWNER, &file), 0);
	assert_false(file.is_foreign);
	opened_file_close(&file);
	unlink(path);
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (chroot(tree) || write(told[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(told[0], path, 1), 1);
	snprintf(path, sizeof(path), "%s/tmp", tree);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/tmp/perf-%d.map", tree, (int)pid);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(perf_map_open((uint32_t)pid, start_of(pid), PERF_MAP_NO_OWNER, &file), 0);
	assert_int_equal(file.st.st_uid, 0);
	assert_true(file.is_foreign);
	opened_file_close(&file);
	close(fd);
	close(told[0]);
	close(told[1]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The process has ended: another process may have its number by now. */
static void test_perf_map_of_the_dead(void **state)
{
	uint64_t start, long_ago;
	uid_t uid = PERF_MAP_NO_OWNER;
	char path[64];
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0) {
		if (setuid(12345))
			_exit(1);
		for (;;)
			pause();
	}
	start = start_of(pid);
	long_ago = start - NS_PER_SEC;
	while (perf_map_owner((uint32_t)pid, start, &uid) == 0 && uid != 12345)
		;
	assert_int_equal(uid, 12345);
	assert_int_equal(perf_map_owner((uint32_t)pid, long_ago, &uid), -ESRCH);
	make_map(pid, path);
	assert_int_equal(chown(path, 54321, 54321), 0);
	assert_int_equal(open_map(pid, start, 54321), -EACCES);
	assert_opens(open_map(pid, long_ago, 54321));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(perf_map_owner((uint32_t)pid, start, &uid) < 0);
	assert_opens(open_map(pid, start, 54321));
	assert_int_equal(open_map(pid, start, 12345), -EACCES);
	assert_int_equal(open_map(pid, start, PERF_MAP_NO_OWNER), -EACCES);
	assert_int_equal(chown(path, 0, 0), 0);
	assert_opens(open_map(pid, start, PERF_MAP_NO_OWNER));
	unlink(path);
}

/* ---- the sandbox ---- */

static void status_says(pid_t pid, const char *key, char value[64])
{
	char path[64], line[256];
	size_t n = strlen(key);
	FILE *file;

	value[0] = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, key, n) == 0 && line[n] == ':')
			snprintf(value, 64, "%.*s", (int)strcspn(line + n + 2, "\n"), line + n + 2);
	fclose(file);
}

static void test_helper_has_nothing(void **state)
{
	static const char *const want[][2] = {
		{ "Name", "iotrace-symbols" },	      { "CapEff", "0000000000000000" },
		{ "CapPrm", "0000000000000000" },     { "CapInh", "0000000000000000" },
		{ "CapAmb", "0000000000000000" },     { "NoNewPrivs", "1" },
		{ "Seccomp", SANITIZED ? "0" : "2" }, { "THP_enabled", "0" },
	};
	struct symbol_client *c;
	char value[64], path[64];
	int leak = open("/dev/null", O_RDONLY); /* not close-on-exec */

	(void)state;
	c = open_client();
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		status_says(last_helper, want[i][0], value);
		assert_string_equal(value, want[i][1]);
	}
	if (geteuid() == 0) {
		for (int fd = 0; fd < 32; fd++) {
			snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)last_helper, fd);
			assert_int_equal(readlink(path, value, sizeof(value)) >= 0, fd <= 4);
		}
	}
	close(leak);
	close_client(c);
}

/* Signals to all of a service are not for it; and one that was killed is no file's fault. */
static void test_signals(void **state)
{
	struct symbol_client *c = open_client();
	pid_t first = last_helper;

	(void)state;
	kill(first, SIGINT);
	kill(first, SIGTERM);
	kill(first, SIGHUP);
	if (geteuid() == 0) {
		assert_int_equal(getsid(first), first);
		assert_honest(c);
		assert_int_equal(last_helper, first);
	}
	kill(last_helper, SIGKILL);
	waitid(P_PID, (id_t)last_helper, NULL, WEXITED | WNOWAIT);
	assert_honest(c);
	assert_int_not_equal(last_helper, first);
	assert_int_equal(symbol_client_unread(c), 0);
	close_client(c);
}

static void try_open(void)
{
	(void)!open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static void try_fork(void)
{
	fork();
}

static void try_socket(void)
{
	(void)!socket(AF_INET, SOCK_STREAM, 0);
}

static void try_kill(void)
{
	kill(getppid(), 0);
}

static void try_code(void)
{
	(void)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void try_shared_memory(void)
{
	(void)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void try_file_in_memory(void)
{
	(void)memfd_create("file", MFD_CLOEXEC);
}

static void try_stat(void)
{
	syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", NULL, 0);
}

static void try_old_call(void)
{
#ifdef __x86_64__
	/* open() as the 32-bit processes' */
	__asm__ volatile("int $0x80" : : "a"(5), "b"(0), "c"(0) : "memory");
#else
	abort();
#endif
}

static void try_x32_call(void)
{
	syscall(SYS_read | 0x40000000, -1, NULL, 0);
}

static void try_ioctl(void)
{
	int on = 1;

	ioctl(STDIN_FILENO, FIOASYNC, &on);
}

static void try_prctl(void)
{
	prctl(PR_SET_PDEATHSIG, 0);
}

static void try_futex(void)
{
	uint32_t word = 0;

	syscall(SYS_futex, &word, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0);
}

static int scratch, command; /* of try_fcntl(), use_memory() */

static void try_fcntl(void)
{
	if (fcntl(scratch, command, command == F_SETFL ? O_ASYNC : 0) < 0)
		_exit(2);
}

static int signal_of(void (*try)(void))
{
	static const struct sandbox sandbox = { "sandbox", 16UL << 20, 64, 4096 };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (sandbox_enter(&sandbox))
			_exit(1);
		if (try)
			try();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void test_sandbox(void **state)
{
	static void (*const tries[])(void) = {
		try_open,	    try_fork, try_socket, try_kill,  try_code,	try_shared_memory,
		try_file_in_memory, try_stat, try_ioctl,  try_prctl, try_futex, try_x32_call,
	};

	(void)state;
	if (SANITIZED)
		skip();
	assert_int_equal(signal_of(NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++)
		assert_int_equal(signal_of(tries[i]), SIGSYS);
	/* Without support for 32-bit programs it is a fault. */
	assert_true(signal_of(try_old_call) > 0);
}

static void test_sandbox_fcntl(void **state)
{
	static const int allowed[] = { F_DUPFD_CLOEXEC, F_GETFD, F_GETFL };
	static const int refused[] = {
		F_SETFL, F_SETOWN, F_SETOWN_EX, F_SETSIG,    F_SETLEASE,   F_NOTIFY,
		F_SETLK, F_SETLKW, F_OFD_SETLK, F_ADD_SEALS, F_SETPIPE_SZ,
	};

	(void)state;
	if (SANITIZED)
		skip();
	scratch = memfd_create("scratch", MFD_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
		command = allowed[i];
		assert_int_equal(signal_of(try_fcntl), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		command = refused[i];
		assert_int_equal(signal_of(try_fcntl), SIGSYS);
	}
	close(scratch);
}

static void use_memory(void)
{
	char *memory =
	    mmap(NULL, 32UL << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char bytes[5000] = "";

	if (memory != MAP_FAILED || write(scratch, bytes, sizeof(bytes)) != 4096)
		_exit(2);
}

static void test_sandbox_limits(void **state)
{
	(void)state;
	if (SANITIZED)
		skip();
	scratch = memfd_create("scratch", MFD_CLOEXEC);
	assert_int_equal(signal_of(use_memory), 0);
	close(scratch);
}

/* ---- hostile helpers ---- */

static struct wire_request request; /* that the helper got */

static void say(int socket, const void *message, size_t size)
{
	send(socket, message, size, MSG_NOSIGNAL);
}

static void say_done(int socket, int status)
{
	const struct wire_status done = { WIRE_DONE, status, 0 };

	say(socket, &done, sizeof(done));
}

/* A message of one record that says it is @n, of place @place, @size bytes of @text, @real sent. */
static void say_name(int socket, uint32_t n, uint32_t place, uint32_t size, const char *text,
		     size_t real)
{
	static union {
		struct wire_names head;
		char bytes[2 * WIRE_MESSAGE];
	} message;
	const struct wire_name record = { 0x1080, place, size };

	message.head = (struct wire_names){ WIRE_NAMES, n };
	memcpy(message.bytes + sizeof(message.head), &record, sizeof(record));
	memcpy(message.bytes + sizeof(message.head) + sizeof(record), text, real);
	say(socket, &message, sizeof(message.head) + sizeof(record) + real);
}

static void say_query(int socket, uint32_t root, uint32_t where, uint8_t id, const char *link)
{
	struct wire_query query = { WIRE_QUERY, { root, where, { id, "id" }, "" } };

	memcpy(query.query.link, link, strlen(link));
	say(socket, &query, sizeof(query));
}

/* What helpers report in shared memory, in addition to the socket. */
struct told {
	pid_t silent;	    /* the helper that does not answer any more */
	unsigned int beats; /* of the helpers that work */
	unsigned int steps; /* of the clock */
};

static struct told *told;

static void lie_silent(int socket)
{
	(void)socket;
	__atomic_store_n(&told->silent, getpid(), __ATOMIC_SEQ_CST);
	for (;;)
		pause();
}

static void lie_busy(int socket)
{
	(void)socket;
	for (;;)
		;
}

static void lie_dead(int socket)
{
	(void)socket;
	_exit(0);
}

static void lie_killed(int socket)
{
	(void)socket;
	raise(SIGKILL);
}

static void lie_empty(int socket)
{
	say(socket, "", 0);
}

static void lie_short(int socket)
{
	say(socket, "abc", 3);
}

static void lie_type(int socket)
{
	const uint32_t message[64] = { 4711 };

	say(socket, message, sizeof(message));
}

static void lie_no_records(int socket)
{
	say_name(socket, 0, 0, 0, "", 0);
	say_done(socket, 0);
}

static void lie_too_many_records(int socket)
{
	say_name(socket, UINT32_MAX, 0, 1, "x", 1);
}

static void lie_rest(int socket)
{
	say_name(socket, 1, 0, 1, "xyz", 3);
	say_done(socket, 0);
}

static void lie_place(int socket)
{
	say_name(socket, 1, 1, 1, "x", 1);
}

static void lie_twice(int socket)
{
	say_name(socket, 1, 0, 1, "x", 1);
	say_name(socket, 1, 0, 1, "y", 1);
	say_done(socket, 0);
}

static void lie_size(int socket)
{
	say_name(socket, 1, 0, 2, "x", 1);
}

static void lie_long(int socket)
{
	static char text[MAX_SYMBOL_NAME + 1];

	memset(text, 'x', sizeof(text));
	say_name(socket, 1, 0, sizeof(text), text, sizeof(text));
	say_done(socket, 0);
}

static void lie_huge(int socket)
{
	static char text[WIRE_MESSAGE];

	memset(text, 'x', sizeof(text));
	say_name(socket, 1, 0, sizeof(text), text, sizeof(text));
	say_done(socket, 0);
}

static void lie_zero(int socket)
{
	say_name(socket, 1, 0, 3, "x\0y", 3);
	say_done(socket, 0);
}

static void lie_same(int socket)
{
	say_name(socket, 1, 0, WIRE_SAME_NAME, "", 0);
	say_done(socket, 0);
}

static void lie_early(int socket)
{
	say_done(socket, 0);
}

static void lie_status(int socket)
{
	say_name(socket, 1, 0, 1, "x", 1);
	say_done(socket, 1);
}

/* A reason that only the client can have */
static void lie_reason(int socket)
{
	const struct wire_status done = { WIRE_DONE, 0, UNREAD_BY_SERVER };

	say_name(socket, 1, 0, 1, "x", 1);
	say(socket, &done, sizeof(done));
}

#define SLOW_STEPS 7

/* Works for so many steps of the clock, then tells the truth. */
static void lie_slow(int socket)
{
	unsigned int from = __atomic_load_n(&told->steps, __ATOMIC_SEQ_CST);

	while (__atomic_load_n(&told->steps, __ATOMIC_SEQ_CST) - from < SLOW_STEPS)
		__atomic_add_fetch(&told->beats, 1, __ATOMIC_SEQ_CST);
	say_name(socket, 1, 0, 4, "slow", 4);
	say_done(socket, 0);
}

static void lie_link_elsewhere(int socket)
{
	say_query(socket, 1, DEBUG_IN_DIR, 2, "link");
}

static void lie_root(int socket)
{
	say_query(socket, request.n_roots, DEBUG_IN_DIR, 2, "link");
}

static void lie_where(int socket)
{
	say_query(socket, 0, DEBUG_WHERES, 2, "link");
}

static void lie_id(int socket)
{
	say_query(socket, 0, DEBUG_BY_BUILD_ID, 1, "");
}

static void lie_long_id(int socket)
{
	say_query(socket, 0, DEBUG_BY_BUILD_ID, BUILD_ID_SIZE + 1, "");
}

static void lie_path(int socket)
{
	say_query(socket, 0, DEBUG_IN_DIR, 2, "../../etc/passwd");
}

static void lie_folder(int socket)
{
	say_query(socket, 0, DEBUG_IN_DIR, 2, "..");
}

static void lie_no_link(int socket)
{
	say_query(socket, 0, DEBUG_IN_DIR, 2, "");
}

static void lie_endless_link(int socket)
{
	struct wire_query query = { WIRE_QUERY, { 0, DEBUG_IN_DIR, { 0 }, "" } };

	memset(query.query.link, 'x', sizeof(query.query.link));
	say(socket, &query, sizeof(query));
}

static void lie_again(int socket)
{
	say_query(socket, 0, DEBUG_IN_DIR, 2, "link");
	say_query(socket, 0, DEBUG_IN_DIR, 2, "link");
}

static void (*lie)(int socket);
static size_t n_started, lies_from, lies_until; /* which of the started helpers lie, by number */

/* In a process of its own: the server without a sandbox, or one that lies. */
static void serve(int socket, bool lies)
{
	const struct wire_status ready = { .type = WIRE_READY };
	char places[WIRE_MESSAGE];

	say(socket, &ready, sizeof(ready));
	if (!lies) {
		symbol_server_serve(socket);
		return;
	}
	if (recv(socket, &request, sizeof(request), 0) == sizeof(request) &&
	    (request.type == WIRE_UNWIND || recv(socket, places, sizeof(places), 0) > 0)) {
		lie(socket);
		lie_silent(socket);
	}
}

static pid_t start_liar(int socket)
{
	bool lies = n_started >= lies_from && n_started < lies_until;
	pid_t pid = fork();

	if (pid) {
		n_started++;
		last_helper = pid;
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	serve(socket, lies);
	_exit(0);
}

/* The clock stands still, except while the client waits for a helper that is silent, or works.  So
 * it does not matter how busy this machine is. */
static uint64_t now_ns, step_ns = NS_PER_SEC / 10;

uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return now_ns;
}

/* The client looks after its helper as often as time is to pass. */
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	return __real_poll(fds, n, timeout_ms > 4 ? 4 : timeout_ms);
}

static bool pass_time(void *ctx)
{
	static unsigned int before;
	unsigned int beats = __atomic_load_n(&told->beats, __ATOMIC_SEQ_CST);

	(void)ctx;
	if (beats != before || __atomic_load_n(&told->silent, __ATOMIC_SEQ_CST) == last_helper) {
		now_ns += step_ns;
		__atomic_add_fetch(&told->steps, 1, __ATOMIC_SEQ_CST);
	}
	before = beats;
	return false;
}

static int share_memory(void **state)
{
	(void)state;
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	now_ns = NS_PER_SEC;
	return told == MAP_FAILED;
}

static const struct symbol_client_config liars = {
	.start = start_liar,
	.cpu_ns = NS_PER_SEC / 10,
	.wall_ns = NS_PER_SEC / 5,
	.failed_ns = 30 * NS_PER_SEC,
	.wait = pass_time,
};

static void test_hostile_helpers(void **state)
{
	static void (*const lying[])(int) = {
		lie_silent, lie_busy,	    lie_dead,
		lie_killed, lie_empty,	    lie_short,
		lie_type,   lie_no_records, lie_too_many_records,
		lie_rest,   lie_place,	    lie_twice,
		lie_size,   lie_long,	    lie_huge,
		lie_zero,   lie_same,	    lie_early,
		lie_status, lie_root,	    lie_where,
		lie_id,	    lie_long_id,    lie_path,
		lie_folder, lie_no_link,    lie_endless_link,
		lie_again,  lie_reason,
	};
	int root = open_root("/");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lying); i++) {
		int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" });
		const struct symbol_file file = {
			.file = opened(fd), .path = "/x", .roots = &root, .n_roots = 1
		};
		struct symbol_client *c = NULL;

		lie = lying[i];
		n_started = lies_from = 0;
		lies_until = 1;
		assert_int_equal(symbol_client_open(&liars, &c), 0);
		print_message("lie %zu\n", i);
		assert_null(name_in(c, &file, -EIO));
		assert_int_equal(symbol_client_unread(c), 1);
		/* The next helper is honest; the file is not tried again, nor counted. */
		assert_null(name_in(c, &file, -EIO));
		assert_int_equal(n_started, 2);
		assert_honest(c);
		assert_int_equal(symbol_client_unread(c), 1);
		symbol_client_close(c);
		close(fd);
	}
	close(root);
}

/* ---- what is reported ---- */

static void test_why_not(void **state)
{
	static const struct {
		void (*lie)(int);
		const char *why;
	} lies[] = {
		{ lie_silent, "reading it took more than 0.2 s" },
		{ lie_busy, "reading it took more than 0.1 s of CPU time" },
		{ lie_dead, "the symbol reader crashed or was killed" },
		{ lie_killed, "the symbol reader crashed or was killed" },
		{ lie_type, "the symbol reader sent an invalid answer" },
		{ lie_reason, "the symbol reader sent an invalid answer" },
		{ lie_link_elsewhere, "the symbol reader sent an invalid answer" },
	};
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" });
	int root = open_root("/"), roots[] = { root, root };
	const struct symbol_file file = {
		.file = opened(fd), .path = "/", .roots = roots, .n_roots = 2
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct symbol_client *c = NULL;

		lie = lies[i].lie;
		n_started = lies_from = 0;
		lies_until = 1;
		assert_int_equal(symbol_client_open(&liars, &c), 0);
		assert_null(name_in(c, &file, -EIO));
		assert_told(c, 1, "/", lies[i].why);
		symbol_client_close(c);
	}
	close(root);
	close(fd);
}

/* Each file is reported once, and only a limited number of files; all are counted. */
static void test_many_unread(void **state)
{
	struct symbol_client *c = NULL;
	const struct symbol_unread *files;
	char path[64];
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" });

	(void)state;
	lie = lie_dead;
	n_started = lies_from = 0;
	lies_until = UINT_MAX;
	assert_int_equal(symbol_client_open(&liars, &c), 0);
	for (unsigned int i = 0; i < 2 * SYMBOL_UNREAD_FILES; i++) {
		struct symbol_file file = { .file = opened(fd), .path = path };

		snprintf(path, sizeof(path), "/file %u", i / 2 * 2);
		assert_null(name_in(c, &file, -EIO));
	}
	for (unsigned int i = 0; i < 10; i++) {
		struct symbol_file file = { .file = opened(fd), .path = path };

		snprintf(path, sizeof(path), "/another %u", i);
		assert_null(name_in(c, &file, -EIO));
	}
	assert_int_equal(symbol_client_unread(c), SYMBOL_UNREAD_FILES + 10);
	assert_int_equal(symbol_client_unread_files(c, &files), SYMBOL_UNREAD_FILES);
	for (unsigned int i = 0; i < SYMBOL_UNREAD_FILES; i++) {
		snprintf(path, sizeof(path), "/file %u", 2 * i);
		assert_string_equal(files[i].path, path);
	}
	symbol_client_close(c);
	close(fd);
}

/* A map that grows is one file, and is tried again. */
static void test_map_that_grows(void **state)
{
	struct symbol_client *c = NULL;
	struct symbol_place place = { .at = 0x1008 };
	int fd = map_of("1000 10 one\n", 12);

	(void)state;
	lie = lie_dead;
	n_started = lies_from = 0;
	lies_until = 2;
	assert_int_equal(symbol_client_open(&liars, &c), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(perf_map_names(c, fd, &place, 1), -EIO);
		assert_int_equal(n_started, i + 2);
		usleep(20000); /* ctime goes by ticks */
		assert_int_equal(pwrite(fd, "2000 10 two\n", 12, 12), 12);
	}
	assert_int_equal(perf_map_names(c, fd, &place, 1), 0);
	assert_string_equal(place.name, "one");
	assert_int_equal(symbol_client_unread(c), 1);
	symbol_client_close(c);
	close(fd);
}

/* When others' files have failed for long enough, they have less time; root's own, and the start of
 * a helper, have not. */
static void test_failed_for_long(void **state)
{
	struct symbol_client_config config = liars;
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" });
	struct symbol_file file = { .file = opened(fd), .path = "/" };
	struct symbol_client *c = NULL;

	(void)state;
	if (geteuid() != 0)
		skip();
	config.cpu_ns = 10 * NS_PER_SEC;
	config.wall_ns = NS_PER_SEC;
	config.failed_ns = 0;
	n_started = lies_from = 0;
	lies_until = UINT_MAX;
	lie = lie_silent;
	assert_int_equal(symbol_client_open(&config, &c), 0);
	lie = lie_slow;
	file.path = "/own";
	assert_int_equal(fchmod(fd, 0600), 0);
	file.file = opened(fd);
	assert_null(name_in(c, &file, -EIO)); /* which is not others' */
	lie = lie_silent;
	file.path = "/others";
	assert_int_equal(fchmod(fd, 0666), 0);
	file.file = opened(fd);
	assert_string_equal(name_in(c, &file, 0), "slow");
	lie = lie_slow;
	file.path = "/others that fails";
	assert_null(name_in(c, &file, -EIO));
	file.path = "/own that is slow";
	assert_int_equal(fchmod(fd, 0600), 0);
	file.file = opened(fd);
	assert_string_equal(name_in(c, &file, 0), "slow");
	file.path = "/others that is slow";
	assert_int_equal(fchmod(fd, 0666), 0);
	file.file = opened(fd);
	assert_null(name_in(c, &file, -EIO));
	assert_told(c, 3, "/others that is slow", "reading it took more than 0.05 s");
	symbol_client_close(c);
	close(fd);
}

/* ---- hurry ---- */

static bool hurry;
static unsigned int n_waits, no_hurry_for;

static bool say_pace(void *ctx)
{
	assert_ptr_equal(ctx, &hurry);
	pass_time(NULL);
	return ++n_waits > no_hurry_for && hurry;
}

/* Would have all the time in the world. */
static const struct symbol_client_config paced = {
	.start = start_liar,
	.cpu_ns = UINT64_MAX / 2,
	.wall_ns = UINT64_MAX / 2,
	.failed_ns = UINT64_MAX,
	.hurry_ns = NS_PER_SEC / 5, /* two steps */
	.wait = say_pace,
	.ctx = &hurry,
};

static struct symbol_client *open_paced(void (*how)(int))
{
	struct symbol_client *c = NULL;

	lie = how;
	n_started = lies_from = n_waits = 0;
	lies_until = 1;
	hurry = false;
	assert_int_equal(symbol_client_open(&paced, &c), 0);
	hurry = true;
	n_waits = 0;
	no_hurry_for = 3;
	return c;
}

/* The callback is called while the client waits for an answer. */
static void test_wait(void **state)
{
	struct symbol_client_config config = paced;
	struct symbol_client *c;
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" });

	(void)state;
	symbol_client_close(open_paced(lie_silent));
	hurry = false;
	n_started = 0;
	config.wall_ns = 5 * step_ns;
	assert_int_equal(symbol_client_open(&config, &c), 0);
	n_waits = 0;
	assert_null(name_in_fd(c, fd, -EIO));
	assert_true(n_waits > 5);
	symbol_client_close(c);
	close(fd);
}

/* At a deadline a file without progress is given up, a file of root's with progress is not; later
 * files are read. */
static void test_hurry(void **state)
{
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" });
	struct symbol_client *c;

	(void)state;
	if (geteuid() != 0)
		skip();
	c = open_paced(lie_silent);
	assert_null(name_in_fd(c, fd, -EIO));
	assert_told(c, 1, "/", "no time left to read it");
	assert_string_equal(name_in_fd(c, fd, 0), "function");
	assert_honest(c);
	symbol_client_close(c);

	c = open_paced(lie_slow);
	assert_string_equal(name_in_fd(c, fd, 0), "slow");
	assert_int_equal(symbol_client_unread(c), 0);
	symbol_client_close(c);
	close(fd);
}

/* The files of others have so much time together; root's own are read all the same. */
static void test_hurry_of_others(void **state)
{
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" }), more;
	struct symbol_client *c;

	(void)state;
	if (geteuid() != 0)
		skip();
	c = open_paced(lie_slow);
	assert_int_equal(fchmod(fd, 0666), 0);
	assert_null(name_in_fd(c, fd, -EIO));
	assert_told(c, 1, "/", "no time left to read it");
	assert_int_equal(n_started, 2);
	more = elf_file_fd(&(struct elf_file){ .symbol = "more" });
	assert_int_equal(fchmod(more, 0666), 0);
	assert_null(name_in_fd(c, more, -EAGAIN));
	assert_int_equal(n_started, 2); /* no helper is troubled with it */
	assert_honest(c);
	assert_int_equal(symbol_client_unread(c), 2);
	hurry = false;
	assert_string_equal(name_in_fd(c, more, 0), "more");
	assert_string_equal(name_in_fd(c, fd, 0), "function");
	symbol_client_close(c);
	close(more);
	close(fd);
}

/* ---- helpers that cannot be had ---- */

static pid_t start_none(int socket)
{
	(void)socket;
	return -EAGAIN;
}

static pid_t start_useless(int socket)
{
	static const struct wire_status useless = { WIRE_READY, -ENOTSUP, 0 };

	say(socket, &useless, sizeof(useless));
	return fork() ?: (_exit(0), 0);
}

static void test_no_helper(void **state)
{
	struct symbol_client_config config = liars;
	struct symbol_client *c = NULL;

	(void)state;
	config.start = start_none;
	assert_int_equal(symbol_client_open(&config, &c), -EAGAIN);
	config.start = start_useless;
	assert_int_equal(symbol_client_open(&config, &c), -ENOTSUP);
	assert_null(c);
	symbol_client_close(NULL);
}

/* A file that is not root's own, or of a container, has a helper of its own. */
static void test_foreign_file(void **state)
{
	struct symbol_client *c = NULL;
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "foreign" });
	struct symbol_file file = { .file = opened(fd), .path = "/" };

	(void)state;
	n_started = lies_from = lies_until = 0;
	assert_int_equal(symbol_client_open(&liars, &c), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchmod(fd, 0600), 0);
		assert_string_equal(name_in_fd(c, fd, 0), "foreign");
		assert_int_equal(n_started, 1);
	}
	file.file.is_foreign = true;
	assert_string_equal(name_in(c, &file, 0), "foreign");
	assert_int_equal(n_started, 2);
	assert_int_equal(fchmod(fd, 0666), 0);
	assert_string_equal(name_in_fd(c, fd, 0), "foreign");
	assert_int_equal(n_started, 3);
	close(fd);
	symbol_client_close(c);
}

#define IN_TREE(name) cmocka_unit_test_setup_teardown(name, make_tree, remove_it)

/* ---- tables for user stacks ---- */

#if defined(__x86_64__)
/* Code whose rules are known. */
__asm__(".pushsection .text\n"
	".globl known_begin, known_end\n"
	".type known_begin, @function\n"
	"known_begin:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n" /* 1 byte */
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset 6, -16\n"
	"	mov %rsp, %rbp\n" /* 3 */
	"	.cfi_def_cfa_register 6\n"
	"	nop\n" /* 1 */
	"	.cfi_undefined 16\n"
	"	nop\n"
	"	.cfi_restore 16\n"
	"	.cfi_escape 0x0f, 0x03, 0x73, 0x00, 0x06\n" /* the CFA: what rbx points to */
	"	nop\n"
	"	.cfi_endproc\n"
	"known_end:\n"
	"	.size known_begin, . - known_begin\n"
	"	.popsection\n");
extern const char known_begin[], known_end[];

static int find_offset(struct dl_phdr_info *info, size_t size, void *offset)
{
	uint64_t address = (uint64_t)(uintptr_t)known_begin - info->dlpi_addr;

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && address - p->p_vaddr < p->p_filesz)
			*(uint64_t *)offset = address - p->p_vaddr + p->p_offset;
	}
	return 1; /* the program is the first */
}

static struct unwind_rule rule_at(const struct unwind_table *t, uint64_t offset)
{
	size_t i = t->n_rows;

	while (i && t->rows[i - 1] >> 16 > offset)
		i--;
	assert_true(i);
	return t->rules[t->rows[i - 1] & 0xffff];
}

static void assert_rule(const struct unwind_table *t, uint64_t offset, struct unwind_rule want)
{
	struct unwind_rule rule = rule_at(t, offset);

	assert_memory_equal(&rule, &want, sizeof(rule));
}

static void test_table(void **state)
{
	struct symbol_client *c = open_client();
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const struct symbol_file file = { .file = opened(fd), .path = "/" };
	struct unwind_table t;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(symbol_client_unwind(c, &file, &t), 0);
	dl_iterate_phdr(find_offset, &at);
	assert_rule(&t, at,
		    (struct unwind_rule){ 8, -8, 0, 0, UNWIND_SP, UNWIND_SAVED, 0, 0, { 0 } });
	assert_rule(&t, at + 1,
		    (struct unwind_rule){
			16, -8, -16, 0, UNWIND_SP, UNWIND_SAVED, UNWIND_SAVED, 0, { 0 } });
	assert_rule(&t, at + 4,
		    (struct unwind_rule){
			16, -8, -16, 0, UNWIND_FP, UNWIND_SAVED, UNWIND_SAVED, 0, { 0 } });
	assert_rule(&t, at + 5, (struct unwind_rule){ .cfa = UNWIND_END });
	assert_rule(&t, at + 6, (struct unwind_rule){ .cfa = UNWIND_EXPRESSION });
	assert_true(t.n_rules < t.n_rows);
	unwind_table_free(&t);
	symbol_client_close(c);
	close(fd);
}
#else
static void test_table(void **state)
{
	(void)state;
	skip();
}
#endif

static int copy_of_this_program(char **bytes)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	*bytes = malloc((size_t)st.st_size);
	assert_int_equal(read(fd, *bytes, (size_t)st.st_size), st.st_size);
	close(fd);
	return (int)st.st_size;
}

/* Whatever is in it: a table whose rows are in order, or none; and the next file is read. */
static void test_damaged_tables(void **state)
{
	struct symbol_client *c = open_client();
	uint32_t random = 1;
	char *bytes;
	int size = copy_of_this_program(&bytes);
	size_t n_tables = 0;

	(void)state;
	for (int round = 0; round < 60; round++) {
		int fd = memfd_create("damaged", MFD_CLOEXEC);
		struct symbol_file file = { .path = "/" };
		struct unwind_table t = { 0 };

		assert_int_equal(write(fd, bytes, (size_t)size), size);
		/* In the last rounds the file ends early, too. */
		for (int i = 0; i < 4000; i++) {
			char byte;

			random = random * 1664525 + 1013904223;
			byte = (char)(random >> 24);
			assert_int_equal(
			    pwrite(fd, &byte, 1, 4096 + (off_t)(random % (uint32_t)(size - 4096))),
			    1);
		}
		if (round > 40)
			assert_int_equal(ftruncate(fd, size / 60 * round), 0);
		file.file = opened(fd);
		file.path = "/";
		if (symbol_client_unwind(c, &file, &t) == 0) {
			n_tables++;
			for (size_t i = 1; i < t.n_rows; i++)
				assert_true(t.rows[i] >> 16 > t.rows[i - 1] >> 16);
			unwind_table_free(&t);
		}
		close(fd);
	}
	assert_true(n_tables > 0);
	assert_honest(c);
	symbol_client_close(c);
	free(bytes);
}

static void lie_table(int socket, const struct unwind_rule *rule, uint64_t first, uint64_t second,
		      uint32_t n_rules)
{
	struct wire_rules rules = { .type = WIRE_RULES, .n = n_rules };
	struct wire_rows rows = { .type = WIRE_ROWS, .n = 2, .rows = { first, second } };
	const struct wire_status done = { WIRE_DONE, 0, 0 };

	rules.rules[0] = *rule;
	say(socket, &rules, offsetof(struct wire_rules, rules[1]));
	say(socket, &rows, offsetof(struct wire_rows, rows[2]));
	say(socket, &done, sizeof(done));
}

static const struct unwind_rule good_rule = { .cfa = UNWIND_SP };

static void lie_order(int socket)
{
	lie_table(socket, &good_rule, 0x2000 << 16, 0x1000 << 16, 1);
}

static void lie_rule_number(int socket)
{
	lie_table(socket, &good_rule, 0x1000 << 16 | 1, 0x2000 << 16, 1);
}

static void lie_rule(int socket)
{
	lie_table(socket, &(struct unwind_rule){ .cfa = UNWIND_CFAS }, 0x1000 << 16, 0x2000 << 16,
		  1);
}

static void lie_rule_count(int socket)
{
	lie_table(socket, &good_rule, 0x1000 << 16, 0x2000 << 16, UINT32_MAX);
}

static void lie_offset(int socket)
{
	lie_table(socket, &good_rule, 0x1000 << 16, UNWIND_MAX_OFFSET << 16, 1);
}

static void lie_no_table(int socket)
{
	const struct wire_status done = { WIRE_DONE, 0, 0 };

	say(socket, &done, sizeof(done));
}

static void test_lies_about_tables(void **state)
{
	static void (*const lies[])(int) = { lie_order,	     lie_rule_number, lie_rule,
					     lie_rule_count, lie_offset,      lie_no_table };
	int fd = elf_file_fd(&(struct elf_file){ .symbol = "function" });
	const struct symbol_file file = { .file = opened(fd), .path = "/" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct symbol_client *c = NULL;
		struct unwind_table t;

		lie = lies[i];
		n_started = lies_from = 0;
		lies_until = 1;
		assert_int_equal(symbol_client_open(&liars, &c), 0);
		print_message("lie about a table %zu\n", i);
		assert_int_equal(symbol_client_unwind(c, &file, &t), -EIO);
		assert_told(c, 1, "/", "the symbol reader sent an invalid answer");
		assert_honest(c);
		symbol_client_close(c);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_honest),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_demangler_bomb),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_scratch),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_too_many_symbols),
		cmocka_unit_test(test_cut_file),
		IN_TREE(test_debug_link),
		IN_TREE(test_debug_link_of_another),
		IN_TREE(test_debug_link_to_no_file),
		IN_TREE(test_sparse_debug_file),
		cmocka_unit_test(test_perf_maps),
		cmocka_unit_test(test_perf_map_that_grows),
		cmocka_unit_test(test_perf_map_of_another),
		IN_TREE(test_perf_map_elsewhere),
		cmocka_unit_test(test_perf_map_of_the_dead),
		cmocka_unit_test(test_helper_has_nothing),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_sandbox),
		cmocka_unit_test(test_sandbox_fcntl),
		cmocka_unit_test(test_sandbox_limits),
		cmocka_unit_test(test_hostile_helpers),
		cmocka_unit_test(test_why_not),
		cmocka_unit_test(test_many_unread),
		cmocka_unit_test(test_map_that_grows),
		cmocka_unit_test(test_failed_for_long),
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_hurry),
		cmocka_unit_test(test_hurry_of_others),
		cmocka_unit_test(test_no_helper),
		cmocka_unit_test(test_foreign_file),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_damaged_tables),
		cmocka_unit_test(test_lies_about_tables),
	};

	if (symbol_server_is(argc, argv))
		symbol_server_run();
	return cmocka_run_group_tests(tests, share_memory, NULL);
}
