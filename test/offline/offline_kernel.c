// SPDX-License-Identifier: GPL-2.0-or-later
#include "test/offline/offline_kernel.h"

#include <errno.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>

#define MAX_LACKS 8

/* Read by libbpf and not by core/bpf/kernel_types.h: here speed does not matter, and all modules
 * are wanted.
 */
struct piece {
	char *name;
	struct btf *btf;
};

struct offline_kernel {
	char path[4096];      /* of vmlinux */
	struct piece *pieces; /* vmlinux first */
	size_t n;
	char lacks[MAX_LACKS][16];
	size_t n_lacks;
};

/* ---- reading ---- */

/* "DIR/ext4.btf" -> "ext4" */
static char *module_name(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	return strndup(name, strlen(name) - strlen(".btf"));
}

static int read_piece(struct offline_kernel *k, const char *path, char *name, struct error *err)
{
	struct piece *piece = &k->pieces[k->n];

	if (!name)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	piece->name = name;
	piece->btf = k->n ? btf__parse_split(path, k->pieces[0].btf) : btf__parse(path, NULL);
	k->n++; /* freed with the others from now on */
	if (piece->btf)
		return 0;
	return error_set(err, STATUS_USAGE, -errno, "cannot read the type information %s: %s", path,
			 strerror(errno));
}

static int read_modules(struct offline_kernel *k, const glob_t *found, struct error *err)
{
	int r = 0;

	for (size_t i = 0; !r && i < found->gl_pathc; i++)
		r = read_piece(k, found->gl_pathv[i], module_name(found->gl_pathv[i]), err);
	return r;
}

static int read_types(struct offline_kernel *k, const char *dir, struct error *err)
{
	glob_t found = { 0 };
	char path[4096];
	int r;

	snprintf(path, sizeof(path), "%s/*.btf", dir);
	if (glob(path, 0, NULL, &found))
		found.gl_pathc = 0;
	k->pieces = calloc(found.gl_pathc + 1, sizeof(*k->pieces));
	if (!k->pieces) {
		globfree(&found);
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	}
	snprintf(k->path, sizeof(k->path), "%s/vmlinux", dir);
	r = read_piece(k, k->path, strdup("vmlinux"), err);
	if (!r)
		r = read_modules(k, &found, err);
	globfree(&found);
	return r;
}

static int read_lacks(struct offline_kernel *k, const char *dir, struct error *err)
{
	char path[4096], word[sizeof(k->lacks[0])];
	FILE *file;
	int r = 0;

	snprintf(path, sizeof(path), "%s/lacks", dir);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (!r && fscanf(file, "%15s", word) == 1) {
		if (strcmp(word, "kprobe") != 0 && strcmp(word, "fentry") != 0)
			r = error_set(err, STATUS_USAGE, -EINVAL,
				      "%s: '%s' is not kprobe or fentry", path, word);
		else if (k->n_lacks < MAX_LACKS)
			memcpy(k->lacks[k->n_lacks++], word, sizeof(word));
	}
	fclose(file);
	return r;
}

int offline_kernel_open(const char *dir, struct offline_kernel **out, struct error *err)
{
	struct offline_kernel *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	r = read_types(k, dir, err);
	if (!r)
		r = read_lacks(k, dir, err);
	if (!r)
		*out = k;
	else
		offline_kernel_free(k);
	return r;
}

void offline_kernel_free(struct offline_kernel *k)
{
	if (!k)
		return;
	/* The base is needed until those on top of it are gone. */
	while (k->n--) {
		btf__free(k->pieces[k->n].btf);
		free(k->pieces[k->n].name);
	}
	free(k->pieces);
	free(k);
}

/* ---- questions ---- */

const char *offline_kernel_path(const struct offline_kernel *k)
{
	return k->path;
}

const struct btf *offline_kernel_btf(const struct offline_kernel *k, size_t i, const char **name)
{
	if (i >= k->n)
		return NULL;
	if (name)
		*name = k->pieces[i].name;
	return k->pieces[i].btf;
}

/* Has the piece @btf a type @name of @kind among its own, which begin with @start? */
static bool has_type(const struct btf *btf, uint32_t start, const char *name, uint32_t kind)
{
	for (uint32_t id = start; id < btf__type_cnt(btf); id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (btf_kind(t) == kind && strcmp(btf__name_by_offset(btf, t->name_off), name) == 0)
			return true;
	}
	return false;
}

static int find(const struct offline_kernel *k, const char *name, uint32_t kind, const char *module)
{
	uint32_t start = btf__type_cnt(k->pieces[0].btf);

	if (has_type(k->pieces[0].btf, 1, name, kind))
		return 0;
	for (size_t i = 1; i < k->n; i++)
		if ((!module || strcmp(k->pieces[i].name, module) == 0) &&
		    has_type(k->pieces[i].btf, start, name, kind))
			return 0;
	return k->n == 1 ? -ENODATA : -ENOENT;
}

int offline_kernel_tracepoint(const struct offline_kernel *k, const char *name)
{
	char typedef_name[128];

	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	return find(k, typedef_name, BTF_KIND_TYPEDEF, NULL);
}

int offline_kernel_function(const struct offline_kernel *k, const char *name, const char *module)
{
	return find(k, name, BTF_KIND_FUNC, module);
}

bool offline_kernel_lacks(const struct offline_kernel *k, const char *what)
{
	for (size_t i = 0; i < k->n_lacks; i++)
		if (strcmp(k->lacks[i], what) == 0)
			return true;
	return false;
}
