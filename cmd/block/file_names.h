/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of the files that rows are about: what probes/file_names.bpf.h has stored. */
#ifndef IOTRACE_CMD_BLOCK_FILE_NAMES_H
#define IOTRACE_CMD_BLOCK_FILE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/naming/disks.h"
#include "probes/bio_file.h"

struct file_names;

/* Files that may have rows between two drains, 808 bytes each, in each of two maps. */
#define FILE_NAMES 16384

/*
 * @disks outlives it.  @remembers: file_names_get() also finds names of earlier drains, as far as
 * there is room, and its result is valid until the next drain only.  0 or -ENOMEM.
 */
int file_names_open(struct disks *disks, bool remembers, struct file_names **out);
void file_names_free(struct file_names *names);

/* Takes the names out of the inactive map @fd: they replace the names of the drain before, or are
 * added to them.  Returns how many there are, or -errno. */
int file_names_drain(struct file_names *names, int fd);

/*
 * The path of the file @id, or in [brackets] why it has none; of what has no data "-".  Valid until
 * file_names_forget(), see above; the same name is the same string until then.  Never NULL.
 */
const char *file_names_get(struct file_names *names, const struct file_id *id);

/* files_dir() of @file, a name like the one before. */
const char *file_names_dir(struct file_names *names, const char *file, unsigned int depth);

/* Is so much memory in use that unused names should be forgotten? */
bool file_names_are_many(const struct file_names *names);

/* Begins anew without names: after this only file_names_keep() makes the strings valid. */
void file_names_begin_keep(struct file_names *names);
const char *file_names_keep(struct file_names *names, const char *text);
void file_names_end_keep(struct file_names *names);

/* No returned name is in use any more. */
void file_names_forget(struct file_names *names);

#endif
