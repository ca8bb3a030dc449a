// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/kprobe_multi.h"

#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "core/bpf/hooks.h"

int kprobe_multi_attach(const struct hook_function *functions, size_t n, bool is_return,
			int prog_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .kprobe_multi.cnt = (__u32)n,
		    .kprobe_multi.flags = is_return ? BPF_F_KPROBE_MULTI_RETURN : 0);
	const char **names = calloc(n, sizeof(*names));
	__u64 *cookies = calloc(n, sizeof(*cookies));
	int fd = -ENOMEM;

	for (size_t i = 0; names && cookies && i < n; i++) {
		names[i] = functions[i].name;
		cookies[i] = functions[i].cookie;
	}
	opts.kprobe_multi.syms = names;
	opts.kprobe_multi.cookies = cookies;
	if (names && cookies) {
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
