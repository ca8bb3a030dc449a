// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes a small BTF for libbpf, with the types that the programs name. */
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "core/base/array.h"
#include "core/base/name_filter.h"
#include "core/bpf/kernel_types_internal.h"

/*
 * The object's own BTF gives the names that matter (types, and members of any type); the kernel's
 * BTF gives the types of those names, without unnamed members, and the types of members held by
 * value.
 */

struct name_set {
	const char **list;
	size_t n;
	struct name_filter filter;
};

struct cut {
	const struct kernel_types *k;
	struct name_set types, members;
	uint32_t *old_ids; /* by new id, from 1 on */
	size_t n;	   /* of these */
	uint32_t *new_ids; /* by old id; 0: not in the subset */
	/* Streams of memory: an error of one is found when it is closed. */
	FILE *data, *strings;
	uint32_t strings_size;
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
	const char **added;

	if (!*name)
		return 0;
	added = ARRAY_ADD(names->list, names->n);
	if (added)
		*added = suffix ? strndup(name, (size_t)(suffix - name)) : strdup(name);
	if (!added || !*added)
		return -ENOMEM;
	name_filter_add(&names->filter, name_hash(*added));
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

/* ---- choosing the types ---- */

/* The new id of kernel type @id, which is added if it is new; 0 for void, for a kind that libbpf
 * may not know, and when out of memory. */
static uint32_t take(struct cut *c, uint32_t id)
{
	const struct btf_type *t = kernel_type(c->k, id);
	uint32_t *added;

	if (!t || !c->k->extra[type_kind(t)].known)
		return 0;
	if (c->new_ids[id])
		return c->new_ids[id];
	added = ARRAY_ADD(c->old_ids, c->n);
	if (!added)
		return 0;
	*added = id;
	return c->new_ids[id] = (uint32_t)c->n - 1;
}

static bool is_wanted(const struct cut *c, const struct kernel_name *layout)
{
	const struct btf_type *t = kernel_type(c->k, layout->id);

	return t->name_off && has_name(&c->types, kernel_string(c->k, t->name_off), layout->hash);
}

/* ---- writing ---- */

static void put(struct cut *c, const void *bytes, size_t size)
{
	fwrite(bytes, 1, size, c->data);
}

/* The offset of a copy of the kernel's string at @offset; 0 is the empty string. */
static uint32_t put_string(struct cut *c, uint32_t offset)
{
	const char *text = kernel_string(c->k, offset);
	uint32_t at = c->strings_size;

	if (!*text)
		return 0;
	c->strings_size += (uint32_t)fwrite(text, 1, strlen(text) + 1, c->strings);
	return at;
}

static bool is_kept(const struct cut *c, const struct btf_member *m)
{
	const char *name = kernel_string(c->k, m->name_off);

	return !*name || has_name(&c->members, name, name_hash(name));
}

static void put_composite(struct cut *c, struct btf_type head, const struct btf_member *m)
{
	uint32_t vlen = type_vlen(&head);

	head.info &= ~0xffffffU;
	for (uint32_t i = 0; i < vlen; i++)
		head.info += is_kept(c, &m[i]);
	put(c, &head, sizeof(head));
	for (uint32_t i = 0; i < vlen; i++) {
		struct btf_member member = m[i];

		if (!is_kept(c, &m[i]))
			continue;
		member.name_off = put_string(c, m[i].name_off);
		member.type = take(c, m[i].type);
		put(c, &member, sizeof(member));
	}
}

static void put_enum(struct cut *c, const struct btf_type *head, const char *value)
{
	size_t each =
	    type_kind(head) == BTF_KIND_ENUM ? sizeof(struct btf_enum) : sizeof(struct btf_enum64);

	put(c, head, sizeof(*head));
	for (uint32_t i = 0; i < type_vlen(head); i++, value += each) {
		struct btf_enum64 copy = { 0 };

		memcpy(&copy, value, each); /* both kinds begin with the name */
		copy.name_off = put_string(c, copy.name_off);
		put(c, &copy, each);
	}
}

static void put_array(struct cut *c, const struct btf_type *head, struct btf_array array)
{
	array.type = take(c, array.type);
	array.index_type = take(c, array.index_type);
	put(c, head, sizeof(*head));
	put(c, &array, sizeof(array));
}

static void put_type(struct cut *c, const struct btf_type *t)
{
	static const struct btf_type pointer = { .info = BTF_KIND_PTR << 24 };
	const void *rest = t + 1;
	struct btf_type head = *t;

	if (type_kind(t) != BTF_KIND_PTR && type_kind(t) != BTF_KIND_FUNC_PROTO)
		head.name_off = put_string(c, t->name_off);
	switch (type_kind(t)) {
	case BTF_KIND_PTR: /* every pointer leads to void */
	case BTF_KIND_FUNC_PROTO:
		put(c, &pointer, sizeof(pointer));
		return;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		put_composite(c, head, rest);
		return;
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		put_enum(c, &head, rest);
		return;
	case BTF_KIND_ARRAY:
		put_array(c, &head, *(const struct btf_array *)rest);
		return;
	case BTF_KIND_INT:
	case BTF_KIND_FWD:
	case BTF_KIND_FLOAT:
		break;
	default: /* one reference */
		head.type = take(c, head.type);
	}
	put(c, &head, sizeof(head));
	put(c, rest, type_extra_size(c->k, t));
}

/* An anonymous file of @n parts: its descriptor or -errno, of a limit on files -EFBIG. */
static int write_file(const struct iovec *parts, int n)
{
	int fd = memfd_create("iotrace-btf", MFD_CLOEXEC);
	ssize_t size = 0, written;
	int r;

	if (fd < 0)
		return -errno;
	for (int i = 0; i < n; i++)
		size += (ssize_t)parts[i].iov_len;
	written = writev(fd, parts, n);
	if (written == size)
		return fd;
	r = written < 0 ? -errno : -EFBIG;
	close(fd);
	return r;
}

static int cut_types(struct cut *c)
{
	const struct kernel_names *layouts = &c->k->layouts;
	const uint32_t *none = ARRAY_ADD(c->old_ids, c->n);

	c->new_ids = calloc(c->k->n, sizeof(*c->new_ids));
	if (!c->new_ids || !none)
		return -ENOMEM;
	c->strings_size = (uint32_t)fwrite("", 1, 1, c->strings);
	for (size_t i = 0; i < layouts->n; i++)
		if (is_wanted(c, &layouts->list[i]) && !take(c, layouts->list[i].id))
			return -ENOMEM;
	/* Writing a type may add further types: c->n grows in this loop. */
	for (size_t i = 1; i < c->n; i++)
		put_type(c, kernel_type(c->k, c->old_ids[i]));
	return 0;
}

/* The descriptor of the file, or -errno. */
static int make_subset(struct cut *c)
{
	char *data = NULL, *strings = NULL;
	size_t data_size = 0, strings_size = 0;
	int r = -ENOMEM;

	c->data = open_memstream(&data, &data_size);
	c->strings = open_memstream(&strings, &strings_size);
	if (c->data && c->strings)
		r = cut_types(c);
	if (c->data && fclose(c->data))
		r = -ENOMEM;
	if (c->strings && fclose(c->strings))
		r = -ENOMEM;
	if (!r) {
		struct btf_header header = {
			.magic = BTF_MAGIC,
			.version = BTF_VERSION,
			.hdr_len = sizeof(header),
			.type_len = (uint32_t)data_size,
			.str_off = (uint32_t)data_size,
			.str_len = (uint32_t)strings_size,
		};
		const struct iovec parts[] = { { &header, sizeof(header) },
					       { data, data_size },
					       { strings, strings_size } };

		r = write_file(parts, ARRAY_SIZE(parts));
	}
	free(data);
	free(strings);
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
		r = make_subset(&c);
	btf__free(local);
	free_names(&c.types);
	free_names(&c.members);
	free(c.old_ids);
	free(c.new_ids);
	return r;
}
