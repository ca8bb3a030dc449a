/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_PROBES_UNWIND_BPF_H
#define IOTRACE_PROBES_UNWIND_BPF_H

/*
 * The walker of user stacks: from the registers at the entry into the kernel, frame by frame by the
 * tables of probes/unwind.h, and by frame pointers in code without a table.  The file of an address
 * is looked up in the tree of the process's mappings, without its lock: a concurrent change can
 * make a stack end early, but nothing worse, since all data read is checked.
 *
 * Before including this: #define UNWIND_SLOTS, the number of programs that can walk on a CPU at the
 * same time; UNWIND_DEPTH, the number of frames; and declare unwind_frames(), the place for the
 * frames.  The functions are global, so that the verifier checks each once; their data is in a map,
 * since global functions take only numbers before 5.12 (e5069b9c23b3).
 */

#include "probes/arch.h"
#include "probes/unwind.h"

const volatile __u32 page_shift = 12, thread_size = 16384;

/* Stacks that ended early, by enum unwind_stop. */
#define STOPS_ROOM 8 /* a power of two */
__u64 unwind_stops[STOPS_ROOM] = {};
_Static_assert(UNWIND_STOPS <= STOPS_ROOM, "there is room for all");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_SEGMENTS);
	__uint(key_size, sizeof(u32));
	__array(
	    values, struct {
		    __uint(type, BPF_MAP_TYPE_ARRAY);
		    __uint(map_flags, BPF_F_MMAPABLE);
		    __uint(max_entries, 1);
		    __uint(key_size, sizeof(u32));
		    __uint(value_size, sizeof(struct unwind_segment));
	    });
} unwind_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_RULES);
	__type(key, u32);
	__type(value, struct unwind_rule);
} unwind_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_FILES);
	__type(key, u32); /* unwind_number() */
	__type(value, struct unwind_file);
} unwind_files SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNWIND_WANTED);
	__type(key, u32);
	__type(value, struct unwind_wanted);
} unwind_wanted SEC(".maps");

/* A mapping that the stack has passed through. */
struct unwind_mapping {
	u64 start, end; /* addresses */
	u64 bias;	/* offset in the file, less the address */
	struct unwind_file file;
	u32 number; /* the file's; 0: frames are in memory */
};

/* The rule of an address that a walk passed: the same addresses come again and again. */
struct unwind_known {
	u64 key; /* key_of_place() */
	u32 generation;
	u32 below; /* bytes_below() */
	struct unwind_rule rule;
};

#define UNWIND_CACHED 4	  /* mappings */
#define UNWIND_KNOWN  128 /* addresses */
#define UNWIND_WINDOW 32  /* words of the stack that are read at once */
#define UNWIND_BELOW  56  /* bytes */
#define UNWIND_RUN    32  /* frames */

struct unwind_walk {
	u64 mm;
	u64 ip, sp, fp, bx, aux; /* aux: link register, or rdi */
	u64 pc;			 /* of the instruction that runs or calls */
	u64 vma, file;
	struct unwind_rule rule;
	u32 depth;    /* words of frames */
	u32 frame;    /* address of the last frame */
	u32 stop;     /* enum unwind_stop */
	u32 is_call;  /* ip is a return address */
	u32 has_aux;  /* values at the kernel's entry */
	u32 no_sp;    /* sp is unknown: UNWIND_FP_SAYS_SP */
	u32 fp_links; /* fp was found by a frame pointer: it is a frame pointer, or 0 */
	u32 no_table; /* the table of the frame's file is not loaded yet */
	u32 doubt;    /* a frame pointer was followed in code whose table is not loaded yet */
	u32 at, next; /* mapping in use; the one to be replaced next */
	struct unwind_mapping mappings[UNWIND_CACHED];
	struct unwind_known known[UNWIND_KNOWN];
	/* of functions; kept here so that the verifier does not follow their values */
	u32 lo, hi;
	u64 window[UNWIND_WINDOW];
	u64 node[32];
#if defined(UNWIND_REG_IP)
	struct unwind_regs regs;
#endif
	/* Not on the stack: 5.10 and 6.1 allow a chain of calls 512 bytes. */
	struct unwind_file_key key;
	struct unwind_wanted wanted;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UNWIND_SLOTS + 1); /* the last: unwind_file_key() */
	__type(key, u32);
	__type(value, struct unwind_walk);
} unwind_walks SEC(".maps");

static __always_inline struct unwind_walk *walk_of(u32 slot)
{
	return bpf_map_lookup_elem(&unwind_walks, &slot);
}

/* The word at byte @at of the window. */
#define UNWIND_WORD_OF(w, at) ((w)->window[(at) / 8 & (UNWIND_WINDOW - 1)])

static __always_inline bool read_user(u64 *to, u64 from)
{
	return !bpf_probe_read_user(to, sizeof(*to), (void *)from);
}

/* ---- mappings ---- */

#define UNWIND_TREE_DEPTH 40

/* Until 6.0 a red-black tree. */
__attribute__((noinline)) int unwind_vma_rb(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	u32 i, node_at;
	struct mm_struct *mm;
	struct rb_node *node;

	/* Verified on all kernels, called or not. */
	if (!w || !bpf_core_field_exists(struct mm_struct, mm_rb))
		return 0;
	node_at = bpf_core_field_offset(struct vm_area_struct, vm_rb);
	w->vma = 0;
	mm = (void *)w->mm;
	node = BPF_CORE_READ(mm, mm_rb.rb_node);
	for (i = 0; i < UNWIND_TREE_DEPTH; i++) {
		struct vm_area_struct *vma = (void *)node - node_at;

		if (!node)
			break;
		if (w->pc < BPF_CORE_READ(vma, vm_start)) {
			node = BPF_CORE_READ(node, rb_left);
		} else if (w->pc >= BPF_CORE_READ(vma, vm_end)) {
			node = BPF_CORE_READ(node, rb_right);
		} else {
			w->vma = (u64)vma;
			break;
		}
	}
	return 0;
}

/* Since 6.1 (524e00b36e8c) a maple tree.  Nodes have 256 bytes: the parent, the pivots, which are
 * the last index of each slot but the last, and the slots. */
#define MAPLE_DEPTH	 8
#define MAPLE_LEAF	 1 /* enum maple_type; 0: dense, not in these trees */
#define MAPLE_ARANGE	 3
#define MAPLE_PIVOTS	 15
#define MAPLE_A_PIVOTS	 9
#define MAPLE_TYPE(e)	 ((e) >> 3 & 0xf)
#define MAPLE_NODE(e)	 ((e) & ~0xffULL)
#define MAPLE_IS_NODE(e) (((e)&3) == 2 && (e) > 4096) /* of the root alone */

/* The next entry below @entry; 0: none. */
__attribute__((noinline)) int unwind_maple_slot(u32 slot, u32 pivots)
{
	struct unwind_walk *w = walk_of(slot);
	u32 i;

	if (!w)
		return 0;
	for (i = 0; i < MAPLE_PIVOTS; i++) {
		u64 pivot = w->node[1 + i];

		if (i >= pivots || !pivot || pivot >= w->pc)
			break;
	}
	return 1 + pivots + i;
}

__attribute__((noinline)) int unwind_vma_maple(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	struct mm_struct *mm;
	u64 entry;
	u32 i;

	if (!w || !bpf_core_field_exists(struct mm_struct, mm_mt))
		return 0;
	w->vma = 0;
	mm = (void *)w->mm;
	entry = (u64)BPF_CORE_READ(mm, mm_mt.ma_root);
	if (!MAPLE_IS_NODE(entry))
		return 0; /* a single mapping, or none */
	for (i = 0; i < MAPLE_DEPTH; i++) {
		u32 type = MAPLE_TYPE(entry);

		if (bpf_probe_read_kernel(w->node, sizeof(w->node), (void *)MAPLE_NODE(entry)))
			return 0;
		entry = w->node[unwind_maple_slot(slot, type == MAPLE_ARANGE ? MAPLE_A_PIVOTS
									     : MAPLE_PIVOTS) &
				31];
		if (type <= MAPLE_LEAF) {
			w->vma = entry;
			return 0;
		}
	}
	return 0;
}

#define VM_EXEC 0x4

static __always_inline void key_of_file(struct file *file, struct unwind_file_key *key)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	key->ino = BPF_CORE_READ(inode, i_ino);
	key->size = BPF_CORE_READ(inode, i_size);
	key->dev = BPF_CORE_READ(inode, i_sb, s_dev);
}

static __always_inline struct mount *mount_of(struct vfsmount *mnt)
{
	return (void *)mnt - bpf_core_field_offset(struct mount, mnt);
}

/* The path of the file at w->file, from the task's root directory on.  True: it has none, being in
 * memory only.  A global function: only for the first stack in a file. */
__attribute__((noinline)) int unwind_path(u32 slot)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct unwind_walk *w = walk_of(slot);
	struct dentry *dentry, *parent, *root;
	struct mount *mount, *below;
	struct vfsmount *root_mount;
	struct file *file;
	long bytes;
	u32 i;

	if (!w)
		return 0;
	w->wanted.path_bytes = w->lo = 0;
	file = (void *)w->file;
	mount = mount_of(BPF_CORE_READ(file, f_path.mnt));
	dentry = BPF_CORE_READ(file, f_path.dentry);
	root = BPF_CORE_READ(task, fs, root.dentry);
	root_mount = BPF_CORE_READ(task, fs, root.mnt);
	for (i = 0; i < UNWIND_PARTS; i++) {
		u32 at = w->lo;

		if (dentry == root && mount == mount_of(root_mount))
			break;
		if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
			below = BPF_CORE_READ(mount, mnt_parent);
			if (below == mount)
				break;
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = below;
			continue;
		}
		parent = BPF_CORE_READ(dentry, d_parent);
		if (parent == dentry)
			return 1;
		if (at > UNWIND_PATH)
			return 0;
		bytes = bpf_probe_read_kernel_str(w->wanted.path + at, UNWIND_PART_MAX,
						  BPF_CORE_READ(dentry, d_name.name));
		if (bytes <= 0)
			return 0;
		w->lo = at + (u32)bytes;
		dentry = parent;
	}
	if (i < UNWIND_PARTS)
		w->wanted.path_bytes = w->lo;
	return 0;
}

/* Asks user space about the file of w->key. */
static __always_inline void want_file(struct unwind_walk *w, u32 slot, struct file *file,
				      u32 number, struct unwind_file *made)
{
	*made = (struct unwind_file){ .key = w->key, .state = UNWIND_IS_WANTED };
	w->file = (u64)file;
	w->wanted.path_bytes = 0;
	if (file)
		made->in_memory = unwind_path(slot);
	if (bpf_map_update_elem(&unwind_files, &number, made, BPF_NOEXIST))
		return; /* another CPU is asking, or there is no room */
	w->wanted.key = w->key;
	w->wanted.in_memory = made->in_memory;
	w->wanted.address = w->pc;
	w->wanted.pid = bpf_get_current_pid_tgid() >> 32;
	/* Without room the next stack asks again. */
	if (bpf_map_update_elem(&unwind_wanted, &number, &w->wanted, BPF_ANY))
		bpf_map_delete_elem(&unwind_files, &number);
}

static __always_inline bool is_same_file(const struct unwind_file_key *a,
					 const struct unwind_file_key *b)
{
	return a->ino == b->ino && a->size == b->size && a->dev == b->dev;
}

/* The entry of the file of @vma; without an entry, user space is asked to make one. */
static __always_inline void find_file(struct unwind_walk *w, u32 slot, struct vm_area_struct *vma,
				      struct unwind_mapping *m)
{
	struct file *file = BPF_CORE_READ(vma, vm_file);
	struct unwind_file_key *key = &w->key;
	struct unwind_file *known;
	u32 number;

	m->number = 0;
	m->file.state = UNWIND_NO_TABLE;
	key->size = key->dev = 0;
	if (file)
		key_of_file(file, key);
	else if (BPF_CORE_READ(vma, vm_ops))
		key->ino = UNWIND_VDSO; /* special_mapping_vmops */
	else
		return;
	number = unwind_number(key, seed);
	known = bpf_map_lookup_elem(&unwind_files, &number);
	if (!known)
		want_file(w, slot, file, number, &m->file);
	else
		m->file = *known;
	if (known && !is_same_file(&known->key, key))
		m->file.state = UNWIND_NO_ROOM;
	else if (!m->file.in_memory)
		m->number = number;
}

/* enum unwind_stop */
static __always_inline u32 stop_at(const struct unwind_mapping *m)
{
	return m->file.state == UNWIND_IS_WANTED ? UNWIND_STOP_NO_TABLE
	       : m->file.state == UNWIND_NO_ROOM ? UNWIND_STOP_NO_ROOM
						 : UNWIND_WHOLE;
}

/* The mapping that contains w->pc; NULL: none. */
static __always_inline struct vm_area_struct *find_vma(struct unwind_walk *w, u32 slot)
{
	struct vm_area_struct *vma;

	if (bpf_core_field_exists(struct mm_struct, mm_mt))
		unwind_vma_maple(slot);
	else
		unwind_vma_rb(slot);
	vma = (void *)w->vma;
	if (!vma || w->pc < BPF_CORE_READ(vma, vm_start) || w->pc >= BPF_CORE_READ(vma, vm_end))
		return NULL;
	return vma;
}

struct unwind_file_key unwind_mapped_key = {};

/* Run by user space: sets unwind_mapped_key for the file that the calling process has mapped at
 * address args[0]. 1, or 0: no such mapping. */
SEC("raw_tp")
int unwind_find_key(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct unwind_walk *w = walk_of(UNWIND_SLOTS);
	struct vm_area_struct *vma;
	struct file *file;

	if (!w)
		return 0;
	w->mm = (u64)BPF_CORE_READ(task, mm);
	w->pc = ctx->args[0];
	vma = w->mm ? find_vma(w, UNWIND_SLOTS) : NULL;
	file = vma ? BPF_CORE_READ(vma, vm_file) : NULL;
	if (!file)
		return 0;
	key_of_file(file, &unwind_mapped_key);
	return 1;
}

/* Makes w->at the mapping of @pc, if the walk has been in it. */
static __always_inline bool find_cached(struct unwind_walk *w, u64 pc)
{
	u32 i;

	for (i = 0; i < UNWIND_CACHED; i++)
		if (pc >= w->mappings[i].start && pc < w->mappings[i].end) {
			w->at = i;
			return true;
		}
	return false;
}

/* Makes w->at the mapping of w->pc.  enum unwind_stop. */
__attribute__((noinline)) int unwind_map(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	struct vm_area_struct *vma;
	struct unwind_mapping *m;

	if (!w)
		return UNWIND_STOP_UNMAPPED;
	if (find_cached(w, w->pc))
		return stop_at(&w->mappings[w->at & (UNWIND_CACHED - 1)]);
	vma = find_vma(w, slot);
	if (!vma || !(BPF_CORE_READ(vma, vm_flags) & VM_EXEC))
		return UNWIND_STOP_UNMAPPED;
	m = &w->mappings[w->next & (UNWIND_CACHED - 1)];
	m->start = m->end = 0;
	find_file(w, slot, vma, m);
	m->bias = -BPF_CORE_READ(vma, vm_start);
	if (BPF_CORE_READ(vma, vm_file))
		m->bias += BPF_CORE_READ(vma, vm_pgoff) << page_shift;
	m->start = BPF_CORE_READ(vma, vm_start);
	m->end = BPF_CORE_READ(vma, vm_end);
	w->at = w->next & (UNWIND_CACHED - 1);
	w->next++;
	return stop_at(m);
}

static __always_inline bool begin_in_mm(struct unwind_walk *w)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 i;

	w->at = w->next = 0;
	for (i = 0; i < UNWIND_CACHED; i++)
		w->mappings[i].start = w->mappings[i].end = 0;
	w->mm = (u64)BPF_CORE_READ(task, mm);
	return w->mm;
}

/* After @at frames: the next word is the end. */
static __always_inline u32 end_at(u64 *frames, u64 at)
{
	frames[at] = UNWIND_STOP_NO_POINTER;
	if (at + 1 < UNWIND_DEPTH)
		frames[at + 1] = 0;
	return at + 1;
}

/* Makes a frame of the address at frame @number. 0, or the number of frames: it is the last one. */
__attribute__((noinline)) int unwind_locate_frame(u32 slot, u32 number)
{
	struct unwind_walk *w = walk_of(slot);
	u64 *frames = unwind_frames(slot), at = number, offset;
	const struct unwind_mapping *m;
	u32 stop;

	barrier_var(at);
	if (!w || !frames || at >= UNWIND_DEPTH)
		return number;
	w->pc = frames[at] - (at != 0);
	stop = unwind_map(slot);
	if (stop == UNWIND_STOP_UNMAPPED && at)
		return end_at(frames, at);
	frames[at] = w->pc;
	if (stop == UNWIND_STOP_UNMAPPED)
		return 0;
	m = &w->mappings[w->at & (UNWIND_CACHED - 1)];
	offset = w->pc + m->bias;
	if (m->number && !(offset >> UNWIND_OFFSET_BITS))
		frames[at] = UNWIND_FRAME(m->number, offset);
	return !at && w->key.ino == UNWIND_VDSO ? end_at(frames, 1) : 0;
}

/*
 * Makes frames of the @n addresses at unwind_frames(@slot), which were found by frame pointers;
 * returns the number of words.
 *
 * In a function compiled without frame pointers these are arbitrary stack contents: an address that
 * is not code ends the stack.  So does the vdso, by which an i386 program enters the kernel: there
 * ebp is the stack pointer, or on AMD the second argument.  A global function: otherwise the
 * verifier checks the following code once for each depth.
 */
__attribute__((noinline)) int unwind_locate(u32 slot, u32 n)
{
	struct unwind_walk *w = walk_of(slot);
	u32 i, last;

	if (!w || !begin_in_mm(w))
		return 0;
	for (i = 0; i < UNWIND_DEPTH; i++) {
		if (i >= n)
			break;
		last = unwind_locate_frame(slot, i);
		if (last)
			return last;
	}
	return i;
}

/* ---- tables ---- */

static __always_inline struct unwind_segment *segment_of(u32 word)
{
	u32 number = word / UNWIND_SEGMENT_WORDS, zero = 0;
	void *segment = bpf_map_lookup_elem(&unwind_tables, &number);

	return segment ? bpf_map_lookup_elem(segment, &zero) : NULL;
}

#define UNWIND_WORD(segment, at) ((segment)->words[(at) & (UNWIND_SEGMENT_WORDS - 1)])
#define UNWIND_SEARCH		 17 /* steps, for all rows of a page */

/* The number of the rule for w->pc, in a file with a table; 0: none. */
__attribute__((noinline)) int unwind_find_rule(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	struct unwind_segment *segment;
	struct unwind_mapping *m;
	u32 page, first, low, i;
	u64 offset;

	if (!w)
		return 0;
	m = &w->mappings[w->at & (UNWIND_CACHED - 1)];
	offset = w->pc + m->bias;
	page = (u32)(offset >> 16) - m->file.first_page;
	if (offset >> 32 || page >= m->file.pages)
		return 0;
	segment = segment_of(m->file.table);
	if (!segment)
		return 0;
	first = UNWIND_WORD(segment, m->file.table + 2 * page);
	w->hi = UNWIND_WORD(segment, m->file.table + 2 * page + 1);
	w->lo = 0;
	segment = segment_of(first);
	if (!segment)
		return 0;
	low = offset & 0xffff;
	for (i = 0; i < UNWIND_SEARCH; i++) {
		u32 lo = w->lo, hi = w->hi, middle = (lo + hi) / 2;

		if (lo >= hi)
			break;
		if (UNWIND_WORD(segment, first + middle) >> 16 <= low)
			w->lo = middle + 1;
		else
			w->hi = middle;
	}
	return w->lo ? UNWIND_WORD(segment, first + w->lo - 1) & 0xffff : 0;
}

/* With the generation it identifies a location in a file uniquely. */
static __always_inline u64 key_of_place(const struct unwind_mapping *m, u64 offset)
{
	return offset << 32 | m->file.table;
}

static __always_inline struct unwind_known *known_at(struct unwind_walk *w, u64 offset)
{
	return &w->known[(u32)offset * 0x9e3779b1U >> 25 & (UNWIND_KNOWN - 1)];
}

static __always_inline bool is_known(const struct unwind_known *known,
				     const struct unwind_mapping *m, u64 offset)
{
	return !(offset >> 32) && known->key == key_of_place(m, offset) &&
	       known->generation == m->file.generation;
}

/* If it is saved, is it at the CFA or not far below it? *bytes is raised to the distance. */
static __always_inline bool is_close(u32 how, s32 offset, u32 *bytes)
{
	if (how == UNWIND_SAME)
		return true;
	if (how != UNWIND_SAVED || offset > 0 || offset < -UNWIND_BELOW || offset & 7)
		return false;
	if ((u32)-offset > *bytes)
		*bytes = (u32)-offset;
	return true;
}

/* How far below the CFA unwind_run() has to read; 0: it does not support this kind of rule. */
static __always_inline u32 bytes_below(const struct unwind_rule *rule)
{
	u32 bytes = 8;

	if ((rule->cfa != UNWIND_SP && rule->cfa != UNWIND_FP) || rule->ra != UNWIND_SAVED ||
	    rule->ra_off != -8 || !is_close(rule->fp, rule->fp_off, &bytes) ||
	    !is_close(rule->bx, rule->bx_off, &bytes))
		return 0;
	return bytes;
}

/* Sets w->rule.  enum unwind_stop. */
static __always_inline u32 set_rule(struct unwind_walk *w, u32 slot)
{
	const struct unwind_mapping *m = &w->mappings[w->at & (UNWIND_CACHED - 1)];
	u64 offset = w->pc + m->bias;
	struct unwind_known *known;
	struct unwind_rule *rule;
	u32 number;

	if (m->file.state != UNWIND_HAS_TABLE) {
		w->rule.cfa = UNWIND_POINTERS;
		return UNWIND_WHOLE;
	}
	known = known_at(w, offset);
	if (is_known(known, m, offset)) {
		w->rule = known->rule;
		return UNWIND_WHOLE;
	}
	number = unwind_find_rule(slot);
	rule = bpf_map_lookup_elem(&unwind_rules, &number);
	if (!rule)
		return UNWIND_STOP_NO_RULE;
	w->rule = *rule;
	if (offset >> 32)
		return UNWIND_WHOLE;
	known->rule = *rule;
	known->key = key_of_place(m, offset);
	known->generation = m->file.generation;
	known->below = bytes_below(rule);
	return UNWIND_WHOLE;
}

/* ---- steps ---- */

#if defined(UNWIND_REG_IP)

/*
 * Code without a table at a return address: does it leave its frame at once, by "add $N, %rsp;
 * ret"?  The trampolines of CPython (-X perf) do so; they pass the frame pointer on to their
 * callees.  The bytes read are the instructions that will run.
 */
static __always_inline bool step_by_epilogue(struct unwind_walk *w)
{
#if defined(bpf_target_x86)
	u64 code, sp, ip;

	if (!read_user(&code, w->ip) || (code & 0xff80ffffffULL) != 0xc300c48348ULL)
		return false;
	sp = w->sp + (code >> 24 & 0x7f);
	if (!read_user(&ip, sp))
		return false;
	w->ip = ip;
	w->sp = sp + 8;
	return true;
#else
	return false;
#endif
}

/* By the frame pointer: it points to its caller's, and the return address above it. */
static __always_inline u32 step_by_pointer(struct unwind_walk *w)
{
	u64 fp = w->fp;

	/* It may lead to any address: to another stack (coroutines, Go's systemstack). */
	if (!fp || fp & 7)
		return UNWIND_STOP_NO_RULE;
	if (!read_user(&w->ip, fp + 8) || !read_user(&w->fp, fp))
		return UNWIND_STOP_UNREAD;
	/* A register that code uses for something else may point to zeros. */
	if (!w->ip && !w->fp_links)
		return UNWIND_STOP_NO_RULE;
	w->sp = fp + 16;
	w->no_sp = !UNWIND_FP_SAYS_SP;
	w->fp_links = 1;
	w->ip = UNWIND_ADDRESS(w->ip);
	return UNWIND_WHOLE;
}

/* The part that w->rule cannot describe by itself. enum unwind_stop. */
static __always_inline u32 adapt_rule(struct unwind_walk *w)
{
	u64 code;

	if (UNWIND_SIGRETURN && (w->rule.cfa == UNWIND_NONE || w->rule.cfa == UNWIND_POINTERS) &&
	    read_user(&code, w->ip) && code == UNWIND_SIGRETURN)
		w->rule.cfa = UNWIND_SIGNAL;
	if (UNWIND_FP_SAYS_SP || !w->no_sp)
		return UNWIND_WHOLE;
	if (w->rule.cfa == UNWIND_SIGNAL ||
	    (w->rule.cfa == UNWIND_SP && w->rule.fp != UNWIND_SAVED))
		return UNWIND_STOP_NO_RULE;
	if (w->rule.cfa == UNWIND_SP)
		w->rule.cfa = UNWIND_POINTERS;
	return UNWIND_WHOLE;
}

static __always_inline u32 step_over_signal(struct unwind_walk *w)
{
	u64 sp = w->sp;

	if (!read_user(&w->ip, sp + UNWIND_SIGNAL_IP) ||
	    !read_user(&w->fp, sp + UNWIND_SIGNAL_FP) ||
	    !read_user(&w->bx, sp + UNWIND_SIGNAL_BX) ||
	    !read_user(&w->aux, sp + UNWIND_SIGNAL_AUX) ||
	    !read_user(&w->sp, sp + UNWIND_SIGNAL_SP))
		return UNWIND_STOP_UNREAD;
	w->has_aux = 1;
	w->is_call = w->no_sp = w->fp_links = 0;
	return UNWIND_WHOLE;
}

/* The caller's value of a register that is @value here. */
static __always_inline bool restore(u64 cfa, u64 fp, u32 how, s32 offset, u64 *value)
{
	if (how == UNWIND_SAME)
		return true;
	if (how == UNWIND_SAVED_FP)
		return read_user(value, fp + (s64)offset);
	return how == UNWIND_SAVED && read_user(value, cfa + (s64)offset);
}

static __always_inline bool find_cfa(struct unwind_walk *w, u64 *cfa)
{
	s64 offset = w->rule.cfa_off;

	switch (w->rule.cfa) {
	case UNWIND_SP:
		*cfa = w->sp + offset;
		return true;
	case UNWIND_FP:
		*cfa = w->fp + offset;
		return true;
	case UNWIND_BX:
		*cfa = w->bx + offset;
		return true;
	case UNWIND_PLT:
		*cfa = w->sp + 8 + ((w->ip & 15) >= (u64)offset ? 8 : 0);
		return true;
	default: /* UNWIND_AT_FP */
		return read_user(cfa, w->fp + offset);
	}
}

/* Goes to the caller, by w->rule. enum unwind_stop. */
__attribute__((noinline)) int unwind_step(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	u64 cfa = 0, fp, ip;

	if (!w)
		return UNWIND_STOP_UNREAD;
	fp = w->fp;
	/* It may be below the stack pointer: on the stack from which the program has switched. */
	if (!find_cfa(w, &cfa))
		return UNWIND_STOP_UNREAD;
	ip = w->aux;
	if ((w->rule.ra == UNWIND_SAME || w->rule.ra == UNWIND_IN_DI) && !w->has_aux)
		return UNWIND_STOP_EXPRESSION;
	if (w->rule.ra != UNWIND_IN_DI && !restore(cfa, fp, w->rule.ra, w->rule.ra_off, &ip))
		return UNWIND_STOP_UNREAD;
	/* Unknown registers may never be needed. */
	if (!restore(cfa, fp, w->rule.fp, w->rule.fp_off, &w->fp))
		w->fp = 0;
	if (!restore(cfa, fp, w->rule.bx, w->rule.bx_off, &w->bx))
		w->bx = 0;
	w->ip = UNWIND_ADDRESS(ip);
	w->sp = cfa;
	w->no_sp = w->fp_links = 0;
	return UNWIND_WHOLE;
}

/* A return address never points to the first instruction of a function with no code before it:
 * makecontext() put the address there, and the frame is the outermost one. enum unwind_stop. */
__attribute__((noinline)) int unwind_without_rule(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	u64 *frames = unwind_frames(slot);
	u64 at, pc;

	if (!w || !frames)
		return UNWIND_STOP_NO_RULE;
	at = w->frame;
	pc = w->pc;
	w->pc = w->ip;
	barrier_var(at);
	if (!at || at >= UNWIND_DEPTH || !unwind_find_rule(slot))
		return UNWIND_STOP_NO_RULE;
	frames[at] += w->ip - pc;
	return UNWIND_WHOLE;
}

/* Stores the frame at w->pc, of mapping w->at, at @depth: returns the number of words. */
static __always_inline u32 put_frame(struct unwind_walk *w, u64 *frames, u32 depth, bool is_mapped)
{
	const struct unwind_mapping *m = &w->mappings[w->at & (UNWIND_CACHED - 1)];
	u64 at = depth, offset = w->pc + m->bias;

	/* The mask makes this a number of its own.  If a copy is incremented and compared, Linux
	 * 6.12.118 applies the result to the original, which loses its bounds. */
	barrier_var(at);
	at &= UNWIND_DEPTH;
	barrier_var(at);
	if (at >= UNWIND_DEPTH)
		return 0;
	if (!is_mapped) {
		frames[at] = w->pc;
		return 1;
	}
	if (m->number && !(offset >> UNWIND_OFFSET_BITS)) {
		frames[at] = UNWIND_FRAME(m->number, offset);
		return 1;
	}
	frames[at] = UNWIND_IN_MEMORY | (w->pc - m->start);
	at++;
	barrier_var(at);
	if (at >= UNWIND_DEPTH)
		return 1;
	frames[at] = m->start;
	return 2;
}

/* Stores a frame and goes to its caller. 0, or 1: no caller, or w->stop says why it is unknown. */
__attribute__((noinline)) int unwind_frame(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	u64 *frames = unwind_frames(slot);
	u32 depth;

	if (!w || !frames)
		return 1;
	depth = w->depth;
	if (!w->ip || depth >= UNWIND_DEPTH)
		return 1;
	w->pc = w->is_call ? w->ip - 1 : w->ip;
	w->stop = unwind_map(slot);
	/* An address that is not code is not a frame, except the leaf's. */
	if (w->stop == UNWIND_STOP_UNMAPPED && depth)
		return 1;
	w->frame = depth;
	w->depth = depth + put_frame(w, frames, depth, w->stop != UNWIND_STOP_UNMAPPED);
	w->no_table = w->stop == UNWIND_STOP_NO_TABLE;
	if (w->no_table) {
		w->stop = UNWIND_WHOLE;
		w->rule.cfa = UNWIND_POINTERS;
	} else if (!w->stop) {
		w->stop = set_rule(w, slot);
	}
	if (!w->stop)
		w->stop = adapt_rule(w);
	if (w->stop)
		return 1;
	w->is_call = 1;
	switch (w->rule.cfa) {
	case UNWIND_END:
		return 1;
	case UNWIND_NONE:
		w->stop = unwind_without_rule(slot);
		return 1;
	case UNWIND_EXPRESSION:
		w->stop = UNWIND_STOP_EXPRESSION;
		return 1;
	case UNWIND_POINTERS:
		if (depth && step_by_epilogue(w))
			break;
		w->doubt |= w->no_table;
		if (!w->fp && w->fp_links)
			return 1; /* the ABI's mark of the outermost frame */
		w->stop = step_by_pointer(w);
		break;
	case UNWIND_SIGNAL:
		/* Not a return address: it is the first instruction. */
		if (depth < UNWIND_DEPTH)
			frames[depth] += w->ip - w->pc;
		w->stop = step_over_signal(w);
		return w->stop != 0;
	default:
		w->stop = unwind_step(slot);
	}
	w->has_aux = 0;
	return w->stop != 0;
}

/*
 * Continues like unwind_frame(), through frames with a known mapping and rule and with registers
 * saved close to the CFA.  Most frames are like this, and this takes a fifth of the time: no
 * function is called, and several frames are read at once.
 */
__attribute__((noinline)) int unwind_run(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	u64 *frames = unwind_frames(slot);
	u64 ip, sp, fp, bx, window = 0;
	u32 i;

	if (!w || !frames || w->no_sp || w->has_aux)
		return 0;
	ip = w->ip;
	sp = w->sp;
	fp = w->fp;
	bx = w->bx;
	for (i = 0; i < UNWIND_RUN; i++) {
		struct unwind_mapping *m = &w->mappings[w->at & (UNWIND_CACHED - 1)];
		u64 depth = w->depth, pc = ip - 1, offset, cfa, top;
		struct unwind_known *known;
		u32 below;

		if (pc < m->start || pc >= m->end) {
			if (!find_cached(w, pc))
				break;
			m = &w->mappings[w->at & (UNWIND_CACHED - 1)];
		}
		offset = pc + m->bias;
		known = known_at(w, offset);
		below = known->below;
		if (m->file.state != UNWIND_HAS_TABLE || !m->number ||
		    !is_known(known, m, offset) || !below)
			break;
		cfa = (known->rule.cfa == UNWIND_SP ? sp : fp) + known->rule.cfa_off;
		top = cfa - window;
		if (top < below || top > 8 * (UNWIND_WINDOW - 1) || top & 7) {
			window = cfa - below;
			top = below;
			if (bpf_probe_read_user(w->window, sizeof(w->window), (void *)window))
				break;
		}
		barrier_var(depth);
		if (depth >= UNWIND_DEPTH)
			break;
		frames[depth] = UNWIND_FRAME(m->number, offset);
		ip = UNWIND_ADDRESS(UNWIND_WORD_OF(w, top - 8));
		if (known->rule.fp == UNWIND_SAVED)
			fp = UNWIND_WORD_OF(w, top + known->rule.fp_off);
		if (known->rule.bx == UNWIND_SAVED)
			bx = UNWIND_WORD_OF(w, top + known->rule.bx_off);
		sp = cfa;
		w->depth = (u32)depth + 1;
		w->fp_links = 0;
	}
	w->ip = ip;
	w->sp = sp;
	w->fp = fp;
	w->bx = bx;
	return 0;
}

/* Do the registers of the current task say where it is in user space?  Then its walk begins. */
__attribute__((noinline)) int unwind_begin(u32 slot)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct unwind_walk *w = walk_of(slot);

	if (!w)
		return 0;
	w->depth = w->stop = w->is_call = w->doubt = w->no_sp = 0;
	w->fp_links = 0;
	w->has_aux = 1;
	if (!begin_in_mm(w) || BPF_CORE_READ(task, flags) & (PF_KTHREAD | PF_IO_WORKER) ||
	    !read_user_regs(thread_size, &w->regs))
		return 0;
	w->ip = UNWIND_REG_IP(&w->regs);
	w->sp = UNWIND_REG_SP(&w->regs);
	w->fp = UNWIND_REG_FP(&w->regs);
	w->bx = UNWIND_REG_BX(&w->regs);
	w->aux = UNWIND_REG_AUX(&w->regs);
	return w->ip != 0;
}

static __always_inline bool is_in_execve(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return bpf_core_field_exists(task->in_execve) &&
	       BPF_CORE_READ_BITFIELD_PROBED(task, in_execve);
}

/* After the frames: why the stack ends early, and a 0 if there is room.  Returns the number of
 * words, including the reason. */
__attribute__((noinline)) int unwind_end(u32 slot)
{
	struct unwind_walk *w = walk_of(slot);
	u64 *frames = unwind_frames(slot);
	u32 depth, stop;

	if (!w || !frames)
		return 0;
	depth = w->depth;
	/* execve() has just replaced the program and its stack. */
	if (w->stop == UNWIND_STOP_UNMAPPED && depth == 1 && is_in_execve())
		return 0;
	/* If a function does not keep the frame pointer, it belongs to a caller further out. */
	stop = w->doubt ? UNWIND_STOP_NO_TABLE : w->stop & (STOPS_ROOM - 1);
	barrier_var(stop);
	if (stop)
		count_loss(&unwind_stops[stop & (STOPS_ROOM - 1)], 1);
	if (stop && depth < UNWIND_DEPTH)
		frames[depth++] = stop;
	if (depth < UNWIND_DEPTH)
		frames[depth] = 0;
	return depth;
}

/* Stores the current user stack, leaf first, at unwind_frames(@slot), followed by the reason if it
 * ends early.  Returns the number of both; 0: no user stack; -1: to be read without tables. */
static __always_inline long unwind_user(u32 slot)
{
	u32 i;

	if (is_compat_task(user_regs(thread_size)))
		return -1;
	if (!unwind_begin(slot))
		return 0;
	for (i = 0; i < UNWIND_DEPTH; i++) {
		if (unwind_frame(slot))
			break;
		unwind_run(slot);
	}
	return unwind_end(slot);
}

#else /* a processor with unknown registers */

static __always_inline long unwind_user(u32 slot)
{
	return -1;
}

#endif

#endif
