// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/file_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/files.h"
#include "core/base/intern.h"
#include "core/base/text.h"
#include "core/bpf/double_buffer.h"
#include "core/naming/mounts.h"

#define NO_DATA	  "-"
#define OTHERS	  "(other)"
#define NO_MEMORY "[out of memory]"

/* Of names without rows. */
#define MEMORY_MAX (32 << 20)

/* Of names of earlier drains, twice. */
#define REMEMBERED_MAX (4 << 20)

/* What the last drain brought, by its file. */
struct drained {
	struct file_id id;
	uint64_t text; /* a pointer into `texts` */
};

struct file_names {
	struct disks *disks;
	struct mounts *mounts;
	struct text_set texts, old; /* old: between begin_keep and end_keep; or of `older` */
	struct intern drained, older;
	bool remembers;
	size_t bytes; /* stored since the last forgetting, the same text each time */
	int n;	      /* so far in this drain */
};

int file_names_open(struct disks *disks, bool remembers, struct file_names **out)
{
	struct file_names *names = calloc(1, sizeof(*names));
	int r;

	if (!names)
		return -ENOMEM;
	names->disks = disks;
	names->remembers = remembers;
	r = mounts_open(NULL, &names->mounts);
	if (r) {
		free(names);
		return r;
	}
	*out = names;
	return 0;
}

void file_names_free(struct file_names *names)
{
	if (!names)
		return;
	file_names_forget(names);
	mounts_free(names->mounts);
	free(names);
}

/* The text of @id; @name NULL: the kernel has not stored a name. */
static const char *text_of(struct file_names *names, const struct file_id *id,
			   const struct file_name *name)
{
	struct file_record record = { .kind = (uint8_t)id->kind,
				      .dev = id->dev,
				      .inode = id->inode };
	const char *text;

	if (id->kind == FILE_NONE)
		return NO_DATA;
	if (id->kind == FILE_OTHERS)
		return OTHERS;
	if (name) {
		record.magic = name->magic;
		record.path_flags = name->path_flags;
		record.path = name->path;
		record.path_bytes = name->path_bytes < FILE_PATH ? name->path_bytes : FILE_PATH;
		if (name->named)
			record.kind = FILE_NAMED;
	}
	text = files_text(&names->texts, &record, names->mounts, names->disks);
	return text ? text : NO_MEMORY;
}

static int take_name(void *ctx, const void *key, const void *value)
{
	struct file_names *names = ctx;
	struct drained drained;
	uint32_t number;

	memset(&drained, 0, sizeof(drained));
	memcpy(&drained.id, key, sizeof(drained.id));
	drained.text = (uintptr_t)text_of(names, &drained.id, value);
	names->bytes += strlen((const char *)(uintptr_t)drained.text);
	names->n++;
	number = intern_keyed(&names->drained, &drained, sizeof(drained), sizeof(drained.id));
	if (number == INTERN_NONE)
		return -ENOMEM;
	/* A name of an earlier drain. */
	memcpy(intern_value(&names->drained, number), &drained.text, sizeof(drained.text));
	return 0;
}

/* Forgets the names of the drain before, or older names if there are many. */
static void age(struct file_names *names)
{
	if (!names->remembers) {
		intern_free(&names->drained);
		return;
	}
	if (text_set_memory(&names->texts) + intern_memory(&names->drained) <= REMEMBERED_MAX)
		return;
	intern_free(&names->older);
	text_set_free(&names->old);
	names->older = names->drained;
	names->old = names->texts;
	names->drained = (struct intern){ 0 };
	names->texts = (struct text_set){ NULL };
}

int file_names_drain(struct file_names *names, int fd)
{
	int r;

	names->n = 0;
	age(names);
	mounts_refresh(names->mounts);
	r = double_buffer_drain_hash(fd, sizeof(struct file_id), sizeof(struct file_name),
				     take_name, names);
	return r ? r : names->n;
}

const char *file_names_get(struct file_names *names, const struct file_id *id)
{
	const struct intern *in = &names->drained;
	uint32_t number = intern_find(in, id, sizeof(*id));
	struct drained drained;

	if (number == INTERN_NONE) {
		in = &names->older;
		number = intern_find(in, id, sizeof(*id));
	}
	if (number == INTERN_NONE)
		return text_of(names, id, NULL);
	memcpy(&drained, intern_key(in, number), sizeof(drained));
	return (const char *)(uintptr_t)drained.text;
}

const char *file_names_dir(struct file_names *names, const char *file, unsigned int depth)
{
	char buf[FILES_DIR_SIZE];
	const char *dir = files_dir(file, depth, buf);
	const char *text = dir == file ? file : text_keep(&names->texts, dir);

	return text ? text : NO_MEMORY;
}

bool file_names_are_many(const struct file_names *names)
{
	return names->bytes > MEMORY_MAX;
}

void file_names_begin_keep(struct file_names *names)
{
	intern_free(&names->drained);
	names->old = names->texts;
	names->bytes = 0;
	names->texts = (struct text_set){ NULL };
}

const char *file_names_keep(struct file_names *names, const char *text)
{
	const char *kept = text_keep(&names->texts, text);

	names->bytes += strlen(text);
	return kept ? kept : NO_MEMORY;
}

void file_names_end_keep(struct file_names *names)
{
	text_set_free(&names->old);
	names->old = (struct text_set){ NULL };
}

void file_names_forget(struct file_names *names)
{
	intern_free(&names->drained);
	intern_free(&names->older);
	text_set_free(&names->texts);
	text_set_free(&names->old);
	names->texts = names->old = (struct text_set){ NULL };
	names->bytes = 0;
}
