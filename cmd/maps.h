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

/* Puts the numbers below @n into @queue.  0 or -errno. */
int maps_fill_queue(const struct bpf_map *queue, size_t n);

/* Maps the first @size bytes of an array that is loaded: *out, for munmap().  0 or -errno. */
int maps_map_array(const struct bpf_map *array, size_t size, bool write, void **out);

#endif
