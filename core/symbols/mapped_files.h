/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_MAPPED_FILES_H
#define IOTRACE_CORE_SYMBOLS_MAPPED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/symbols/address_spaces.h"
#include "core/isolation/bounded.h"
#include "core/isolation/open_regular.h"

/* Reads /proc/PID/maps, as bounded_read() does; what has MAPS_SIZE is cut off.  -ENOENT: the
 * process is gone, or hidden. */
#define MAPS_SIZE (8UL << 20)
int read_maps_text(uint32_t pid, struct bounded_text *out);

/*
 * Where the files of mappings are found: in our own root directory, and in those of containers and
 * chroots, which are kept open, as their processes come and go.
 */
#define SPACE_ROOTS 64

struct space_root {
	struct root_id id;
	int fd;
};

struct address_space_files {
	struct space_root own; /* fd -errno: it cannot be opened */
	struct space_root roots[SPACE_ROOTS];
	size_t n, next;
};

void address_space_files_open(struct address_space_files *f);
void address_space_files_close(struct address_space_files *f);

/* Keeps the root directory of process @pid, if it is another than ours. */
void address_space_files_note_root(struct address_space_files *f, uint32_t pid);

/* One search, for the file of one mapping. */
struct file_search {
	const struct address_space_files *files;
	const struct mapping *mapping;
	uint32_t pid;
	unsigned int step;
	int process_root; /* -errno: it is ours, or the process has ended */
	int kept_root;	  /* -errno; its own descriptor: @files may change meanwhile */
	int root;	  /* in which the last file was found */
};

/* @files and @m are borrowed; file_search_end() closes what the search holds. */
void file_search_begin(struct file_search *search, const struct address_space_files *files,
		       uint32_t pid, const struct mapping *m);
void file_search_end(struct file_search *search);

/*
 * The next file that may be the one that was mapped: the target of the mapping itself while
 * the process lives; then the file at its path in the root of the process, in ours, in those that
 * are kept; then the mapping that begins there now.  Its inode matches; its build id is not
 * compared; in another root than ours it is foreign.  What has no path is only found as it is
 * mapped.  0 with *@out, which opened_file_close() closes, or -ENOENT: there are no more.
 */
int file_search_next(struct file_search *search, struct opened_file *out);

/* The roots in which the debug file of the last file is looked for, in this order; their number.
 * Good until file_search_end(). */
size_t file_search_roots(const struct file_search *search, int roots[2]);

#endif
