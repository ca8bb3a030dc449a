// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/bpf/kernel_types.h"
#include "core/bpf/kernel_types_internal.h"
#include "probes/breakdown_blk.skel.h"
#include "probes/top.skel.h"

/* libbpf's own reading of the same file is the witness. */
static struct kernel_types *types;
static struct btf *witness;

static int setup(void **state)
{
	struct error err;

	(void)state;
	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return 0;
	witness = btf__load_vmlinux_btf();
	return witness && !kernel_types_open(NULL, &types, &err) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	kernel_types_free(types);
	btf__free(witness);
	return 0;
}

static void need_btf(void)
{
	if (!types)
		skip();
}

static void test_same_types(void **state)
{
	(void)state;
	need_btf();
	assert_int_equal(types->n, btf__type_cnt(witness));
	for (uint32_t id = 1; id < types->n; id++) {
		const struct btf_type *t = btf__type_by_id(witness, id);

		assert_memory_equal(kernel_type(types, id), t, sizeof(*t));
		assert_string_equal(kernel_string(types, t->name_off),
				    btf__name_by_offset(witness, t->name_off));
	}
	assert_null(kernel_type(types, 0));
	assert_null(kernel_type(types, types->n));
}

static void test_every_tracepoint(void **state)
{
	size_t seen = 0;

	(void)state;
	need_btf();
	for (uint32_t id = 1; id < btf__type_cnt(witness); id++) {
		const struct btf_type *t = btf__type_by_id(witness, id);
		const char *name = btf__name_by_offset(witness, t->name_off);

		if (!btf_is_typedef(t) || strncmp(name, "btf_trace_", 10) != 0)
			continue;
		/* What libbpf would attach to. */
		assert_int_equal(kernel_types_tracepoint(types, name + 10),
				 btf__find_by_name_kind(witness, name, BTF_KIND_TYPEDEF));
		t = btf__type_by_id(witness, btf__type_by_id(witness, t->type)->type);
		assert_int_equal(kernel_types_tracepoint_args(types, name + 10), btf_vlen(t) - 1);
		seen++;
	}
	assert_true(seen > 100);
	assert_int_equal(kernel_types_tracepoint(types, "no_such_tracepoint"), -ENOENT);
	assert_int_equal(kernel_types_tracepoint_args(types, "no_such_tracepoint"), -ENOENT);
	assert_int_equal(kernel_types_tracepoint_args(types, ""), -ENOENT);
}

static void test_functions(void **state)
{
	(void)state;
	need_btf();
	assert_int_equal(kernel_types_function(types, "vfs_read"),
			 btf__find_by_name_kind(witness, "vfs_read", BTF_KIND_FUNC));
	assert_int_equal(kernel_types_function(types, "no_such_function"), -ENOENT);
}

static void test_enumerators(void **state)
{
	static const char *const names[] = { "BPF_MAP_TYPE_HASH", "BPF_PROG_TYPE_KPROBE",
					     "BPF_NO_SUCH_THING", "PIDTYPE_TGID" };
	int values[] = { -1, -1, 77, -1 };

	(void)state;
	need_btf();
	kernel_types_enumerators(types, names, values, 4);
	assert_int_equal(values[0], BPF_MAP_TYPE_HASH);
	assert_int_equal(values[1], BPF_PROG_TYPE_KPROBE);
	assert_int_equal(values[2], 77);
	assert_int_equal(values[3], 1);
}

/* Offset in bits of member @name of the struct, also inside anonymous members; -1 if it has no such
 * member. */
static long member_offset(const struct btf *btf, uint32_t id, const char *name)
{
	const struct btf_type *t = btf__type_by_id(btf, id);
	const struct btf_member *m;

	while (btf_is_mod(t) || btf_is_typedef(t))
		t = btf__type_by_id(btf, t->type);
	if (!btf_is_composite(t))
		return -1;
	m = btf_members(t);
	for (int i = 0; i < btf_vlen(t); i++, m++) {
		const char *own = btf__name_by_offset(btf, m->name_off);
		long inner = *own ? -1 : member_offset(btf, m->type, name);

		if (strcmp(own, name) == 0)
			return btf_member_bit_offset(t, (uint32_t)i);
		if (inner >= 0)
			return btf_member_bit_offset(t, (uint32_t)i) + inner;
	}
	return -1;
}

/* Every kernel struct that the program names has the same members at the same
 * places in the cut as in the whole. */
static size_t compare_cut(const struct btf *cut, const struct btf *local)
{
	size_t compared = 0;

	for (uint32_t id = 1; id < btf__type_cnt(local); id++) {
		const struct btf_type *t = btf__type_by_id(local, id);
		const char *name = btf__name_by_offset(local, t->name_off);
		const struct btf_member *m;
		int in_cut, in_whole;

		if (!btf_is_struct(t) || !*name)
			continue;
		in_whole = btf__find_by_name_kind(witness, name, BTF_KIND_STRUCT);
		in_cut = btf__find_by_name_kind(cut, name, BTF_KIND_STRUCT);
		assert_int_equal(in_whole < 0, in_cut < 0);
		if (in_whole < 0)
			continue; /* our own, or another kernel's */
		assert_int_equal(btf__resolve_size(cut, (uint32_t)in_cut),
				 btf__resolve_size(witness, (uint32_t)in_whole));
		m = btf_members(t);
		for (int i = 0; i < btf_vlen(t); i++, m++) {
			const char *member = btf__name_by_offset(local, m->name_off);

			assert_int_equal(member_offset(cut, (uint32_t)in_cut, member),
					 member_offset(witness, (uint32_t)in_whole, member));
			compared++;
		}
	}
	return compared;
}

static void check_cut(const void *elf, size_t size, struct bpf_object *obj)
{
	int fd = kernel_types_subset(types, elf, size);
	struct btf *cut;
	char path[64];

	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cut = btf__parse(path, NULL);
	assert_non_null(cut);
	assert_true(btf__type_cnt(cut) < 2000);
	assert_true(compare_cut(cut, bpf_object__btf(obj)) > 20);
	btf__free(cut);
	close(fd);
}

static void test_cut(void **state)
{
	struct top_bpf *top = top_bpf__open();
	struct breakdown_blk_bpf *breakdown = breakdown_blk_bpf__open();
	const void *elf;
	size_t size;

	(void)state;
	need_btf();
	assert_non_null(top);
	assert_non_null(breakdown);
	elf = top_bpf__elf_bytes(&size);
	check_cut(elf, size, top->obj);
	elf = breakdown_blk_bpf__elf_bytes(&size);
	check_cut(elf, size, breakdown->obj);
	top_bpf__destroy(top);
	breakdown_blk_bpf__destroy(breakdown);
}

static void test_cut_of_no_object(void **state)
{
	(void)state;
	need_btf();
	assert_int_equal(kernel_types_subset(types, "not an ELF object", 17), -EINVAL);
}

/* ---- damaged files ---- */

static int keep_bytes(const void *bytes, size_t size, struct kernel_types **k, struct error *err)
{
	char path[] = "/tmp/kernel-types-XXXXXX";
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
	close(fd);
	r = kernel_types_open(path, k, err);
	unlink(path);
	return r;
}

static int open_bytes(const void *bytes, size_t size, struct error *err)
{
	struct kernel_types *k = NULL;
	int r = keep_bytes(bytes, size, &k, err);

	if (!r)
		kernel_types_free(k);
	return r;
}

static void test_damaged(void **state)
{
	struct {
		struct btf_header header;
		struct btf_type type;
		char strings[8];
	} good = {
		.header = { .magic = BTF_MAGIC,
			    .version = 1,
			    .hdr_len = sizeof(struct btf_header),
			    .type_len = sizeof(struct btf_type),
			    .str_off = sizeof(struct btf_type),
			    .str_len = 8 },
		.type = { .info = BTF_KIND_PTR << 24 },
	}, bad;
	struct error err;

	(void)state;
	assert_int_equal(open_bytes(&good, sizeof(good), &err), 0);
	assert_int_equal(open_bytes(&good, 10, &err), -EINVAL);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	bad = good;
	bad.header.magic = 0;
	assert_int_equal(open_bytes(&bad, sizeof(bad), &err), -EINVAL);
	bad = good;
	bad.header.type_len = 0xffffffff;
	assert_int_equal(open_bytes(&bad, sizeof(bad), &err), -EINVAL);
	bad = good;
	bad.header.str_len = 9;
	assert_int_equal(open_bytes(&bad, sizeof(bad), &err), -EINVAL);
	bad = good;
	bad.type.info = 31U << 24; /* a kind that there is not */
	assert_int_equal(open_bytes(&bad, sizeof(bad), &err), -ENOTSUP);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_string_equal(err.hint, "kind 31; a newer iotrace may know it");
	bad.type.info = 0;
	assert_int_equal(open_bytes(&bad, sizeof(bad), &err), -ENOTSUP);
	bad = good;
	bad.type.info = BTF_KIND_STRUCT << 24 | 5; /* members behind the end */
	assert_int_equal(open_bytes(&bad, sizeof(bad), &err), -EINVAL);
	bad = good;
	bad.strings[7] = 'x'; /* a string without an end */
	assert_int_equal(open_bytes(&bad, sizeof(bad), &err), -EINVAL);
}

/* ---- kinds of types that are not known ---- */

#define STRINGS "\0request\0__data_len\0bio"
#define REQUEST 1
#define LENGTH	9
#define BIO	20
#define NEW	100 /* a kind that there may be once, with 8 bytes and 4 for each of its parts */

/* A type of a new kind, a structure that has a member of it, and one of many members. */
struct newer {
	struct btf_header header;
	uint32_t layout_off, layout_len;
	struct btf_type new;
	uint32_t new_extra[2 + 3];
	struct btf_type request;
	struct btf_member length;
	struct btf_type bio;
	struct btf_member members[70000];
	char strings[sizeof(STRINGS) + 3]; /* to a multiple of 4 */
	struct {
		uint8_t fixed, each;
		uint16_t flags;
	} layout[NEW + 1];
};

static struct newer newer;

static void make_newer(void)
{
	newer = (struct newer){
		.header = { .magic = BTF_MAGIC,
			    .version = 1,
			    .hdr_len = offsetof(struct newer, new),
			    .type_len =
				offsetof(struct newer, strings) - offsetof(struct newer, new),
			    .str_off =
				offsetof(struct newer, strings) - offsetof(struct newer, new),
			    .str_len = sizeof(newer.strings) },
		.layout_off = offsetof(struct newer, layout) - offsetof(struct newer, new),
		.layout_len = sizeof(newer.layout),
		.new = { .info = NEW << 24 | 3 },
		.request = { .name_off = REQUEST, .info = BTF_KIND_STRUCT << 24 | 1, .size = 8 },
		.length = { .name_off = LENGTH, .type = 1 },
		.bio = { .name_off = BIO, .info = BTF_KIND_STRUCT << 24 | 70000, .size = 8 },
		.strings = STRINGS,
		.layout[NEW] = { 8, 4, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(newer.members); i++)
		newer.members[i] = (struct btf_member){ .name_off = REQUEST, .type = 1 };
	newer.members[69999] = newer.length;
	_Static_assert(offsetof(struct newer, layout) % 4 == 0, "aligned");
}

static void test_new_kind(void **state)
{
	struct kernel_types *k = NULL;
	struct btf *cut;
	const void *elf;
	char path[64];
	size_t size;
	int fd;

	(void)state;
	make_newer();
	assert_int_equal(keep_bytes(&newer, sizeof(newer), &k, NULL), 0);
	assert_int_equal(k->n, 4);
	assert_true(kernel_types_has_member(k, "request", "__data_len"));
	assert_true(kernel_types_has_member(k, "bio", "__data_len"));
	elf = top_bpf__elf_bytes(&size);
	fd = kernel_types_subset(k, elf, size);
	assert_true(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cut = btf__parse(path, NULL);
	assert_non_null(cut);
	assert_true(btf__find_by_name_kind(cut, "request", BTF_KIND_STRUCT) > 0);
	assert_int_equal(btf__type_cnt(cut), 3);
	btf__free(cut);
	close(fd);
	kernel_types_free(k);
}

static void test_bad_layout(void **state)
{
	struct error err;

	(void)state;
	make_newer();
	newer.layout[NEW].each = 3;
	assert_int_equal(open_bytes(&newer, sizeof(newer), &err), -ENOTSUP);
	make_newer();
	newer.layout_len = 4 * NEW; /* up to the kind before */
	assert_int_equal(open_bytes(&newer, sizeof(newer), &err), -ENOTSUP);
	make_newer();
	newer.layout_len += 4;
	assert_int_equal(open_bytes(&newer, sizeof(newer), &err), -EINVAL);
	make_newer();
	newer.layout_off += 2;
	assert_int_equal(open_bytes(&newer, sizeof(newer), &err), -EINVAL);
	make_newer();
	newer.header.hdr_len = sizeof(newer.header); /* an older header: no layout */
	newer.header.type_off += 8;
	newer.header.str_off += 8;
	assert_int_equal(open_bytes(&newer, sizeof(newer), &err), -ENOTSUP);
}

/* The engine reads all kinds of types that libbpf, which loads the programs, can read. */
static void test_kinds_of_libbpf(void **state)
{
	struct {
		struct btf_header header;
		struct btf_type type;
		uint32_t extra[3];
		char strings[4];
	} one = {
		.header = { .magic = BTF_MAGIC,
			    .version = 1,
			    .hdr_len = sizeof(struct btf_header),
			    .str_len = 4 },
	};
	size_t known = 0;
	struct error err;

	(void)state;
	for (uint32_t kind = 1; kind < TYPE_KINDS; kind++)
		for (uint32_t extra = 0; extra <= sizeof(one.extra); extra += 4) {
			struct btf *btf;
			int r;

			if (BTF_INFO_KIND(kind << 24) != kind)
				continue; /* more than its header has room for */
			one.type.info = kind << 24;
			one.header.type_len = sizeof(one.type) + extra;
			one.header.str_off = sizeof(one.type) + sizeof(one.extra);
			btf = btf__new(&one, sizeof(one));
			r = open_bytes(&one, sizeof(one), &err);
			if (btf && btf__type_cnt(btf) == 2) {
				assert_int_equal(r, 0);
				known++;
			}
			btf__free(btf);
		}
	assert_true(known >= 19);
}

static void test_missing(void **state)
{
	struct kernel_types *k = NULL;
	struct error err;

	(void)state;
	assert_int_equal(kernel_types_open("/no/such/file", &k, &err), -ENOENT);
	assert_null(k);
	assert_int_equal(err.status, STATUS_UNSUPPORTED);
	assert_non_null(strstr(err.what, "/no/such/file"));
}

static void test_members(void **state)
{
	static const char *const members[] = { "i_mode", "i_sb", "i_data" };
	int inode;

	(void)state;
	need_btf();
	inode = btf__find_by_name_kind(witness, "inode", BTF_KIND_STRUCT);
	assert_true(kernel_types_has_member(types, "request", "__data_len"));
	assert_false(kernel_types_has_member(types, "request", "no_such_member"));
	assert_false(kernel_types_has_member(types, "bio", "__data_len"));
	assert_false(kernel_types_has_member(types, "no_such_type", "__data_len"));
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		assert_int_equal(
		    8 * kernel_types_offset(types, "no_such_module", "inode", members[i]),
		    member_offset(witness, (uint32_t)inode, members[i]));
	assert_int_equal(kernel_types_offset(types, NULL, "inode", "no_such_member"), -ENOENT);
	assert_int_equal(kernel_types_offset(types, "no_such_module", "no_such_type", "x"),
			 -ENOENT);
}

/* A module's types stand in a file of their own, and take names from the kernel's. */
static void test_module(void **state)
{
	char path[] = "/tmp/iotrace-module-XXXXXX";
	struct btf *module;
	const void *bytes;
	uint32_t size;
	int fd, proto, known, own;

	(void)state;
	need_btf();
	module = btf__new_empty_split(witness);
	proto = btf__add_func_proto(module, 0);
	known = btf__add_func(module, "vfs_read", BTF_FUNC_STATIC, proto);
	own = btf__add_func(module, "module_function", BTF_FUNC_STATIC, proto);
	assert_true(own > known && known > proto && proto > 0);
	bytes = btf__raw_data(module, &size);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
	assert_int_equal(kernel_types_module_function(types, path, "vfs_read"), known);
	assert_int_equal(kernel_types_module_function(types, path, "module_function"), own);
	assert_int_equal(kernel_types_module_function(types, path, "vfs_write"), -ENOENT);
	assert_int_equal(kernel_types_module_function(types, "/no/such/file", "x"), -ENOENT);
	unlink(path);
	btf__free(module);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_types),
		cmocka_unit_test(test_every_tracepoint),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_enumerators),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_cut_of_no_object),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_module),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_new_kind),
		cmocka_unit_test(test_bad_layout),
		cmocka_unit_test(test_kinds_of_libbpf),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
