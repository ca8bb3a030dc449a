// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/stuck/waits.h"

#include <linux/magic.h>
#include <string.h>

#include "core/base/array.h"

/* linux/magic.h has them since 5.18. */
#define SMB1_MAGIC 0xff534d42
#define SMB2_MAGIC 0xfe534d42

const struct wait_reason wait_io = { "I/O", .io = true };

static const struct wait_reason tag = { "free request" }, frozen = { "frozen queue" },
				draining = { "queue to drain" },
				limit = { "wbt, io.cost or io.latency" },
				journal = { "journal", .journal = true }, xfs_log = { "XFS log" },
				btrfs_transaction = { "btrfs transaction" }, btrfs = { "btrfs" },
				dirty = { "dirty page limit" }, lock = { "lock" },
				lookup = { "lookup by another thread" },
				write_back = { "write-back" }, child = { "vfork child" },
				rcu = { "RCU" }, nfs = { "NFS server" }, smb = { "SMB server" },
				fuse = { "FUSE server" };

/* The innermost function that is here tells.  What ends in '*' stands for all that begin so. */
static const struct {
	const char *function;
	const struct wait_reason *reason;
} functions[] = {
	{ "blk_mq_get_tag", &tag },
	{ "__bio_queue_enter", &frozen },
	{ "blk_queue_enter", &frozen },
	{ "blk_mq_freeze_queue_wait*", &draining },
	{ "rq_qos_wait", &limit },
	{ "wbt_wait", &limit },
	{ "ioc_rqos_throttle", &limit },
	{ "blkcg_iolatency_throttle", &limit },
	{ "blkcg_maybe_throttle_current", &limit },
	/* Servers, before the page that is waited for by their own functions. */
	{ "request_wait_answer", &fuse },
	{ "fuse_*", &fuse },
	{ "rpc_wait_bit_killable", &nfs },
	{ "nfs_*", &nfs },
	{ "nfs4_*", &nfs },
	{ "cifs_*", &smb },
	{ "wait_for_response", &smb },
	/* Journals. */
	{ "jbd2_log_wait_commit", &journal },
	{ "do_get_write_access", &journal },
	{ "wait_transaction_*", &journal },
	{ "start_this_handle", &journal },
	{ "add_transaction_credits", &journal },
	{ "jbd2_journal_lock_updates", &journal },
	{ "xlog_*", &xfs_log },
	{ "xfs_log_*", &xfs_log },
	{ "btrfs_commit_transaction*", &btrfs_transaction },
	{ "wait_current_trans*", &btrfs_transaction },
	{ "btrfs_sync_log", &btrfs_transaction },
	/* Memory and locks. */
	{ "balance_dirty_pages*", &dirty },
	{ "rwsem_down_*", &lock },
	{ "__mutex_lock*", &lock },
	{ "mutex_lock*", &lock },
	{ "down_read*", &lock },
	{ "down_write*", &lock },
	{ "down", &lock },
	{ "down_timeout", &lock },
	{ "percpu_down_write", &lock },
	{ "__percpu_down_read*", &lock },
	{ "percpu_rwsem_wait", &lock },
	{ "rt_mutex_*", &lock },
	{ "ww_mutex_lock*", &lock },
	{ "__lock_super*", &lock },
	{ "super_lock*", &lock },
	{ "d_alloc_parallel", &lookup },
	{ "wb_wait_for_completion", &write_back },
	/* Not of I/O. */
	{ "wait_for_vfork_done", &child },
	{ "synchronize_rcu*", &rcu },
	{ "synchronize_srcu*", &rcu },
	{ "__wait_rcu_gp*", &rcu },
	/* I/O. */
	{ "submit_bio_wait", &wait_io },
	{ "blk_execute_rq*", &wait_io },
	{ "blk_wait_io", &wait_io },
	{ "__iomap_dio_rw", &wait_io },
	{ "iomap_dio_*", &wait_io },
	{ "dio_await_*", &wait_io },
	{ "do_blockdev_direct_IO", &wait_io },
	{ "__blockdev_direct_IO", &wait_io },
	{ "blkdev_direct_IO", &wait_io },
	{ "__blkdev_direct_IO*", &wait_io },
	{ "folio_wait_*", &wait_io },
	{ "__folio_lock*", &wait_io },
	{ "wait_on_page_*", &wait_io },
	{ "__wait_on_buffer", &wait_io },
	{ "__lock_page*", &wait_io },
	{ "filemap_*", &wait_io },
	{ "wait_on_page_bit*", &wait_io },
	{ "jbd2_journal_commit_transaction", &wait_io },
	/* It waits for many requests, through extents and trees of its own: not for the one whose
	 * address its stack may still have. */
	{ "read_extent_buffer_pages*", &wait_io },
	{ "btrfs_*", &btrfs },
};

static bool is_function(const char *pattern, const char *name)
{
	const size_t len = strcspn(pattern, "*");

	return strncmp(pattern, name, len) == 0 && (pattern[len] == '*' || !name[len]);
}

const struct wait_reason *waits_reason(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t f = 0; names[i] && f < ARRAY_SIZE(functions); f++)
			if (is_function(functions[f].function, names[i]))
				return functions[f].reason;
	return NULL;
}

const char *waits_server(uint64_t magic)
{
	switch (magic) {
	case NFS_SUPER_MAGIC:
		return nfs.what;
	case FUSE_SUPER_MAGIC:
		return fuse.what;
	case SMB1_MAGIC:
	case SMB2_MAGIC:
		return smb.what;
	}
	return NULL;
}
