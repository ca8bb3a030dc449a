// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/kprobe_multi.h"

#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "core/bpf/find_symbols.h"
#include "core/bpf/hook_table.h"

static const char **names_of(const struct hook_function *functions, size_t n)
{
	const char **names = calloc(n, sizeof(*names));

	for (size_t i = 0; names && i < n; i++)
		names[i] = functions[i].name;
	return names;
}

int kprobe_multi_find(const struct hook_function *functions, size_t n, uint64_t **addresses)
{
	const char **names = names_of(functions, n);
	int found = -ENOMEM;

	*addresses = calloc(n, sizeof(**addresses));
	if (names && *addresses)
		found = find_symbols(names, *addresses, n);
	free(names);
	if (found == (int)n)
		return 0;
	free(*addresses);
	*addresses = NULL;
	return found < 0 ? found : -ENOENT;
}

int kprobe_multi_attach(const struct hook_function *functions, const uint64_t *addresses, size_t n,
			bool is_return, int prog_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .kprobe_multi.cnt = (__u32)n,
		    .kprobe_multi.flags = is_return ? BPF_F_KPROBE_MULTI_RETURN : 0);
	const char **names = addresses ? NULL : names_of(functions, n);
	__u64 *cookies = calloc(n, sizeof(*cookies));
	int fd = -ENOMEM;

	for (size_t i = 0; cookies && i < n; i++)
		cookies[i] = functions[i].cookie;
	opts.kprobe_multi.syms = names;
	opts.kprobe_multi.addrs = (const unsigned long *)addresses;
	opts.kprobe_multi.cookies = cookies;
	if ((names || addresses) && cookies) {
		fd = bpf_link_create(prog_fd, 0, BPF_TRACE_KPROBE_MULTI, &opts);
		if (fd < 0)
			fd = -errno;
	}
	free(names);
	free(cookies);
	return fd;
}

uint64_t kprobe_multi_missed(int link_fd)
{
	/* struct bpf_link_info of 6.7; the headers may be older. */
	struct {
		uint32_t type, id, prog_id, pad;
		uint64_t addrs;
		uint32_t count, flags;
		uint64_t missed;
	} info = { 0 };
	uint32_t len = sizeof(info);

	return bpf_obj_get_info_by_fd(link_fd, &info, &len) ? 0 : info.missed;
}
