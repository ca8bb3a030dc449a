/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_BIO_FILE_BPF_H
#define IOTRACE_PROBES_BIO_FILE_BPF_H

/*
 * Finds the file of a bio.  In most cases the function that ends the bio tells it, otherwise the
 * bio's first page.  The page alone is not enough: a slab keeps its own data where a page of a file
 * has its mapping, and a direct read or write of a disk may have a mapped file as its buffer.
 */

#include <linux/magic.h>

#include "probes/bio_file.h"
#include "probes/blk_devices.bpf.h"

/* Functions that end a bio; 0: not known. */
const volatile __u64 end_of_chain = 0;		/* bio_chain_endio: a part of bi_private */
const volatile __u64 end_of_iomap_dio = 0;	/* bi_private: struct iomap_dio */
const volatile __u64 end_of_iomap_simple = 0;	/* the bio is in a struct iomap_dio_simple */
const volatile __u64 end_of_dio[2] = {};	/* bi_private: struct dio */
const volatile __u64 end_of_device_dio[3] = {}; /* the block device itself was opened */
const volatile __u64 end_of_wait[2] = {};	/* submit_bio_wait() */
const volatile __u64 end_of_buffer = 0;		/* bi_private: struct buffer_head */
const volatile __u64 end_of_journal = 0;	/* of such a buffer, if it is the journal's */
const volatile __u64 end_of_log = 0;		/* of XFS */
const volatile __u64 end_of_swap[2] = {};
const volatile __u64 end_of_btrfs[2] = {}; /* the bio is in a struct btrfs_bio */

/* Members of btrfs structures, in bytes; btrfs is usually a module, so CO-RE does not see its
 * types.  The bio is not the first member: 0 means "unknown". */
const volatile __u32 btrfs_bio_bio = 0, btrfs_bio_inode = 0, btrfs_inode_vfs = 0;

/* Of bi_flags: the pages are memory of a process (BIO_PAGE_PINNED, 6.5). */
const volatile __u32 page_pinned_mask = 0;

static __always_inline bool is_end(u64 end, const volatile u64 *of, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if (end == of[i])
			return true;
	return false;
}

#define IS_END(end, of) is_end(end, of, sizeof(of) / sizeof((of)[0]))

/* The head page of the folio or compound page that @page belongs to. */
static __always_inline struct page *head_of(struct page *page)
{
	u64 info = 0;

	if (bpf_core_field_exists(page->compound_head))
		bpf_core_read(&info, sizeof(info), &page->compound_head);
	else if (bpf_core_field_exists(page->compound_info))
		bpf_core_read(&info, sizeof(info), &page->compound_info);
	if (!(info & 1))
		return page;
	/* Since 7.0 it may be a mask of the address. */
	if (info >> 32 == 0xffffffff)
		return (void *)((u64)page & info);
	return (void *)(info - 1);
}

/* The inode that owns the pages of @mapping; NULL: it is not a mapping (for example data of a
 * slab). */
static __always_inline struct inode *mapping_inode(u64 mapping)
{
	struct inode *inode;

	if (!mapping || mapping & 3)
		return NULL;
	inode = BPF_CORE_READ((struct address_space *)mapping, host);
	if (!inode || (u64)inode + bpf_core_field_offset(struct inode, i_data) != mapping)
		return NULL;
	return inode;
}

static __always_inline void set_inode(struct bio_file *to, struct inode *inode)
{
	to->inode = BPF_CORE_READ(inode, i_ino);
	to->generation = BPF_CORE_READ(inode, i_generation);
	to->magic = BPF_CORE_READ(inode, i_sb, s_magic);
	to->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	to->kind = FILE_UNNAMED;
	/* Each subvolume of btrfs has its own numbers, a snapshot the same generations, and which
	 * subvolume it is only the module's types say.  The inode's address tells them apart; a
	 * file has another if its inode leaves memory meanwhile. */
	if (to->magic == BTRFS_SUPER_MAGIC)
		to->generation ^= (u32)((u64)BPF_CORE_READ(inode, i_mapping) >> 3);
}

/* A name of @inode; NULL: no name is in memory. */
static __always_inline struct dentry *alias_of(struct inode *inode)
{
	struct hlist_node *first = BPF_CORE_READ(inode, i_dentry.first);

	if (!first)
		return NULL;
	if (bpf_core_field_exists(((struct dentry *)0)->d_u.d_alias))
		return (void *)first - bpf_core_field_offset(struct dentry, d_u.d_alias);
	return (void *)first - bpf_core_field_offset(struct dentry, d_alias);
}

/* For a direct read or write of a file: true, and its name in *@out. */
static __always_inline bool file_of_kiocb(struct bio_file *to, struct kiocb *iocb,
					  struct dentry **out)
{
	struct file *file = BPF_CORE_READ(iocb, ki_filp);

	if (!file)
		return false;
	set_inode(to, BPF_CORE_READ(file, f_inode));
	*out = BPF_CORE_READ(file, f_path.dentry);
	return true;
}

/* A small direct read since 7.3: its bio is in a struct of iomap, from a pool, and may be waited
 * for; the bio of an opened disk, which is waited for in the same way, is on a stack. */
static __always_inline struct kiocb *iocb_of_simple(struct bio *bio, u64 end)
{
	struct iomap_dio_simple *dio;
	struct kiocb *iocb;
	struct inode *inode;

	if (!bpf_core_field_exists(((struct iomap_dio_simple *)0)->iocb) ||
	    (!IS_END(end, end_of_wait) && end != end_of_iomap_simple) ||
	    !BPF_CORE_READ(bio, bi_pool))
		return NULL;
	dio = (void *)bio - bpf_core_field_offset(struct iomap_dio_simple, bio);
	iocb = BPF_CORE_READ(dio, iocb);
	inode = BPF_CORE_READ(iocb, ki_filp, f_inode);
	/* Another user of submit_bio_wait() has something else there. */
	if (!inode || !mapping_inode((u64)inode + bpf_core_field_offset(struct inode, i_data)))
		return NULL;
	return iocb;
}

/* The direct read or write of a file that @bio is for; NULL: it is for none. */
static __always_inline struct kiocb *iocb_of_dio(struct bio *bio, u64 end)
{
	void *private = BPF_CORE_READ(bio, bi_private);

	if (end == end_of_iomap_dio && bpf_core_field_exists(((struct iomap_dio *)0)->iocb))
		return BPF_CORE_READ((struct iomap_dio *)private, iocb);
	if (IS_END(end, end_of_dio) && bpf_core_field_exists(((struct dio *)0)->iocb))
		return BPF_CORE_READ((struct dio *)private, iocb);
	return iocb_of_simple(bio, end);
}

static __always_inline bool file_of_dio(struct bio_file *to, struct bio *bio, u64 end,
					struct dentry **out)
{
	struct kiocb *iocb = iocb_of_dio(bio, end);

	return iocb && file_of_kiocb(to, iocb, out);
}

/* btrfs since 6.4: direct, compressed and plain I/O alike. */
static __always_inline struct inode *btrfs_inode_of(struct bio *bio)
{
	void *inode = NULL, *of_bio = (void *)bio - btrfs_bio_bio;

	bpf_probe_read_kernel(&inode, sizeof(inode), of_bio + btrfs_bio_inode);
	if (!inode)
		return NULL;
	inode += btrfs_inode_vfs;
	/* In 6.2 and 6.3 the member has another type. */
	return BPF_CORE_READ((struct inode *)inode, i_sb, s_magic) == BTRFS_SUPER_MAGIC ? inode
											: NULL;
}

static __always_inline bool is_journal(struct bio *bio, u64 end)
{
	struct buffer_head *buffer = NULL;

	if (!end_of_journal)
		return false;
	if (end == end_of_journal)
		return true;
	if (end != end_of_buffer || !bpf_core_field_exists(buffer->b_end_io))
		return false;
	buffer = BPF_CORE_READ(bio, bi_private);
	return (u64)BPF_CORE_READ(buffer, b_end_io) == end_of_journal;
}

static __always_inline u32 bio_dev(struct bio *bio)
{
	if (BIOS_NAME_DISKS)
		return disk_dev(bio_disk(bio, false), false);
	return bio_part_dev(bio, 0, false);
}

#define PAGE_IS(flags, flag) ((flags) >> bpf_core_enum_value(enum pageflags, PG_##flag) & 1)

/* Finds the owner of @page, the first page of @bio. */
static __always_inline struct dentry *file_of_page(struct bio_file *to, struct bio *bio, u64 end,
						   struct page *page, bool meta)
{
	struct page *head = head_of(page);
	u64 mapping = (u64)BPF_CORE_READ(head, mapping), flags = 0;
	struct inode *inode = mapping_inode(mapping);
	bool is_user;

	/* The flags are a page's first word, and since 6.18 (memdesc_flags_t) a struct. */
	bpf_probe_read_kernel(&flags, sizeof(flags), head);
	if (inode) {
		set_inode(to, inode);
		if (to->magic == BDEVFS_MAGIC) {
			to->kind = is_journal(bio, end) ? FILE_JOURNAL : FILE_DEVICE;
			to->dev = BPF_CORE_READ(inode, i_rdev);
			return NULL;
		}
		/* It is read into or written back itself; otherwise it is only a buffer. */
		if (meta || PAGE_IS(flags, locked) || PAGE_IS(flags, writeback))
			return alias_of(inode);
	}
	/* Reserved: the page of zeroes. */
	is_user = inode || PAGE_IS(flags, reserved) || (mapping & 1 && PAGE_IS(flags, swapbacked));
	*to = (struct bio_file){ .kind = FILE_MEMORY };
	if (is_user) {
		to->kind = IS_END(end, end_of_wait) ? FILE_DEVICE : FILE_DIRECT;
	} else if (meta) {
		to->kind = FILE_METADATA;
		to->dev = bio_dev(bio);
	}
	return NULL;
}

/* The bio of which @bio is a part, and in *@end the function that ends it. */
static __always_inline struct bio *whole_bio(struct bio *bio, u64 *end)
{
	for (int i = 0; i < 4; i++) {
		*end = (u64)BPF_CORE_READ(bio, bi_end_io);
		if (!end_of_chain || *end != end_of_chain)
			break;
		bio = BPF_CORE_READ(bio, bi_private);
	}
	if (!*end)
		*end = 1; /* none of the known functions */
	return bio;
}

/*
 * Sets @to, which is all zero, to the owner of the data of @bio, and returns its name; NULL: no
 * name.  A split-off part leads to the whole bio, whose end function is used; the pages are the
 * part's own.  @meta: REQ_META is set.
 */
static __always_inline struct dentry *find_bio_file(struct bio_file *to, struct bio *bio, bool meta)
{
	struct dentry *dentry = NULL;
	struct page *page = NULL;
	struct inode *inode;
	struct bio *whole;
	void *vec;
	u64 end = 0;

	whole = whole_bio(bio, &end);
	if (file_of_dio(to, whole, end, &dentry))
		return dentry;
	if (IS_END(end, end_of_device_dio)) {
		to->kind = FILE_DEVICE;
		return NULL;
	}
	if (IS_END(end, end_of_swap)) {
		to->kind = FILE_SWAP;
		return NULL;
	}
	if (end == end_of_log) {
		to->kind = FILE_JOURNAL;
		to->dev = bio_dev(bio);
		return NULL;
	}
	if (btrfs_bio_bio && IS_END(end, end_of_btrfs)) {
		inode = btrfs_inode_of(whole);
		if (inode) {
			set_inode(to, inode);
			return alias_of(inode);
		}
	}
	/* Pages of a process: file I/O for which no file is found here, or I/O of an opened disk by
	 * one bio that is waited for. */
	if (BPF_CORE_READ(whole, bi_flags) & page_pinned_mask) {
		to->kind = IS_END(end, end_of_wait) ? FILE_DEVICE : FILE_DIRECT;
		return NULL;
	}
	vec = BPF_CORE_READ(bio, bi_io_vec);
	/* After a flush sequence the data has been written, and the iterator is at its end. */
	if (BPF_CORE_READ(bio, bi_iter.bi_size))
		vec += BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec);
	bpf_core_read(&page, sizeof(page), &((struct bio_vec *)vec)->bv_page);
	if (page)
		return file_of_page(to, whole, end, page, meta);
	to->kind = FILE_MEMORY;
	return NULL;
}

/*
 * Writes the path of @dentry to @path (FILE_PATH bytes), from the name to the root, each part with
 * its NUL, and its flags (enum file_path_flags) to *@flags.  Returns the number of bytes.
 */
static __always_inline u32 read_path(char *path, struct dentry *dentry, u8 *flags)
{
	u32 at = 0;

	*flags = 0;
	if (!BPF_CORE_READ(dentry, d_hash.pprev) && BPF_CORE_READ(dentry, d_parent) != dentry)
		*flags = FILE_REMOVED;
	for (int i = 0; i < FILE_PARTS; i++) {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
		long bytes;

		if (!parent || parent == dentry)
			return at;
		if (at > FILE_PATH - FILE_PART_MAX)
			break;
		bytes = bpf_probe_read_kernel_str(path + at, FILE_PART_MAX,
						  BPF_CORE_READ(dentry, d_name.name));
		if (bytes <= 0)
			break;
		at += bytes;
		dentry = parent;
	}
	*flags |= FILE_CUT;
	return at;
}

#endif
