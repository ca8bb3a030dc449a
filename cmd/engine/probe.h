/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_ENGINE_PROBE_H
#define IOTRACE_CMD_ENGINE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_object;

/*
 * The options, the maps and the variables of a BPF object, by their names in probes/: a subcommand
 * lists in tables what it sets.  An object may have other names, too, but each name in a table must
 * exist in it: -ENOENT.
 */

/* An option: a constant of the programs (const volatile) that is set before they are loaded. */
struct probe_option {
	const char *name;
	uint64_t value; /* of an integer or a bool */
	/* An array: its first @size bytes.  NULL: @value counts. */
	const void *bytes;
	size_t size;
};

/* Sets @options in @obj, which is open and not loaded. 0; -ENOENT; -ERANGE if a value does not
 * fit. */
int probe_set_options(struct bpf_object *obj, const struct probe_option *options, size_t n);

/* How many entries a map gets; 0: the declared number. */
struct probe_map {
	const char *name;
	uint32_t entries;
};

/* Sizes the maps of @obj, which is open and not loaded.  0 or -errno. */
int probe_size_maps(struct bpf_object *obj, const struct probe_map *maps, size_t n);

/* The variable @name of @obj: its address, or NULL if it does not exist or is smaller than @size
 * bytes.  Once the object is loaded, programs use the same memory, until the object is closed. */
void *probe_variable(const struct bpf_object *obj, const char *name, size_t size);

/* The descriptor of the map, or program, @name of an object that is loaded; -ENOENT. */
int probe_map_fd(const struct bpf_object *obj, const char *name);
int probe_program_fd(const struct bpf_object *obj, const char *name);

#endif
