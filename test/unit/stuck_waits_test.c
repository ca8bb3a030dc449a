// SPDX-License-Identifier: GPL-2.0-or-later
/* What a thread waits for, by the functions of its stack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/stuck/waits.h"
#include "core/base/array.h"

#define STACK(...)                                                                                 \
	(const char *const[]){ __VA_ARGS__ }, ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ }))

static const char *what(const char *const *names, size_t n)
{
	const struct wait_reason *reason = waits_reason(names, n);

	return reason ? reason->what : "";
}

/* The function by which a thread went to sleep is the innermost: a lock held in code of I/O is a
 * lock. */
static void test_innermost(void **state)
{
	(void)state;
	assert_string_equal(what(STACK("down_write", "ext4_buffered_write_iter")), "lock");
	assert_string_equal(what(STACK("rwbase_write_lock", "down_write", "x")), "lock");
	assert_string_equal(what(STACK("down_read", "filemap_fault", "handle_mm_fault")), "lock");
	assert_string_equal(what(STACK("io_schedule", "folio_wait_bit_common", "filemap_read")),
			    "I/O");
	assert_string_equal(what(STACK("schedule", "jbd2_log_wait_commit", "ext4_sync_file")),
			    "journal");
	assert_string_equal(what(STACK("schedule", "some_driver")), "");
}

/* What else btrfs waits for is not the request whose address may be left on the stack. */
static void test_stale_requests(void **state)
{
	(void)state;
	assert_false(waits_reason(STACK("schedule", "btrfs_start_ordered_extent_nowriteback"))->io);
	assert_false(waits_reason(STACK("schedule", "btrfs_commit_transaction"))->io);
	assert_false(waits_reason(STACK("io_schedule", "blk_mq_get_tag"))->io);
	assert_false(waits_reason(STACK("down_read", "btrfs_tree_read_lock_nested"))->io);
	assert_true(waits_reason(STACK("bit_wait_io", "read_extent_buffer_pages"))->io);
	assert_true(waits_reason(STACK("io_schedule", "__iomap_dio_rw", "btrfs_direct_read"))->io);
}

static void test_servers(void **state)
{
	(void)state;
	assert_string_equal(waits_server(0x6969), "NFS server");
	assert_string_equal(waits_server(0x65735546), "FUSE server");
	assert_string_equal(waits_server(0xfe534d42), "SMB server");
	assert_null(waits_server(0xef53));
	assert_null(waits_server(0));
	assert_string_equal(what(STACK("schedule", "rpc_wait_bit_killable")), "NFS server");
	assert_string_equal(what(STACK("schedule", "request_wait_answer", "fuse_flush")),
			    "FUSE server");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_innermost),
		cmocka_unit_test(test_stale_requests),
		cmocka_unit_test(test_servers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
