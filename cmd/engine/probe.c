// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/probe.h"
#include "core/base/array.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

struct place {
	void *at;
	size_t size;
};

static const struct btf_type *section_type(const struct btf *btf, const char *section)
{
	int id = btf__find_by_name_kind(btf, section, BTF_KIND_DATASEC);

	return id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);
}

/* The variable @name of @section (".rodata"), which libbpf stores as the contents of a map. */
static bool find_in(const struct bpf_object *obj, const char *section, const char *name,
		    struct place *place)
{
	const struct bpf_map *map = bpf_object__find_map_by_name(obj, section);
	const struct btf *btf = bpf_object__btf(obj);
	const struct btf_type *type = btf ? section_type(btf, section) : NULL;
	const struct btf_var_secinfo *info;
	size_t size;
	char *contents;

	if (!map || !type)
		return false;
	contents = (char *)(uintptr_t)bpf_map__initial_value((struct bpf_map *)map, &size);
	info = btf_var_secinfos(type);
	for (int i = 0; contents && i < btf_vlen(type); i++) {
		const struct btf_type *var = btf__type_by_id(btf, info[i].type);

		if (strcmp(btf__name_by_offset(btf, var->name_off), name) != 0)
			continue;
		*place = (struct place){ contents + info[i].offset, info[i].size };
		return (size_t)info[i].offset + info[i].size <= size;
	}
	return false;
}

static int set_value(const struct place *place, uint64_t value)
{
	uint8_t one = (uint8_t)value;
	uint32_t four = (uint32_t)value;
	const void *from = &value;

	if (place->size == 1) {
		from = &one;
		value -= one;
	} else if (place->size == 4) {
		from = &four;
		value -= four;
	} else if (place->size == 8) {
		memcpy(place->at, from, place->size);
		return 0;
	} else {
		return -ERANGE;
	}
	memcpy(place->at, from, place->size);
	return value ? -ERANGE : 0;
}

int probe_set_options(struct bpf_object *obj, const struct probe_option *options, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct probe_option *o = &options[i];
		struct place place;
		int r = 0;

		if (!find_in(obj, ".rodata", o->name, &place))
			return -ENOENT;
		if (!o->bytes)
			r = set_value(&place, o->value);
		else if (o->size <= place.size)
			memcpy(place.at, o->bytes, o->size);
		else
			r = -ERANGE;
		if (r)
			return r;
	}
	return 0;
}

int probe_size_maps(struct bpf_object *obj, const struct probe_map *maps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, maps[i].name);
		int r = 0;

		if (!map)
			return -ENOENT;
		if (maps[i].entries)
			r = bpf_map__set_max_entries(map, maps[i].entries);
		if (r)
			return r;
	}
	return 0;
}

void *probe_variable(const struct bpf_object *obj, const char *name, size_t size)
{
	static const char *const sections[] = { ".bss", ".data" };
	struct place place;

	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		if (find_in(obj, sections[i], name, &place) && place.size >= size)
			return place.at;
	return NULL;
}

int probe_map_fd(const struct bpf_object *obj, const char *name)
{
	return bpf_object__find_map_fd_by_name(obj, name);
}

int probe_program_fd(const struct bpf_object *obj, const char *name)
{
	const struct bpf_program *prog = bpf_object__find_program_by_name(obj, name);

	return prog ? bpf_program__fd(prog) : -ENOENT;
}
