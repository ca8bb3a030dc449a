// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "core/base/name_filter.h"
#include "core/bpf/kernel_types_internal.h"

/*
 * Cutting: from the object's own BTF come the names that matter (types, and
 * members of any type); from the kernel's the types of those names, without
 * unnamed members, and the types of the members that are held by value.
 */

struct name_set {
	const char **list;
	size_t n;
	struct name_filter filter;
};

struct cut {
	const struct kernel_types *k;
	struct name_set types, members;
	uint32_t *old_ids; /* by new id: 1 .. n-1 */
	uint32_t *new_ids; /* by old id; 0: not taken */
	uint32_t n, room;
	char *data, *strings;
	size_t data_size, data_room, strings_size, strings_room;
};

/* ---- what the object names ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* @hash is name_hash() of @name. */
static bool has_name(const struct name_set *names, const char *name, uint32_t hash)
{
	return names->n && name_filter_may_have(&names->filter, hash) &&
	       bsearch(&name, names->list, names->n, sizeof(*names->list), compare_names);
}

/* Adds @name without the "___suffix" that distinguishes the variants of one type. */
static int add_name(struct name_set *names, const char *name)
{
	const char *suffix = strstr(name, "___");
	const char **grown;
	char *copy;

	if (!*name)
		return 0;
	grown = realloc(names->list, (names->n + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	names->list = grown;
	copy = suffix ? strndup(name, (size_t)(suffix - name)) : strdup(name);
	if (!copy)
		return -ENOMEM;
	name_filter_add(&names->filter, name_hash(copy));
	names->list[names->n++] = copy;
	return 0;
}

static void free_names(struct name_set *names)
{
	for (size_t i = 0; i < names->n; i++)
		free((char *)names->list[i]);
	free(names->list);
}

static int collect_names(struct cut *c, const struct btf *local)
{
	for (uint32_t id = 1; id < btf__type_cnt(local); id++) {
		const struct btf_type *t = btf__type_by_id(local, id);
		const struct btf_member *m;

		if (!btf_is_composite(t) && !btf_is_any_enum(t))
			continue;
		if (add_name(&c->types, btf__name_by_offset(local, t->name_off)))
			return -ENOMEM;
		m = btf_members(t);
		for (int i = 0; btf_is_composite(t) && i < btf_vlen(t); i++, m++)
			if (add_name(&c->members, btf__name_by_offset(local, m->name_off)))
				return -ENOMEM;
	}
	if (c->types.n)
		qsort(c->types.list, c->types.n, sizeof(*c->types.list), compare_names);
	if (c->members.n)
		qsort(c->members.list, c->members.n, sizeof(*c->members.list), compare_names);
	return 0;
}

/* The section .BTF of an ELF object in memory. */
static struct btf *btf_of_elf(const void *bytes, size_t size)
{
	struct btf *btf = NULL;
	Elf_Scn *section = NULL;
	Elf_Data *data;
	GElf_Shdr header;
	size_t names;
	Elf *elf;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return NULL;
	elf = elf_memory((char *)(uintptr_t)bytes, size);
	if (!elf || elf_getshdrstrndx(elf, &names))
		goto out;
	while (!btf && (section = elf_nextscn(elf, section))) {
		const char *name;

		if (!gelf_getshdr(section, &header))
			break;
		name = elf_strptr(elf, names, header.sh_name);
		if (!name || strcmp(name, ".BTF") != 0)
			continue;
		data = elf_rawdata(section, NULL);
		if (data)
			btf = btf__new(data->d_buf, (uint32_t)data->d_size);
		break;
	}
out:
	elf_end(elf);
	return btf;
}

/* ---- which types to take ---- */

/* The new id of kernel type @id, which is taken if it was not; 0 for void, for a kind that libbpf
 * may not know, and when there is no memory. */
static uint32_t take(struct cut *c, uint32_t id)
{
	const struct btf_type *t = kernel_type(c->k, id);
	uint32_t *grown;

	if (!t || !c->k->extra[type_kind(t)].known)
		return 0;
	if (c->new_ids[id])
		return c->new_ids[id];
	if (c->n >= c->room) {
		grown = realloc(c->old_ids, (c->room + 256) * sizeof(*grown));
		if (!grown)
			return 0;
		c->old_ids = grown;
		c->room += 256;
	}
	c->old_ids[c->n] = id;
	c->new_ids[id] = c->n;
	return c->n++;
}

static bool is_wanted(const struct cut *c, const struct kernel_name *layout)
{
	const struct btf_type *t = kernel_type(c->k, layout->id);

	return t->name_off && has_name(&c->types, kernel_string(c->k, t->name_off), layout->hash);
}

/* ---- writing ---- */

static int grow(char **buf, size_t *room, size_t need)
{
	char *grown;
	size_t size = *room ? *room : 16384;

	while (size < need)
		size *= 2;
	if (size == *room)
		return 0;
	grown = realloc(*buf, size);
	if (!grown)
		return -ENOMEM;
	*buf = grown;
	*room = size;
	return 0;
}

static int put(struct cut *c, const void *bytes, size_t size)
{
	if (grow(&c->data, &c->data_room, c->data_size + size))
		return -ENOMEM;
	memcpy(c->data + c->data_size, bytes, size);
	c->data_size += size;
	return 0;
}

/* Offset of a copy of the kernel's string at @offset; 0 (the empty string)
 * when there is no memory: the caller finds out by the type's name missing. */
static uint32_t put_string(struct cut *c, uint32_t offset)
{
	const char *text = kernel_string(c->k, offset);
	size_t len = strlen(text) + 1, at = c->strings_size;

	if (len == 1 || grow(&c->strings, &c->strings_room, at + len))
		return 0;
	memcpy(c->strings + at, text, len);
	c->strings_size += len;
	return (uint32_t)at;
}

static int put_composite(struct cut *c, const struct btf_type *t)
{
	const struct btf_member *m = (const void *)(t + 1);
	uint32_t vlen = type_vlen(t), kept = 0;
	struct btf_type head = *t;
	size_t at = c->data_size;

	head.name_off = put_string(c, t->name_off);
	if (put(c, &head, sizeof(head)))
		return -ENOMEM;
	for (uint32_t i = 0; i < vlen; i++) {
		struct btf_member member = m[i];
		const char *name = kernel_string(c->k, m[i].name_off);

		if (*name && !has_name(&c->members, name, name_hash(name)))
			continue;
		member.name_off = put_string(c, m[i].name_off);
		member.type = take(c, m[i].type);
		if (put(c, &member, sizeof(member)))
			return -ENOMEM;
		kept++;
	}
	((struct btf_type *)(c->data + at))->info = (t->info & ~0xffffffU) | kept;
	return 0;
}

static int put_enum(struct cut *c, const struct btf_type *t)
{
	size_t each =
	    type_kind(t) == BTF_KIND_ENUM ? sizeof(struct btf_enum) : sizeof(struct btf_enum64);
	struct btf_type head = *t;
	const char *value = (const char *)(t + 1);

	head.name_off = put_string(c, t->name_off);
	if (put(c, &head, sizeof(head)))
		return -ENOMEM;
	for (uint32_t i = 0; i < type_vlen(t); i++, value += each) {
		struct btf_enum64 copy = { 0 };

		memcpy(&copy, value, each); /* both kinds begin with the name */
		copy.name_off = put_string(c, copy.name_off);
		if (put(c, &copy, each))
			return -ENOMEM;
	}
	return 0;
}

/* Types of one reference or none. */
static int put_simple(struct cut *c, const struct btf_type *t)
{
	uint32_t kind = type_kind(t);
	struct btf_type head = *t;
	struct btf_array array;

	head.name_off = put_string(c, t->name_off);
	if (kind == BTF_KIND_PTR || kind == BTF_KIND_FUNC_PROTO) {
		/* A pointer is a pointer, whatever it leads to. */
		head = (struct btf_type){ .info = BTF_KIND_PTR << 24 };
		return put(c, &head, sizeof(head));
	}
	if (kind == BTF_KIND_ARRAY) {
		array = *(const struct btf_array *)(t + 1);
		array.type = take(c, array.type);
		array.index_type = take(c, array.index_type);
		return put(c, &head, sizeof(head)) || put(c, &array, sizeof(array)) ? -ENOMEM : 0;
	}
	if (kind != BTF_KIND_INT && kind != BTF_KIND_FWD && kind != BTF_KIND_FLOAT)
		head.type = take(c, head.type);
	return put(c, &head, sizeof(head)) || put(c, t + 1, type_extra_size(c->k, t)) ? -ENOMEM : 0;
}

static int put_type(struct cut *c, const struct btf_type *t)
{
	switch (type_kind(t)) {
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return put_composite(c, t);
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		return put_enum(c, t);
	}
	return put_simple(c, t);
}

static int write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size) {
		ssize_t n = write(fd, at, size);

		if (n < 0)
			return -errno;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

static int write_file(const struct cut *c)
{
	struct btf_header header = {
		.magic = BTF_MAGIC,
		.version = BTF_VERSION,
		.hdr_len = sizeof(header),
		.type_len = (uint32_t)c->data_size,
		.str_off = (uint32_t)c->data_size,
		.str_len = (uint32_t)c->strings_size,
	};
	int fd = memfd_create("iotrace-btf", MFD_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, &header, sizeof(header));
	if (!r)
		r = write_all(fd, c->data, c->data_size);
	if (!r)
		r = write_all(fd, c->strings, c->strings_size);
	if (!r)
		return fd;
	close(fd);
	return r;
}

static int cut_types(struct cut *c)
{
	const struct kernel_names *layouts = &c->k->layouts;
	int r = 0;

	c->n = 1;
	c->new_ids = calloc(c->k->n, sizeof(*c->new_ids));
	if (!c->new_ids || grow(&c->strings, &c->strings_room, 1))
		return -ENOMEM;
	c->strings[c->strings_size++] = 0;
	for (size_t i = 0; i < layouts->n; i++)
		if (is_wanted(c, &layouts->list[i]) && !take(c, layouts->list[i].id))
			return -ENOMEM;
	/* Putting a type may take further ones: c->n grows while this runs. */
	for (uint32_t i = 1; !r && i < c->n; i++)
		r = put_type(c, kernel_type(c->k, c->old_ids[i]));
	return r;
}

int kernel_types_subset(const struct kernel_types *k, const void *elf, size_t size)
{
	struct btf *local = btf_of_elf(elf, size);
	struct cut c = { .k = k };
	int r;

	if (!local)
		return -EINVAL;
	r = collect_names(&c, local);
	if (!r)
		r = cut_types(&c);
	if (!r)
		r = write_file(&c);
	btf__free(local);
	free_names(&c.types);
	free_names(&c.members);
	free(c.old_ids);
	free(c.new_ids);
	free(c.data);
	free(c.strings);
	return r;
}
