/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_FILE_NAMES_BPF_H
#define IOTRACE_PROBES_FILE_NAMES_BPF_H

/* The files of bios as keys of rows, and their names: once in each buffer, in bounded memory. */

#include "probes/bio_file.bpf.h"

#ifdef BY_FILE
static const bool by_file = BY_FILE;
#else
const volatile bool by_file = false;
#endif

/* A file has rows of its own if it has room here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before loading, where rows are by file */
	__type(key, struct file_id);
	__type(value, struct file_name);
} file_names0 SEC(".maps"), file_names1 SEC(".maps");

/* Not written: what is added to the maps, too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct file_name);
} no_file_name SEC(".maps");

/* Two CPUs may name the same file at the same moment: both write the same.  False: no room. */
static __always_inline bool name_file(void *names, const struct file_id *id, u64 magic,
				      struct dentry *dentry)
{
	struct file_name *name = bpf_map_lookup_elem(names, id);
	u32 zero = 0;

	if (name)
		return true;
	name = bpf_map_lookup_elem(&no_file_name, &zero);
	if (!name)
		return false;
	bpf_map_update_elem(names, id, name, BPF_NOEXIST);
	name = bpf_map_lookup_elem(names, id);
	if (!name)
		return false;
	name->magic = magic;
	if (dentry) {
		name->path_bytes = read_path(name->path, dentry, &name->path_flags);
		name->named = 1;
	}
	return true;
}

static __always_inline u32 meta_mask(void)
{
	return 1u << bpf_core_enum_value(enum req_flag_bits, __REQ_META);
}

/* Sets @id to @file, whose name @dentry is stored in the buffer of epoch @now. */
static __always_inline void set_id(struct file_id *id, const struct bio_file *file,
				   struct dentry *dentry, u32 now)
{
	bool room;

	id->inode = file->inode;
	id->dev = file->dev;
	id->generation = file->generation;
	id->kind = file->kind;
	if (file->kind != FILE_UNNAMED)
		return;
	if (now)
		room = name_file(&file_names1, id, file->magic, dentry);
	else
		room = name_file(&file_names0, id, file->magic, dentry);
	if (!room)
		*id = (struct file_id){ .kind = FILE_OTHERS };
}

/* Sets @id, which is all zero, to the file of @bio, whose name is stored in the buffer of epoch
 * @now. */
static __always_inline void find_id(struct bio *bio, struct file_id *id, u32 now)
{
	struct bio_file file = {};
	struct dentry *dentry;

	dentry = find_bio_file(&file, bio, BPF_CORE_READ(bio, bi_opf) & meta_mask());
	set_id(id, &file, dentry, now);
}

/* The same in the current buffer.  Not inline: most programs call it at one of several places. */
static __noinline __attribute__((unused)) int find_id_now(struct bio *bio, struct file_id *id)
{
	if (id) /* for the verifier of 5.10 */
		find_id(bio, id, epoch & 1);
	return 0;
}

#endif
