// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/kernel_types.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/name_filter.h"
#include "core/bpf/kernel_types_internal.h"
#include "core/system/limits.h"

#define BTF_FOLDER   "/sys/kernel/btf/"
#define VMLINUX_BTF  BTF_FOLDER "vmlinux"
#define TRACE_PREFIX "btf_trace_"

/* ---- reading ---- */

static const struct type_extra known_kinds[] = {
	[BTF_KIND_PTR] = { true, true, 0, 0 },
	[BTF_KIND_FWD] = { true, true, 0, 0 },
	[BTF_KIND_TYPEDEF] = { true, true, 0, 0 },
	[BTF_KIND_VOLATILE] = { true, true, 0, 0 },
	[BTF_KIND_CONST] = { true, true, 0, 0 },
	[BTF_KIND_RESTRICT] = { true, true, 0, 0 },
	[BTF_KIND_FUNC] = { true, true, 0, 0 },
	[BTF_KIND_FLOAT] = { true, true, 0, 0 },
	[BTF_KIND_TYPE_TAG] = { true, true, 0, 0 },
	[BTF_KIND_INT] = { true, true, sizeof(uint32_t), 0 },
	[BTF_KIND_VAR] = { true, true, sizeof(struct btf_var), 0 },
	[BTF_KIND_DECL_TAG] = { true, true, sizeof(struct btf_decl_tag), 0 },
	[BTF_KIND_ARRAY] = { true, true, sizeof(struct btf_array), 0 },
	[BTF_KIND_STRUCT] = { true, true, 0, sizeof(struct btf_member) },
	[BTF_KIND_UNION] = { true, true, 0, sizeof(struct btf_member) },
	[BTF_KIND_ENUM] = { true, true, 0, sizeof(struct btf_enum) },
	[BTF_KIND_ENUM64] = { true, true, 0, sizeof(struct btf_enum64) },
	[BTF_KIND_FUNC_PROTO] = { true, true, 0, sizeof(struct btf_param) },
	[BTF_KIND_DATASEC] = { true, true, 0, sizeof(struct btf_var_secinfo) },
};

size_t type_extra_size(const struct kernel_types *k, const struct btf_type *t)
{
	const struct type_extra *extra = &k->extra[type_kind(t)];

	return extra->fixed + (size_t)type_vlen(t) * extra->each;
}

const struct btf_type *kernel_type(const struct kernel_types *k, uint32_t id)
{
	return id && id < k->n ? (const struct btf_type *)(k->types + k->offsets[id]) : NULL;
}

const char *kernel_string(const struct kernel_types *k, uint32_t offset)
{
	return offset < k->strings_size ? k->strings + offset : "";
}

/* The file's bytes: mapped if the kernel supports it (6.16 and later), otherwise read. */
static int get_bytes(struct kernel_types *k, const char *path)
{
	int fd CLOSE_AT_END = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	size_t have = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(struct btf_header))
		return -EINVAL;
	k->size = (size_t)st.st_size;
	k->bytes = mmap(NULL, k->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (k->bytes != MAP_FAILED)
		return 0;
	k->bytes = mmap(NULL, k->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (k->bytes == MAP_FAILED) {
		k->bytes = NULL;
		return -ENOMEM;
	}
	while (have < k->size) {
		ssize_t n = read(fd, (char *)k->bytes + have, k->size - have);

		if (n <= 0)
			return n ? -errno : -EINVAL;
		have += (size_t)n;
	}
	return 0;
}

/* The additional fields of newer headers, and an item of that section, by kind: struct
 * btf_layout. */
struct layout_header {
	struct btf_header header;
	uint32_t layout_off, layout_len;
};

struct layout {
	uint8_t fixed, each;
	uint16_t flags;
};

/* The layout section has the sizes of all kinds: unknown kinds are skipped by it. */
static int read_layout(struct kernel_types *k)
{
	const struct layout_header *h = k->bytes;
	const struct layout *layout;

	memcpy(k->extra, known_kinds, sizeof(known_kinds));
	if (h->header.hdr_len < sizeof(*h) || !h->layout_len)
		return 0;
	if ((uint64_t)h->header.hdr_len + h->layout_off + h->layout_len > k->size ||
	    (h->header.hdr_len + h->layout_off) % _Alignof(struct layout))
		return -EINVAL;
	layout = (const void *)((const char *)k->bytes + h->header.hdr_len + h->layout_off);
	for (size_t i = 1; i < h->layout_len / sizeof(*layout) && i < TYPE_KINDS; i++)
		if (!k->extra[i].known && layout[i].fixed % 4 == 0 && layout[i].each % 4 == 0)
			k->extra[i] =
			    (struct type_extra){ true, false, layout[i].fixed, layout[i].each };
	return 0;
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
	return k->strings[k->strings_size - 1] ? -EINVAL : read_layout(k);
}

static int note_name(const struct kernel_types *k, struct kernel_names *names, uint32_t id,
		     const struct btf_type *t)
{
	struct kernel_name *name = ARRAY_ADD(names->list, names->n);

	if (!name)
		return -ENOMEM;
	*name = (struct kernel_name){ id, name_hash(kernel_string(k, t->name_off)) };
	return 0;
}

static int note_type(struct kernel_types *k, uint32_t id, const struct btf_type *t)
{
	switch (type_kind(t)) {
	case BTF_KIND_TYPEDEF:
		return strncmp(kernel_string(k, t->name_off), TRACE_PREFIX,
			       sizeof(TRACE_PREFIX) - 1) == 0
			   ? note_name(k, &k->tracepoints, id, t)
			   : 0;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		return note_name(k, &k->layouts, id, t);
	}
	return 0;
}

/* One walk over all types: where each begins, and which can be looked up by name. -ENOTSUP: a type
 * of the kind *unknown, which cannot be skipped.  (libbpf 1.1 knows no other kinds either: its
 * reader would not help.) */
static int index_types(struct kernel_types *k, uint32_t *unknown)
{
	size_t at = 0;
	int r = 0;

	k->offsets = malloc((k->types_size / sizeof(struct btf_type) + 1) * sizeof(*k->offsets));
	k->functions = calloc(1, sizeof(*k->functions));
	if (!k->offsets || !k->functions)
		return -ENOMEM;
	for (k->n = 1; !r && at + sizeof(struct btf_type) <= k->types_size; k->n++) {
		const struct btf_type *t = (const void *)(k->types + at);

		k->offsets[k->n] = (uint32_t)at;
		if (!k->extra[type_kind(t)].sized) {
			*unknown = type_kind(t);
			return -ENOTSUP;
		}
		at += sizeof(*t) + type_extra_size(k, t);
		if (at > k->types_size)
			return -EINVAL;
		r = note_type(k, k->n, t);
	}
	return r;
}

int kernel_types_open(const char *path, struct kernel_types **out, struct error *err)
{
	struct kernel_types *k = calloc(1, sizeof(*k));
	uint32_t unknown = 0;
	int r = k ? 0 : -ENOMEM;

	if (!path)
		path = VMLINUX_BTF;
	if (!r)
		r = get_bytes(k, path);
	if (!r)
		r = check_header(k);
	if (!r)
		r = index_types(k, &unknown);
	if (!r) {
		*out = k;
		return 0;
	}
	kernel_types_free(k);
	if (limits_is_shortage(r))
		return limits_error(r, "read the kernel's type information", err);
	error_set(err, STATUS_UNSUPPORTED, r, "cannot use the kernel's type information (%s): %s",
		  path,
		  r == -ENOTSUP ? "it has types of a kind that this iotrace does not know"
				: strerror(-r));
	if (r == -ENOTSUP)
		error_hint(err, "kind %u; a newer iotrace may know it", unknown);
	return r;
}

void kernel_types_free(struct kernel_types *k)
{
	if (!k)
		return;
	if (k->bytes)
		munmap(k->bytes, k->size);
	free(k->offsets);
	free(k->tracepoints.list);
	free(k->layouts.list);
	if (k->functions)
		free(k->functions->list);
	free(k->functions);
	free(k);
}

/* ---- lookups ---- */

/* The id of the first of @names from *@at on that is @name, 0: none. *at: the index after it. */
static uint32_t next_named(const struct kernel_types *k, const struct kernel_names *names,
			   const char *name, size_t *at)
{
	uint32_t hash = name_hash(name);

	while (*at < names->n) {
		const struct kernel_name *one = &names->list[(*at)++];

		if (one->hash == hash &&
		    strcmp(kernel_string(k, kernel_type(k, one->id)->name_off), name) == 0)
			return one->id;
	}
	return 0;
}

int kernel_types_tracepoint(const struct kernel_types *k, const char *name)
{
	char type[128];
	size_t at = 0;
	uint32_t id;

	snprintf(type, sizeof(type), TRACE_PREFIX "%s", name);
	id = next_named(k, &k->tracepoints, type, &at);
	return id ? (int)id : -ENOENT;
}

int kernel_types_tracepoint_args(const struct kernel_types *k, const char *name)
{
	int id = kernel_types_tracepoint(k, name);
	const struct btf_type *t;

	if (id < 0)
		return id;
	t = kernel_type(k, kernel_type(k, (uint32_t)id)->type); /* the typedef's pointer */
	t = t ? kernel_type(k, t->type) : NULL;
	if (!t || type_kind(t) != BTF_KIND_FUNC_PROTO || !type_vlen(t))
		return -ENOENT;
	return (int)type_vlen(t) - 1;
}

/* -ENOMEM: the table stays empty. */
static int note_functions(const struct kernel_types *k)
{
	int r = 0;

	for (uint32_t id = 1; !r && id < k->n; id++) {
		const struct btf_type *t = kernel_type(k, id);

		if (type_kind(t) == BTF_KIND_FUNC)
			r = note_name(k, k->functions, id, t);
	}
	if (r)
		k->functions->n = 0;
	return r;
}

int kernel_types_function(const struct kernel_types *k, const char *name)
{
	int r = k->functions->n ? 0 : note_functions(k);
	size_t at = 0;
	uint32_t id = r ? 0 : next_named(k, k->functions, name, &at);

	if (r)
		return r;
	return id ? (int)id : -ENOENT;
}

/* The types of a module continue where the kernel's end, and so do their strings. */
static const char *module_string(const struct kernel_types *k, const struct kernel_types *module,
				 uint32_t offset)
{
	return offset < k->strings_size ? kernel_string(k, offset)
					: kernel_string(module, offset - (uint32_t)k->strings_size);
}

/* @name: the module's, or a path. */
static int open_module(const char *name, struct kernel_types **out)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : BTF_FOLDER, name);
	return kernel_types_open(path, out, NULL);
}

int kernel_types_module_function(const struct kernel_types *k, const char *of, const char *name)
{
	struct kernel_types *module = NULL;
	int r = open_module(of, &module);

	if (!module)
		return r;
	r = -ENOENT;
	for (uint32_t id = 1; r < 0 && id < module->n; id++) {
		const struct btf_type *t = kernel_type(module, id);

		if (type_kind(t) == BTF_KIND_FUNC &&
		    strcmp(module_string(k, module, t->name_off), name) == 0)
			r = (int)(k->n - 1 + id);
	}
	kernel_types_free(module);
	return r;
}

/* Where structure @t of @module, which may be @k itself, has the member; -ENOENT. */
static long offset_in(const struct kernel_types *k, const struct kernel_types *module,
		      const struct btf_type *t, const char *member)
{
	const struct btf_member *m = (const void *)(t + 1);

	for (uint32_t i = 0; type_kind(t) == BTF_KIND_STRUCT && i < type_vlen(t); i++)
		if (strcmp(module_string(k, module, m[i].name_off), member) == 0)
			return (BTF_INFO_KFLAG(t->info) ? BTF_MEMBER_BIT_OFFSET(m[i].offset)
							: m[i].offset) /
			       8;
	return -ENOENT;
}

static long module_offset(const struct kernel_types *k, const char *name, const char *type,
			  const char *member)
{
	struct kernel_types *module = NULL;
	long r = open_module(name, &module);

	if (!module)
		return r;
	r = -ENOENT;
	for (uint32_t id = 1; r < 0 && id < module->n; id++) {
		const struct btf_type *t = kernel_type(module, id);

		if (strcmp(module_string(k, module, t->name_off), type) == 0)
			r = offset_in(k, module, t, member);
	}
	kernel_types_free(module);
	return r;
}

long kernel_types_offset(const struct kernel_types *k, const char *module, const char *type,
			 const char *member)
{
	long r = -ENOENT;
	size_t at = 0;
	uint32_t id;

	while (r < 0 && (id = next_named(k, &k->layouts, type, &at)))
		r = offset_in(k, k, kernel_type(k, id), member);
	return r < 0 && module ? module_offset(k, module, type, member) : r;
}

bool kernel_types_has_member(const struct kernel_types *k, const char *type, const char *member)
{
	return kernel_types_offset(k, NULL, type, member) >= 0;
}

size_t kernel_types_size(const struct kernel_types *k, const char *type)
{
	size_t at = 0;
	uint32_t id;

	while ((id = next_named(k, &k->layouts, type, &at)))
		if (type_kind(kernel_type(k, id)) == BTF_KIND_STRUCT)
			return kernel_type(k, id)->size;
	return 0;
}

/* Do the names of this enum begin like one of @names?  All names of one enum begin alike, so the
 * first is enough. */
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
	for (size_t at = 0; at < k->layouts.n; at++) {
		const struct btf_type *t = kernel_type(k, k->layouts.list[at].id);
		const struct btf_enum *e = (const void *)(t + 1);
		uint32_t vlen = type_vlen(t);

		if (type_kind(t) != BTF_KIND_ENUM || !vlen || !begins_alike(k, e, names, n))
			continue;
		for (uint32_t i = 0; i < vlen; i++)
			for (size_t j = 0; j < n; j++)
				if (strcmp(kernel_string(k, e[i].name_off), names[j]) == 0)
					values[j] = e[i].val;
	}
}
