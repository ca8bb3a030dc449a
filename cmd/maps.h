/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_MAPS_H
#define IOTRACE_CMD_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_map;

/* How many entries a map gets; 0: as many as it declares. */
struct map_size {
	struct bpf_map *map;
	uint32_t entries;
};

/* Before loading.  0 or -errno. */
int maps_resize(const struct map_size *sizes, size_t n);

/* Puts the numbers of as many entries as it has into @queue, from 0 on.  0 or -errno. */
int maps_fill_queue(const struct bpf_map *queue);

/* An array in this process's memory; all zero: none. */
struct mapped_array {
	void *at;
	size_t size; /* bytes */
	size_t n;    /* entries */
};

/* Maps an array that is loaded: *out, for maps_unmap().  0, or -errno, and *out is as it was. */
int maps_map_array(const struct bpf_map *array, bool write, struct mapped_array *out);
void maps_unmap(struct mapped_array *m);

#endif
