/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_KERNEL_H
#define IOTRACE_PROBES_KERNEL_H

/*
 * The kernel types and fields that the probes use, and no others.  Offsets are relocated at load
 * time (CO-RE): only names and types matter here.  A type that ends in ___pre_X is the kernel's
 * type before a change in X, which the comment names.
 */

#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define NULL ((void *)0)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct klist_node {
	void *n_klist; /* the list; bit 0: it is being removed */
	struct list_head n_node;
};

struct klist {
	struct list_head k_list;
};

/* block */

struct bio;

struct block_device_operations {
	void *submit_bio; /* set for bio-based drivers (dm, md, zram); 5.9, c62b37d96b6e */
};

struct gendisk {
	int major;
	int first_minor;
	char disk_name[32];
	struct block_device_operations *fops;
	struct request_queue *queue;
	struct block_device *part0; /* since 5.11, 0d02129e76ed */
};

struct block_device {
	u32 bd_dev;
	struct gendisk *bd_disk;
};

struct elevator_type {
	const char *elevator_name;
};

struct elevator_queue {
	struct elevator_type *type;
};

struct throtl_data {
	unsigned int nr_queued[2];
};

struct xarray {
	void *xa_head;
};

struct xa_node {
	u8 shift;
	void *slots[64];
};

struct request_queue {
	struct gendisk *disk; /* 5.15, d152c682f03c */
	struct elevator_queue *elevator;
	struct throtl_data *td;
	struct blk_mq_hw_ctx **queue_hw_ctx; /* until 5.17, and since 7.0 */
	struct xarray hctx_table;	     /* between, 4e5cc99e1e48 */
	unsigned int nr_hw_queues;
	unsigned int nr_requests; /* in most kernels an unsigned long */
	int mq_freeze_depth;
	struct list_head requeue_list;
	struct list_head flush_list; /* 6.5, b175c86739d3 */
};

struct blk_flush_queue {
	unsigned int flush_running_idx : 1;
	struct list_head flush_queue[2];
	struct request *flush_rq;
};

struct blk_mq_tags {
	unsigned int nr_tags;
	struct request **static_rqs;
};

struct blk_mq_hw_ctx {
	struct blk_flush_queue *fq;
	struct request_queue *queue;
	unsigned int queue_num;
	struct blk_mq_tags *tags;
	struct blk_mq_tags *sched_tags;
	struct list_head dispatch;
};

enum mq_rq_state {
	MQ_RQ_IDLE = 0,
};

/*
 * One type for all kernels: a field that some kernels lack is used only after
 * bpf_core_field_exists().  (With a type per shape, name___old, libbpf would search the kernel's
 * 150,000 types once more at each start.)
 */
struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	u32 cmd_flags;
	u32 rq_flags;
	unsigned int __data_len;
	u64 __sector;
	struct bio *bio;
	struct bio *biotail;
	struct block_device *part; /* since 5.11, struct hd_struct * before */
	u64 start_time_ns;
	u64 io_start_time_ns;
	unsigned long deadline;
	unsigned int timeout;
	int tag;
	unsigned short nr_phys_segments;
	enum mq_rq_state state;
	struct {
		int counter;
	} ref;			    /* a refcount_t before 5.17 (0a467d0fdd95) */
	struct list_head queuelist; /* chains a flush sequence since 6.6 */
	struct {
		struct list_head list; /* and this before */
	} flush;
	struct gendisk *rq_disk; /* until 5.16 (removed in 5.17, f3fa33acca9f) */
};

struct device_driver {
	const char *name;
};

struct kobject {
	const char *name;
};

struct device {
	struct kobject kobj;
	u32 devt;
	struct device_driver *driver;
};

struct kset {
	struct kobject kobj;
};

struct subsys_private {
	struct kset subsys;
	struct klist klist_devices;
};

struct device_private {
	struct klist_node knode_class;
	struct device *device;
};

/* 5.11 (0d02129e76ed) made it a part of struct block_device. */
struct block_device___with_device {
	struct device bd_device;
};

/* Until then. */
struct hd_struct {
	struct device __dev;
	int partno;
};

struct gendisk___pre_5_11 {
	struct hd_struct part0;
};

struct kernfs_node {
	u64 id;
	void *priv; /* of a directory in sysfs: its struct kobject */
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;    /* the hierarchy's */
	int level;		     /* of the root 0 */
	u64 ancestor_ids[1];	     /* by level, itself included; until 6.0 (7f203bc89eb6) */
	struct cgroup *ancestors[1]; /* since */
};

struct cgroup_root {
	int hierarchy_id; /* cgroup2: 0 */
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

/* The controller of block I/O; its number depends on the kernel's configuration. */
enum cgroup_subsys_id {
	io_cgrp_id = 1,
};

/* The cgroups of a task. */
struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* by enum cgroup_subsys_id */
	struct cgroup *dfl_cgrp;	       /* in cgroup2 */
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
};

struct page {
	struct address_space *mapping;
	unsigned long compound_head; /* of a tail page: the first one's address, and 1 */
	unsigned long compound_info; /* so called since 7.0; or a mask, and 1 */
};

enum pageflags {
	PG_locked = 0,
	PG_writeback = 1,
	PG_reserved = 13,
	PG_swapbacked = 17,
};

struct bio_vec {
	struct page *bv_page;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev; /* since 5.12, 309dca309fc3 */
	struct gendisk *bi_disk;      /* before */
	u8 bi_partno;		      /* before */
	u32 bi_opf;
	unsigned short bi_flags;
	unsigned short bi_vcnt;
	u8 bi_status;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
	void *bi_private;
	void *bi_end_io;
	struct bio_vec *bi_io_vec;
	void *bi_pool;
};

struct buffer_head {
	void *b_end_io;
};

struct bio_list {
	struct bio *head;
	struct bio *tail;
};

/* Operation codes whose numbers differ between kernels; 5.10 named the enum
 * req_opf (ff07a02e9e8e renamed it in 6.0), and REQ_OP_ZONE_APPEND moved
 * inside stable series. */
enum req_op {
	REQ_OP_ZONE_APPEND = 7,
};

/* Bits of cmd_flags and bi_opf. */
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
};

enum req_opf___pre_6_0 {
	REQ_OP_ZONE_APPEND___pre_6_0 = 13,
};

/* files */

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

struct hlist_bl_node {
	struct hlist_bl_node *next, **pprev;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct hlist_bl_node d_hash; /* pprev NULL: it has been removed */
	struct dentry *d_parent;     /* itself: the root of a file system */
	struct qstr d_name;
	struct inode *d_inode;
	union {
		struct hlist_node d_alias;
	} d_u;
	struct hlist_node d_alias;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent; /* itself: nothing is below it */
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root;
};

struct file_system_type {
	const char *name;
};

struct super_block {
	u32 s_dev;
	struct file_system_type *s_type;
	void *s_fs_info;
	unsigned long s_magic;
	struct block_device *s_bdev;
	struct {
		u8 b[16];
	} s_uuid;
};

struct address_space {
	struct inode *host;
};

struct inode {
	u16 i_mode;
	u32 i_rdev;
	unsigned long i_ino;
	u32 i_generation;
	struct super_block *i_sb;
	void *i_private;
	struct address_space *i_mapping;
	struct hlist_head i_dentry;
	s64 i_size;
	struct address_space i_data; /* its own pages */
};

struct file {
	struct inode *f_inode;
	struct address_space *f_mapping; /* of an opened block device its own pages */
	struct path f_path;
	void *private_data;
};

/* A direct read or write: fs/iomap, fs/direct-io.c. */
struct iomap_dio {
	struct kiocb *iocb;
};

struct iomap_dio_simple { /* of a small read, since 7.3 */
	struct kiocb *iocb;
	struct bio bio;
};

struct dio {
	struct kiocb *iocb;
};

struct blkdev_dio { /* of a disk that was opened */
	struct kiocb *iocb;
	struct bio bio;
};

struct kiocb {
	struct file *ki_filp;
	void *ki_complete;
};

/* Of libaio. */
struct aio_kiocb {
	struct kiocb rw;
	struct kioctx *ki_ctx;
};

struct kioctx {
	void *rq_wait; /* on the stack of the thread that waits for its end */
};

struct kioctx_table {
	unsigned int nr;
	struct kioctx *table[];
};

/* Of io_uring. */
struct io_uring_task {
	struct task_struct *task; /* 6.13 */
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

/* mappings */

struct rb_node {
	struct rb_node *rb_right, *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct maple_tree {
	void *ma_root;
};

struct mm_struct {
	struct maple_tree mm_mt; /* 6.1, 524e00b36e8c */
	struct rb_root mm_rb;	 /* before */
	struct kioctx_table *ioctx_table;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end, vm_flags, vm_pgoff;
	struct rb_node vm_rb; /* until 6.0 */
	struct file *vm_file;
	void *vm_ops;
};

/* tasks */

struct thread_info {
	unsigned long flags;
	u32 status; /* x86: TS_COMPAT */
};

struct cpu_context {
	unsigned long sp;
};

struct thread_struct {
	unsigned long sp;		/* x86 */
	struct cpu_context cpu_context; /* arm64 */
};

struct sched_info {
	u64 last_arrival; /* when it got a CPU last, by the scheduler's clock */
};

struct seccomp {
	int mode;
};

/* Both without an owner in real-time kernels. */
struct mutex {
	struct {
		long counter;
	} owner;
};

struct rw_semaphore {
	struct {
		long counter;
	} owner;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state; /* 5.14, 2f064a59a11f */
	long state;	      /* before */
	void *stack;
	unsigned int flags;
	unsigned int ptrace;
	struct seccomp seccomp; /* empty without CONFIG_SECCOMP */
	unsigned int in_execve : 1;
	struct sched_info sched_info;
	struct thread_struct thread;
	struct fs_struct *fs;
	struct files_struct *files;
	struct css_set *cgroups;
	int pid;
	int tgid;
	unsigned long min_flt; /* page faults that have come to their end */
	unsigned long maj_flt;
	u64 start_time; /* CLOCK_MONOTONIC */
	u64 start_boottime;
	char comm[16];
	struct mm_struct *mm;
	struct task_struct *group_leader;
	struct bio_list *bio_list; /* two, while a bio is being submitted */
	void *set_child_tid;
	void *worker_private; /* struct kthread * since 5.17, e32cf5dfbe22 */
	/* The lock that it waits for, with its kind in the two lowest bits: of mutexes since 6.16,
	 * of rwsems since 6.17, with CONFIG_DETECT_HUNG_TASK_BLOCKER. */
	unsigned long blocker;
};

struct kthread {
	void *data; /* for a worker of a workqueue: struct worker * */
};

struct worker {
	void *current_func; /* the work that it does */
	char desc[24];	    /* "flush-8:0" while it writes back */
};

/* The dirty pages of a device or a network file system. */
struct backing_dev_info {
	struct device *owner; /* the disk's device; NULL: no disk, or (btrfs) several */
};

struct bdi_writeback {
	struct backing_dev_info *bdi;
};

/* virtio */

struct scatterlist {
	unsigned long page_link; /* bit 0: leads to another array, bit 1: the last entry */
	unsigned int length;
};

struct virtio_device_id {
	u32 device;
};

struct virtio_device {
	int index;
	struct device dev;
	struct virtio_device_id id;
	struct list_head vqs;
};

struct virtqueue {
	struct list_head list;
	const char *name;
	struct virtio_device *vdev;
	unsigned int index;
};

struct vring_desc {
	u64 addr;
	u32 len;
	u16 flags;
	u16 next;
};

struct vring_used_elem {
	u32 id;
	u32 len;
};

struct vring_used {
	u16 flags;
	u16 idx;
	struct vring_used_elem ring[];
};

struct vring {
	unsigned int num;
	struct vring_desc *desc;
	struct vring_used *used;
};

/* 7.2 has one more member. */
struct vring_desc_state_split {
	void *data;
	struct vring_desc *indir_desc;
};

struct vring_virtqueue_split {
	struct vring vring;
	struct vring_desc_state_split *desc_state;
};

enum vq_layout {
	VQ_LAYOUT_SPLIT = 0,
};

struct vring_virtqueue {
	struct virtqueue vq;
	bool packed_ring;      /* until 6.19 */
	enum vq_layout layout; /* since 7.0 */
	u16 last_used_idx;
	struct vring_virtqueue_split split;
};

struct virtio_pci_device {
	struct virtio_device vdev;
};

struct virtio_mmio_device {
	struct virtio_device vdev;
};

/* io_uring */

struct io_uring_sqe {
	u8 opcode;
	u64 user_data;
};

struct io_uring_cqe {
	u64 user_data;
	s32 res;
	u32 flags;
};

struct io_uring {
	u32 head;
};

struct io_rings {
	struct io_uring sq, cq;
};

struct io_submit_link {
	struct io_kiocb *head;
};

struct io_submit_state {
	struct io_submit_link link;
};

struct io_ring_ctx {
	unsigned int flags;
	struct io_rings *rings;
	u32 *sq_array; /* NULL with IORING_SETUP_NO_SQARRAY */
	struct io_uring_sqe *sq_sqes;
	unsigned int cached_sq_head;
	unsigned int sq_entries;
	unsigned int cached_cq_tail;
	unsigned int cq_entries;
	struct io_submit_state submit_state;
};

struct io_cqe {
	u64 user_data;
};

/* Of a read or write it begins with its kiocb. */
struct io_kiocb {
	struct file *file; /* until it has completed */
	u8 opcode;
	unsigned int flags; /* 64 bits in 6.12; the lowest 8 are the flags of the SQE */
	u64 user_data;	    /* until 5.18 */
	struct io_cqe cqe;  /* since 5.19 */
	struct io_ring_ctx *ctx;
	struct task_struct *task;   /* until 6.12 */
	struct io_uring_task *tctx; /* since, b6f58a3f4aa8 */
};

/* A read or write: the first bytes of its struct io_kiocb. */
struct io_rw {
	u32 len; /* 64 bits in 5.10 */
};

/* interrupts */

struct irqaction {
	void *handler;
	void *thread_fn;
	void *dev_id;
};

#pragma clang attribute pop

#ifndef barrier_var
#define barrier_var(var) asm volatile("" : "+r"(var))
#endif

#define S_IFMT	0170000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define S_IFREG 0100000

#define TASK_UNINTERRUPTIBLE 0x2

#define TASK_SLEEPS 0x3 /* TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE */

#define TASK_TRACED 0x8

#define PF_EXITING   0x00000004
#define PF_IO_WORKER 0x00000010 /* since 5.12 */
#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD   0x00200000

/*
 * Reads a field.  @direct: the verifier knows the type of @ptr (an argument of tp_btf, fentry), and
 * a field is a plain load, some 10 ns cheaper; otherwise @ptr is only an address (raw_tp, kprobe).
 * @direct is a constant in each entry point: only one branch is compiled there, and in a static
 * function the verifier follows the caller's branch.
 */
#define KREAD(direct, ptr, field)                                                                  \
	({                                                                                         \
		typeof((ptr)->field) __val;                                                        \
		if (direct)                                                                        \
			__val = (ptr)->field;                                                      \
		else                                                                               \
			bpf_core_read(&__val, sizeof(__val), &(ptr)->field);                       \
		__val;                                                                             \
	})

/*
 * Since 5.11 (3ca1032ab7ab) the verifier knows the type of the current task, so that fields are
 * plain loads; bpf_probe_read_kernel() takes 45 ns for each (6.18).
 */
#define TYPED_TASK bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)

/* The value at @arg (a pointer's, an entry of ctx[]) as a scalar: the verifier does not let a
 * pointer with a known type go to a global function. */
static __always_inline u64 load_scalar_arg(const void *arg)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), arg);
	return value;
}

/* Adds to a counter of losses, which user space reads. */
static __always_inline void count_loss(__u64 *losses, u64 n)
{
	__sync_fetch_and_add(losses, n);
}

#endif
