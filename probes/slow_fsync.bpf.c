// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * iotrace slow --fsync: what calls of fsync and fdatasync wait for, and what the commits of ext4's
 * journal do meanwhile.  User space puts the two together (cmd/slow/fsync_parts.h).
 *
 * Everything is seen in the context of the thread that does it: the caller, or jbd2's thread.  No
 * field of a journal is read, because 5.10 has no BTF of modules: jbd2_run_stats names the file
 * system and the transaction of the commit that its thread has just done, before any fsync that
 * waits for it may go on.
 */
#include "probes/kernel.h"
#include "probes/slow_fsync.h"

#include "probes/arch.h"
#include "probes/bio_file.bpf.h"
#include "probes/process_entry.bpf.h"
#include "probes/call_files.bpf.h"

const volatile __u64 min_ns = 0;
const volatile __u32 records_bytes = 0;
const volatile __u8 syscall_ops[SYSCALL_NUMBERS] = {}; /* 1 + enum call_syscall; others 0 */

/* Members of struct ext4_inode_info, in bytes: ext4 may be a module.  The inode is not its first
 * member: 0 means "unknown". */
const volatile __u32 ext4_inode = 0, ext4_sync_tid = 0, ext4_datasync_tid = 0, ext4_flags = 0;
const volatile __u32 ext4_mount_opt = 0; /* of struct ext4_sb_info */

__u64 fsync_losses[FSYNC_LOSSES] = {};

/* Threads that wait for a page now, and commits that wait for handles: while both are 0,
 * the programs at frequent events do nothing. */
__u64 page_waits = 0, lockings = 0;

/* A thread that is in a call, or jbd2's in a commit. */
struct fsync_thread {
	u64 page;   /* that it waits for; 0: none */
	u64 waited; /* the inode of the last page that a commit waited for */
	u64 inode;  /* of the call: the one with the pages, which a block device has apart */
	u64 named, file, fd;
	union {
		struct fsync_head head;
		struct fsync_call call;
		struct fsync_commit commit;
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64); /* struct task_struct * */
	__type(value, struct fsync_thread);
} threads SEC(".maps");

struct holder_key {
	u32 dev, transaction;
};

struct holder {
	u64 ns;
	u32 pid, pad;
	char comm[16];
};

/* Of each transaction the last handle that has ended. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct holder_key);
	__type(value, struct holder);
} holders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

/* ---- records ---- */

static __always_inline void submit(void *record)
{
	u64 used = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(record,
			   used >= records_bytes / 8 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/* NULL: no room, which is counted. */
#define RESERVE(record)                                                                            \
	({                                                                                         \
		record = bpf_ringbuf_reserve(&records, sizeof(*(record)), 0);                      \
		if (!(record))                                                                     \
			count_loss(&fsync_losses[FSYNC_LOSS_RECORDS], 1);                          \
		record;                                                                            \
	})

/* @dentry NULL: it has no name. */
static __noinline int describe(struct fsync_path *to, struct dentry *dentry)
{
	to->kind = dentry ? FILE_NAMED : FILE_UNNAMED;
	to->path_flags = 0;
	to->path_bytes = dentry ? read_path(to->path, dentry, &to->path_flags) : 0;
	return RUN_DONE;
}

static __noinline int write_file(struct inode *inode, u64 now)
{
	struct fsync_file_record *r;

	if (!RESERVE(r))
		return RUN_DONE;
	r->head.type = FSYNC_FILE;
	r->head.epoch = epoch;
	r->head.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	r->head.pad = 0;
	r->begin_ns = now;
	r->path.inode = BPF_CORE_READ(inode, i_ino);
	r->path.magic = BPF_CORE_READ(inode, i_sb, s_magic);
	r->path.pad = 0;
	describe(&r->path, alias_of(inode));
	submit(r);
	return RUN_DONE;
}

/* ---- threads ---- */

static __always_inline struct fsync_thread *thread_of(u64 task)
{
	return bpf_map_lookup_elem(&threads, &task);
}

/* The current thread, if it is in a call (@type) or in a commit. */
static __always_inline struct fsync_thread *this_thread(u32 type)
{
	struct fsync_thread *t = thread_of(bpf_get_current_task());

	return t && t->head.type == type ? t : NULL;
}

static __always_inline bool in_fast_commit(const struct fsync_thread *t)
{
	return t->call.fast_ns && !t->call.fast_end_ns;
}

static __always_inline u32 read_u32(u64 at)
{
	u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)at);
	return value;
}

/* Own data has been written back: write-back itself may have put metadata into a transaction, which
 * ext4 then waits for. */
static __always_inline void end_data(struct fsync_call *call, u64 inode, u64 now)
{
	call->data_ns = now;
	if (!ext4_inode || !call->sync_ns)
		return;
	call->waits = FSYNC_WAITS_FOR;
	call->transaction =
	    read_u32(inode - ext4_inode + (call->datasync ? ext4_datasync_tid : ext4_sync_tid));
}

/* It waits for no page any more. */
static __always_inline void end_wait(struct fsync_thread *t, u64 now)
{
	if (!t->page)
		return;
	t->page = 0;
	__sync_fetch_and_add(&page_waits, -1);
	if (t->head.type == FSYNC_COMMIT)
		t->commit.waited_ns = now;
	else if (in_fast_commit(t))
		t->call.fast_waited_ns = now;
	else
		end_data(&t->call, t->inode, now);
}

/* The thread begins to wait for @page, which is written back. */
static __always_inline void on_page_wait(u64 page, struct address_space *mapping)
{
	struct fsync_thread *t = thread_of(bpf_get_current_task());
	u64 now = bpf_ktime_get_ns(), inode;

	if (!t)
		return;
	end_wait(t, now);
	inode = (u64)BPF_CORE_READ(mapping, host);
	if (t->head.type == FSYNC_COMMIT) {
		if (!t->commit.logging_ns || t->commit.flush_ns)
			return;
		if (!t->commit.wait_ns)
			t->commit.wait_ns = now;
	} else if (in_fast_commit(t)) {
		if (!t->call.fast_wait_ns)
			t->call.fast_wait_ns = now;
	} else if (inode != t->inode) {
		return;
	}
	if (inode != t->waited && (t->head.type == FSYNC_COMMIT || t->call.fast_ns)) {
		t->waited = inode;
		write_file((struct inode *)inode, now);
	}
	t->page = page;
	__sync_fetch_and_add(&page_waits, 1);
}

/* Has the page been written that @task waits for?  Then the wait has ended: now, when the task gets
 * a CPU; or, if the page was written before it could sleep, before now, when it sleeps for another
 * reason. */
static __always_inline void look_at_page(u64 task, u64 now)
{
	struct fsync_thread *t = thread_of(task);
	u64 flags = 0;

	if (!t || !t->page)
		return;
	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)t->page);
	if (!PAGE_IS(flags, writeback))
		end_wait(t, now);
}

/* sched_switch(preempt, from, to), and the state of the first since 5.18.  With interrupts off: no
 * other program comes between. */
SEC("raw_tp/sched_switch")
int fsync_switch(u64 *ctx)
{
	u64 now;

	if (!page_waits || stopped)
		return 0;
	now = bpf_ktime_get_ns();
	look_at_page(ctx[1], now);
	look_at_page(ctx[2], now);
	return 0;
}

/* ---- calls ---- */

/* @pages: the inode with the pages. */
static __always_inline void read_fs(struct fsync_call *call, struct inode *inode,
				    struct inode *pages)
{
	struct super_block *sb = BPF_CORE_READ(inode, i_sb);

	call->head.dev = BPF_CORE_READ(sb, s_dev);
	call->magic = BPF_CORE_READ(sb, s_magic);
	call->inode = BPF_CORE_READ(inode, i_ino);
	call->disk = inode_disk(inode);
	bpf_probe_read_kernel_str(call->fs, sizeof(call->fs),
				  BPF_CORE_READ(pages, i_sb, s_type, name));
}

static __always_inline void on_enter(u64 regs, u64 number)
{
	u64 task = bpf_get_current_task(), fd;
	struct fsync_thread t = {};
	struct inode *inode, *pages;
	struct file *file;
	u32 op, mode;

	if (number >= SYSCALL_NUMBERS)
		return;
	op = syscall_ops[number & (SYSCALL_NUMBERS - 1)];
	if (!op || is_compat_task(regs) || !current_process_wanted())
		return;
	fd = first_syscall_arg((void *)regs);
	file = file_of_fd(fd);
	if (!file)
		return;
	inode = real_inode(file);
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if ((mode != S_IFREG && mode != S_IFBLK && mode != S_IFDIR) || !is_on_wanted_disk(inode))
		return;
	pages = mode == S_IFBLK ? BPF_CORE_READ(file, f_mapping, host) : inode;
	t.inode = (u64)pages;
	t.named = (u64)inode;
	t.file = (u64)file;
	t.fd = fd;
	t.call.head.type = FSYNC_CALL;
	t.call.datasync = op - 1 == SYSCALL_FDATASYNC;
	read_fs(&t.call, inode, pages);
	t.call.enter_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&threads, &task, &t, BPF_ANY))
		count_loss(&fsync_losses[FSYNC_LOSS_THREADS], 1);
}

/* The name of the file, if the descriptor still leads to it. */
static __always_inline struct dentry *dentry_of(const struct fsync_thread *t)
{
	struct file *file = file_of_fd(t->fd);

	if ((u64)file != t->file || (u64)real_inode(file) != t->named)
		return NULL;
	if ((u64)BPF_CORE_READ(file, f_inode) == t->named)
		return BPF_CORE_READ(file, f_path.dentry);
	return alias_of((struct inode *)t->named); /* of an overlay: the file below it */
}

static __always_inline void write_call(struct fsync_thread *t)
{
	struct task_struct *task = (void *)bpf_get_current_task(), *leader;
	struct fsync_call_record *r;

	if (!RESERVE(r))
		return;
	leader = BPF_CORE_READ(task, group_leader);
	bpf_core_read(t->call.comm, sizeof(t->call.comm), &leader->comm);
	t->call.pid = bpf_get_current_pid_tgid() >> 32;
	t->call.cgroup = io_cgroup_id(NULL);
	t->call.head.epoch = epoch;
	__builtin_memcpy(&r->call, &t->call, sizeof(r->call));
	r->path.inode = t->call.inode;
	r->path.magic = t->call.magic;
	r->path.pad = 0;
	describe(&r->path, dentry_of(t));
	submit(r);
}

static __always_inline void on_exit(s64 result)
{
	u64 task = bpf_get_current_task(), now;
	struct fsync_thread *t = this_thread(FSYNC_CALL);

	if (!t)
		return;
	now = bpf_ktime_get_ns();
	end_wait(t, now);
	t->call.exit_ns = now;
	t->call.error = result < 0 ? -result : 0;
	if (begin_ns && t->call.enter_ns >= begin_ns && now - t->call.enter_ns >= min_ns)
		write_call(t);
	bpf_map_delete_elem(&threads, &task);
}

/* ---- ext4, XFS ---- */

/* The same in all kernels. */
#define EXT4_MOUNT_DATA_FLAGS	0xc00
#define EXT4_MOUNT_JOURNAL_DATA 0x400
#define EXT4_JOURNAL_DATA_FL	0x4000

static __always_inline void on_file_sync(struct file *file)
{
	struct fsync_thread *t = this_thread(FSYNC_CALL);
	struct inode *inode;
	u64 info;

	if (!t)
		return;
	inode = BPF_CORE_READ(file, f_inode);
	if ((u64)inode != t->inode)
		return;
	t->call.sync_ns = bpf_ktime_get_ns();
	end_data(&t->call, t->inode, t->call.sync_ns);
	if (!ext4_inode)
		return;
	info = (u64)BPF_CORE_READ(inode, i_sb, s_fs_info);
	t->call.journals_data =
	    (read_u32(info + ext4_mount_opt) & EXT4_MOUNT_DATA_FLAGS) == EXT4_MOUNT_JOURNAL_DATA ||
	    read_u32(t->inode - ext4_inode + ext4_flags) & EXT4_JOURNAL_DATA_FL;
}

static __always_inline void on_written(u64 inode)
{
	struct fsync_thread *t = this_thread(FSYNC_CALL);

	if (!t || inode != t->inode || in_fast_commit(t))
		return;
	end_wait(t, bpf_ktime_get_ns());
	end_data(&t->call, t->inode, bpf_ktime_get_ns());
}

static __always_inline void on_fast_commit(bool end)
{
	struct fsync_thread *t = this_thread(FSYNC_CALL);
	u64 now = bpf_ktime_get_ns();

	if (!t)
		return;
	end_wait(t, now);
	if (end)
		t->call.fast_end_ns = now;
	else if (!t->call.fast_ns)
		t->call.fast_ns = now;
}

/* The last one counts: it is what the call was for. */
static __always_inline void on_log_force(void)
{
	struct fsync_thread *t = this_thread(FSYNC_CALL);

	if (!t)
		return;
	t->call.force_ns = bpf_ktime_get_ns();
	end_wait(t, t->call.force_ns);
}

/* A bio with a flush, or of a commit the record that is written after a flush. */
static __always_inline void on_bio(struct bio *bio, const bool direct)
{
	struct fsync_thread *t = thread_of(bpf_get_current_task());
	u64 now;

	if (!t || !(KREAD(direct, bio, bi_opf) &
		    1u << bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH)))
		return;
	now = bpf_ktime_get_ns();
	end_wait(t, now);
	if (t->head.type == FSYNC_COMMIT) {
		if (t->commit.logging_ns && !t->commit.flush_ns)
			t->commit.flush_ns = now;
	} else if (!t->call.flush_ns || t->call.flush_ns < t->call.data_ns) {
		t->call.flush_ns = now; /* the first after its own data */
		if (t->inode != t->named)
			t->call.data_ns = now; /* fsync of a block device is this and no more */
	}
}

/* ---- the journal ---- */

static __always_inline void on_commit(void)
{
	u64 task = bpf_get_current_task();
	struct fsync_thread t = {};

	t.commit.head.type = FSYNC_COMMIT;
	t.commit.start_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&threads, &task, &t, BPF_ANY))
		count_loss(&fsync_losses[FSYNC_LOSS_THREADS], 1);
}

static __always_inline void on_locking(void)
{
	struct fsync_thread *t = this_thread(FSYNC_COMMIT);

	if (!t || t->commit.locking_ns)
		return;
	t->commit.locking_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&lockings, 1);
}

static __always_inline void on_flushing(void)
{
	struct fsync_thread *t = this_thread(FSYNC_COMMIT);

	if (!t || !t->commit.locking_ns)
		return;
	t->commit.flushing_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&lockings, -1);
}

static __always_inline void on_logging(void)
{
	struct fsync_thread *t = this_thread(FSYNC_COMMIT);

	if (t)
		t->commit.logging_ns = bpf_ktime_get_ns();
}

/* The data of @inode is submitted: by a commit, or by a fast commit. */
static __always_inline void on_commit_file(struct inode *inode)
{
	struct fsync_thread *t = thread_of(bpf_get_current_task());

	if (t && (t->head.type == FSYNC_COMMIT || in_fast_commit(t)))
		write_file(inode, bpf_ktime_get_ns());
}

/* A handle of the current process has ended. */
static __always_inline void on_handle_end(u32 dev, u32 transaction)
{
	struct holder_key key = { dev, transaction };
	struct task_struct *task, *leader;
	struct holder holder = {};

	if (!lockings)
		return;
	task = (void *)bpf_get_current_task();
	leader = BPF_CORE_READ(task, group_leader);
	holder.ns = bpf_ktime_get_ns();
	holder.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_core_read(holder.comm, sizeof(holder.comm), &leader->comm);
	bpf_map_update_elem(&holders, &key, &holder, BPF_ANY);
}

static __always_inline void on_commit_end(u32 dev, u32 transaction)
{
	struct holder_key key = { dev, transaction };
	struct fsync_thread *t = this_thread(FSYNC_COMMIT);
	u64 task = bpf_get_current_task(), now = bpf_ktime_get_ns();
	struct holder *holder;
	struct fsync_commit *r;

	if (t)
		end_wait(t, now);
	holder = bpf_map_lookup_elem(&holders, &key);
	if (RESERVE(r)) {
		if (t)
			__builtin_memcpy(r, &t->commit, sizeof(*r));
		else
			__builtin_memset(r, 0, sizeof(*r));
		r->head.type = FSYNC_COMMIT;
		r->head.epoch = epoch;
		r->head.dev = dev;
		r->transaction = transaction;
		r->end_ns = now;
		if (holder) {
			r->holder_ns = holder->ns;
			r->holder = holder->pid;
			__builtin_memcpy(r->holder_comm, holder->comm, sizeof(r->holder_comm));
		}
		submit(r);
	}
	if (holder)
		bpf_map_delete_elem(&holders, &key);
	if (t)
		bpf_map_delete_elem(&threads, &task);
}

/* ---- entry points ---- */

RAW_TP_PROGS(fsync_enter, sys_enter, SEEN_SYSCALL, 0, on_enter(ctx[0], ctx[1]))
RAW_TP_PROGS(fsync_exit, sys_exit, SEEN_SYSCALL_END, 0, on_exit(ctx[1]))

/* folio_wait_writeback(folio, mapping) since 5.18, wait_on_page_writeback(page, mapping) before. */
RAW_TP_PROGS(folio_wait, folio_wait_writeback, SEEN_PAGE_WAIT, 0,
	     on_page_wait(ctx[0], (void *)ctx[1]))
CTX_PROG(page_wait, "raw_tp/wait_on_page_writeback", !stopped, on_page_wait(ctx[0], (void *)ctx[1]))

/* block_bio_queue(bio) since 5.11; (queue, bio) before. */
TP_PROGS(fsync_bio, block_bio_queue, SEEN_BIO, 0, on_bio(arg, direct))
QUEUE_PROG(fsync_bio, block_bio_queue, 1, on_bio(arg, direct))

RAW_TP_PROGS(file_sync, ext4_sync_file_enter, SEEN_FILE_SYNC, 0, on_file_sync(arg))
RAW_TP_PROGS(file_written, ext4_writepages_result, SEEN_FILE_WRITTEN, 0, on_written(ctx[0]))
RAW_TP_PROGS(fast_begin, ext4_fc_commit_start, SEEN_FAST_COMMIT, 0, on_fast_commit(false))
RAW_TP_PROGS(fast_end, ext4_fc_commit_stop, SEEN_FAST_COMMIT_END, 0, on_fast_commit(true))
RAW_TP_PROGS(log_force, xfs_log_force, SEEN_LOG_FORCE, 0, on_log_force())

RAW_TP_PROGS(commit_begin, jbd2_start_commit, SEEN_COMMIT, 1, on_commit())
RAW_TP_PROGS(commit_locking, jbd2_commit_locking, SEEN_COMMIT_LOCKING, 1, on_locking())
RAW_TP_PROGS(commit_flushing, jbd2_commit_flushing, SEEN_COMMIT_FLUSHING, 1, on_flushing())
RAW_TP_PROGS(commit_logging, jbd2_commit_logging, SEEN_COMMIT_LOGGING, 1, on_logging())
RAW_TP_PROGS(commit_file, jbd2_submit_inode_data, SEEN_COMMIT_FILE, 0, on_commit_file(arg))
RAW_TP_PROGS(commit_end, jbd2_run_stats, SEEN_COMMIT_END, 1, on_commit_end(ctx[0], ctx[1]))
RAW_TP_PROGS(handle_end, jbd2_handle_stats, SEEN_HANDLE_END, 1, on_handle_end(ctx[0], ctx[1]))

char LICENSE[] SEC("license") = "GPL";
