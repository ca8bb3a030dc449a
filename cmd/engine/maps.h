/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions for loaded BPF maps: queues to be filled, mapped arrays. */
#ifndef IOTRACE_CMD_ENGINE_MAPS_H
#define IOTRACE_CMD_ENGINE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_map;

/* Fills @queue with the numbers from 0 up to its number of entries. 0 or -errno. */
int maps_fill_queue(const struct bpf_map *queue);

/* An array in this process's memory; all zero: none. */
struct mapped_array {
	void *at;
	size_t size; /* bytes */
	size_t n;    /* entries */
};

/* Maps an array that is loaded: *out, for maps_unmap(). 0, or -errno, and *out is unchanged. */
int maps_map_array(const struct bpf_map *array, bool write, struct mapped_array *out);
void maps_unmap(struct mapped_array *m);

#endif
