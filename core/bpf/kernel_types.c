// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/kernel_types.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/bpf/kernel_types_internal.h"
#include "core/system/limits.h"

#define VMLINUX_BTF  "/sys/kernel/btf/vmlinux"
#define TRACE_PREFIX "btf_trace_"

/* ---- reading ---- */

/* Bytes behind the fixed part of a type; -1 for a kind that is not known. */
long btf_extra_size(const struct btf_type *t)
{
	size_t n = BTF_INFO_VLEN(t->info);

	switch (BTF_INFO_KIND(t->info)) {
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	case BTF_KIND_INT:
		return sizeof(uint32_t);
	case BTF_KIND_VAR:
		return sizeof(struct btf_var);
	case BTF_KIND_DECL_TAG:
		return sizeof(struct btf_decl_tag);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return (long)(n * sizeof(struct btf_member));
	case BTF_KIND_ENUM:
		return (long)(n * sizeof(struct btf_enum));
	case BTF_KIND_ENUM64:
		return (long)(n * sizeof(struct btf_enum64));
	case BTF_KIND_FUNC_PROTO:
		return (long)(n * sizeof(struct btf_param));
	case BTF_KIND_DATASEC:
		return (long)(n * sizeof(struct btf_var_secinfo));
	}
	return -1;
}

const struct btf_type *kernel_type(const struct kernel_types *k, uint32_t id)
{
	return id && id < k->n ? (const struct btf_type *)(k->types + k->offsets[id]) : NULL;
}

const char *kernel_string(const struct kernel_types *k, uint32_t offset)
{
	return offset < k->strings_size ? k->strings + offset : "";
}

/* The file's bytes: mapped where the kernel can (6.16 and later), else read. */
static int get_bytes(struct kernel_types *k, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), r = 0;
	struct stat st;
	size_t have = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(struct btf_header)) {
		r = -EINVAL;
		goto out;
	}
	k->size = (size_t)st.st_size;
	k->bytes = mmap(NULL, k->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (k->bytes != MAP_FAILED)
		goto out;
	k->bytes = mmap(NULL, k->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (k->bytes == MAP_FAILED) {
		k->bytes = NULL;
		r = -ENOMEM;
		goto out;
	}
	while (have < k->size) {
		ssize_t n = read(fd, (char *)k->bytes + have, k->size - have);

		if (n <= 0) {
			r = n ? -errno : -EINVAL;
			break;
		}
		have += (size_t)n;
	}
out:
	close(fd);
	return r;
}

static int check_header(struct kernel_types *k)
{
	const struct btf_header *h = k->bytes;

	if (!h || h->magic != BTF_MAGIC || h->hdr_len > k->size ||
	    (uint64_t)h->hdr_len + h->type_off + h->type_len > k->size ||
	    (uint64_t)h->hdr_len + h->str_off + h->str_len > k->size || !h->str_len)
		return -EINVAL;
	k->types = (const char *)k->bytes + h->hdr_len + h->type_off;
	k->types_size = h->type_len;
	k->strings = (const char *)k->bytes + h->hdr_len + h->str_off;
	k->strings_size = h->str_len;
	return k->strings[k->strings_size - 1] ? -EINVAL : 0;
}

static int note_tracepoint(struct kernel_types *k, uint32_t id)
{
	uint32_t *grown;

	if (k->n_tracepoints % 1024 == 0) {
		grown = realloc(k->tracepoints, (k->n_tracepoints + 1024) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		k->tracepoints = grown;
	}
	k->tracepoints[k->n_tracepoints++] = id;
	return 0;
}

/* One walk over all types: where each stands, and which are tracepoints. */
static int index_types(struct kernel_types *k)
{
	size_t at = 0;

	k->offsets = malloc((k->types_size / sizeof(struct btf_type) + 1) * sizeof(*k->offsets));
	if (!k->offsets)
		return -ENOMEM;
	for (k->n = 1; at + sizeof(struct btf_type) <= k->types_size; k->n++) {
		const struct btf_type *t = (const void *)(k->types + at);
		long extra = btf_extra_size(t);

		if (extra < 0 || at + sizeof(*t) + (size_t)extra > k->types_size)
			return -EINVAL;
		k->offsets[k->n] = (uint32_t)at;
		at += sizeof(*t) + (size_t)extra;
		if (BTF_INFO_KIND(t->info) == BTF_KIND_TYPEDEF &&
		    strncmp(kernel_string(k, t->name_off), TRACE_PREFIX,
			    sizeof(TRACE_PREFIX) - 1) == 0 &&
		    note_tracepoint(k, k->n))
			return -ENOMEM;
	}
	return 0;
}

int kernel_types_open(const char *path, struct kernel_types **out, struct error *err)
{
	struct kernel_types *k = calloc(1, sizeof(*k));
	int r = k ? 0 : -ENOMEM;

	if (!path)
		path = VMLINUX_BTF;
	if (!r)
		r = get_bytes(k, path);
	if (!r)
		r = check_header(k);
	if (!r)
		r = index_types(k);
	if (!r) {
		*out = k;
		return 0;
	}
	kernel_types_free(k);
	if (limits_is_shortage(r))
		return limits_error(r, "read the kernel's type information", err);
	return error_set(err, STATUS_UNSUPPORTED, r,
			 "cannot use the kernel's type information (%s): %s", path, strerror(-r));
}

void kernel_types_free(struct kernel_types *k)
{
	if (!k)
		return;
	if (k->bytes)
		munmap(k->bytes, k->size);
	free(k->offsets);
	free(k->tracepoints);
	free(k);
}

/* ---- questions ---- */

int kernel_types_tracepoint(const struct kernel_types *k, const char *name)
{
	for (size_t i = 0; i < k->n_tracepoints; i++) {
		const struct btf_type *t = kernel_type(k, k->tracepoints[i]);

		if (strcmp(kernel_string(k, t->name_off) + sizeof(TRACE_PREFIX) - 1, name) == 0)
			return (int)k->tracepoints[i];
	}
	return -ENOENT;
}

int kernel_types_tracepoint_args(const struct kernel_types *k, const char *name)
{
	int id = kernel_types_tracepoint(k, name);
	const struct btf_type *t;

	if (id < 0)
		return id;
	t = kernel_type(k, kernel_type(k, (uint32_t)id)->type); /* the typedef's pointer */
	t = t ? kernel_type(k, t->type) : NULL;
	if (!t || BTF_INFO_KIND(t->info) != BTF_KIND_FUNC_PROTO || !BTF_INFO_VLEN(t->info))
		return -ENOENT;
	return (int)BTF_INFO_VLEN(t->info) - 1;
}

int kernel_types_function(const struct kernel_types *k, const char *name)
{
	for (uint32_t id = 1; id < k->n; id++) {
		const struct btf_type *t = kernel_type(k, id);

		if (BTF_INFO_KIND(t->info) == BTF_KIND_FUNC &&
		    strcmp(kernel_string(k, t->name_off), name) == 0)
			return (int)id;
	}
	return -ENOENT;
}

/* The types of a module go on where the kernel's end, and so do their strings. */
static const char *module_string(const struct kernel_types *k, const struct kernel_types *module,
				 uint32_t offset)
{
	return offset < k->strings_size ? kernel_string(k, offset)
					: kernel_string(module, offset - (uint32_t)k->strings_size);
}

int kernel_types_module_function(const struct kernel_types *k, const char *path, const char *name)
{
	struct kernel_types *module = NULL;
	int r = kernel_types_open(path, &module, NULL);

	if (!module)
		return r;
	r = -ENOENT;
	for (uint32_t id = 1; r < 0 && id < module->n; id++) {
		const struct btf_type *t = kernel_type(module, id);

		if (BTF_INFO_KIND(t->info) == BTF_KIND_FUNC &&
		    strcmp(module_string(k, module, t->name_off), name) == 0)
			r = (int)(k->n - 1 + id);
	}
	kernel_types_free(module);
	return r;
}

bool kernel_types_has_member(const struct kernel_types *k, const char *type, const char *member)
{
	for (uint32_t id = 1; id < k->n; id++) {
		const struct btf_type *t = kernel_type(k, id);
		const struct btf_member *m = (const void *)(t + 1);

		if (BTF_INFO_KIND(t->info) != BTF_KIND_STRUCT ||
		    strcmp(kernel_string(k, t->name_off), type) != 0)
			continue;
		for (uint32_t i = 0; i < BTF_INFO_VLEN(t->info); i++)
			if (strcmp(kernel_string(k, m[i].name_off), member) == 0)
				return true;
	}
	return false;
}

/* Do the names of this enum begin like one of @names?  Those of one enum begin alike, so it
 * is enough to look at the first. */
static bool begins_alike(const struct kernel_types *k, const struct btf_enum *first,
			 const char *const *names, size_t n)
{
	const char *name = kernel_string(k, first->name_off);

	for (size_t i = 0; i < n; i++)
		if (strncmp(name, names[i], 3) == 0)
			return true;
	return false;
}

void kernel_types_enumerators(const struct kernel_types *k, const char *const *names, int *values,
			      size_t n)
{
	for (uint32_t id = 1; id < k->n; id++) {
		const struct btf_type *t = kernel_type(k, id);
		const struct btf_enum *e = (const void *)(t + 1);
		uint32_t vlen = BTF_INFO_VLEN(t->info);

		if (BTF_INFO_KIND(t->info) != BTF_KIND_ENUM || !vlen ||
		    !begins_alike(k, e, names, n))
			continue;
		for (uint32_t i = 0; i < vlen; i++)
			for (size_t j = 0; j < n; j++)
				if (strcmp(kernel_string(k, e[i].name_off), names[j]) == 0)
					values[j] = e[i].val;
	}
}
