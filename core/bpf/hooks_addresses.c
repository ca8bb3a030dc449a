// SPDX-License-Identifier: GPL-2.0-or-later
/* Addresses of functions, for kernels whose lookup by name is slow. */
#include <stdlib.h>
#include <string.h>

#include "core/bpf/hook_facts.h"
#include "core/bpf/hooks_internal.h"
#include "core/bpf/kernel_types.h"

/*
 * Before 6.2 the kernel looks up a name by expanding the names of its symbols, one after another; a
 * name in a module comes last.  It does so twice for a probe by perf, and five times for a return
 * probe in kprobe_events.  Reading all addresses takes as long as six such lookups.
 */
#define BY_NAME 2 /* up to here lookups are cheaper */

/* "kallsyms: Add helper kallsyms_on_each_match_symbol()" (6.2, in 6.1's stable releases too) came
 * with a binary search. */
static bool finds_names_fast(const struct hooks *h)
{
	return kernel_types_function(h->types, "kallsyms_on_each_match_symbol") >= 0;
}

/* Out of memory, or addresses are hidden: none is known. */
static void find_addresses(struct hooks *h)
{
	const char **names = calloc(h->n_choices, sizeof(*names));
	uint64_t *values = calloc(h->n_choices, sizeof(*values));
	struct hook_address *found = calloc(h->n_choices, sizeof(*found));
	size_t n = 0;

	for (size_t i = 0; names && values && found && i < h->n_choices; i++) {
		const struct hook_alt *alt = h->choices[i].alt;

		if (!hooks_is_kprobe(alt->kind))
			continue;
		/* Before the address: hooks_addresses_moved() must notice later changes. */
		if (alt->module && hook_facts_module_at(alt->module, &found[n].module))
			continue;
		names[n] = alt->target;
		found[n++].alt = alt;
	}
	if (n)
		hook_facts_addresses(names, values, n);
	for (size_t i = 0; i < n; i++)
		found[i].at = values[i];
	h->addresses = found;
	h->n_addresses = n;
	free(names);
	free(values);
}

uint64_t hooks_address(struct hooks *h, const struct hook_alt *alt)
{
	if (h->asked_addresses <= BY_NAME && h->asked_addresses++ == BY_NAME &&
	    !finds_names_fast(h))
		find_addresses(h);
	for (size_t i = 0; i < h->n_addresses; i++) {
		struct hook_address *address = &h->addresses[i];

		if (strcmp(address->alt->target, alt->target) == 0) {
			address->used = address->at != 0;
			return address->at;
		}
	}
	return 0;
}

bool hooks_addresses_moved(struct hooks *h)
{
	for (size_t i = 0; i < h->n_addresses; i++) {
		const struct hook_address *address = &h->addresses[i];
		uint64_t now;

		if (!address->used || !address->alt->module ||
		    (!hook_facts_module_at(address->alt->module, &now) && now == address->module))
			continue;
		h->n_addresses = 0;
		return true;
	}
	return false;
}
