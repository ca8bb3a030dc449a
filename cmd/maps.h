/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_MAPS_H
#define IOTRACE_CMD_MAPS_H

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

#endif
