// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/maps.h"

#include <bpf/libbpf.h>

int maps_resize(const struct map_size *sizes, size_t n)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++)
		if (sizes[i].entries)
			r = bpf_map__set_max_entries(sizes[i].map, sizes[i].entries);
	return r;
}
