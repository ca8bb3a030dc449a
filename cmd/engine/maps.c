// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/maps.h"

#include <errno.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

int maps_fill_queue(const struct bpf_map *queue)
{
	for (uint32_t i = 0; i < bpf_map__max_entries(queue); i++)
		if (bpf_map_update_elem(bpf_map__fd(queue), NULL, &i, BPF_ANY))
			return -errno;
	return 0;
}

int maps_map_array(const struct bpf_map *array, bool write, struct mapped_array *out)
{
	/* An entry begins at a multiple of 8. */
	const size_t n = bpf_map__max_entries(array),
		     size = n * ((bpf_map__value_size(array) + 7UL) / 8 * 8);
	void *mapped = mmap(NULL, size, write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
			    bpf_map__fd(array), 0);

	if (mapped == MAP_FAILED)
		return -errno;
	*out = (struct mapped_array){ mapped, size, n };
	return 0;
}

void maps_unmap(struct mapped_array *m)
{
	if (m->at)
		munmap(m->at, m->size);
	*m = (struct mapped_array){ 0 };
}
