// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/tracepoints.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/base/cleanup.h"
#include "core/system/kernel_fs.h"

/* bpf(BPF_RAW_TRACEPOINT_OPEN) with the fields of 6.10; older kernels reject a cookie that is not
 * 0. */
int tracepoints_attach_raw(const char *name, int prog_fd, uint64_t cookie)
{
	struct {
		uint64_t name;
		uint32_t prog_fd;
		uint32_t pad;
		uint64_t cookie;
	} attr = { (uint64_t)(uintptr_t)name, (uint32_t)prog_fd, 0, cookie };
	long fd = syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

/* The perf id of the tracepoint "GROUP/NAME", or -errno. */
static int read_id(const char *target)
{
	FILE *file FCLOSE_AT_END = NULL;
	char path[192];
	int id;

	snprintf(path, sizeof(path), "events/%s/id", target);
	file = kernel_fs_file(NULL, KERNEL_FS_TRACE, path);
	if (!file)
		return -errno;
	return fscanf(file, "%d", &id) == 1 ? id : -EINVAL;
}

/*
 * An event that is never enabled: it counts nothing itself, which would cost more than the program.
 * It only carries its tracepoint's programs, which run on all CPUs (trace_call_bpf()).
 */
static int open_perf_event(const char *target)
{
	int id = read_id(target);
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = PERF_ATTR_SIZE_VER0,
		.config = (uint64_t)id,
		.disabled = 1,
	};
	int cpu = sched_getcpu();
	long fd;

	if (id < 0)
		return id;
	fd = syscall(SYS_perf_event_open, &attr, -1, cpu < 0 ? 0 : cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

int tracepoints_attach_event(int event, int prog_fd, uint64_t cookie)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);
	int link;

	if (event < 0)
		return event;
	/* The link holds the event.  Kernels before 5.15 have no links for perf events: there the
	 * event holds the program. */
	link = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (link >= 0) {
		close(event);
		return link;
	}
	if (!cookie && !ioctl(event, PERF_EVENT_IOC_SET_BPF, prog_fd))
		return event;
	link = -errno;
	close(event);
	return link;
}

int tracepoints_attach_classic(const char *target, int prog_fd, uint64_t cookie)
{
	return tracepoints_attach_event(open_perf_event(target), prog_fd, cookie);
}

int tracepoints_load_numbered(const struct bpf_program *prog, uint64_t placeholder, uint32_t number,
			      const struct bpf_prog_load_opts *opts)
{
	size_t n = bpf_program__insn_cnt(prog);
	struct bpf_insn *insns = malloc(n * sizeof(*insns));
	bool found = false;
	int fd;

	if (!insns)
		return -ENOMEM;
	memcpy(insns, bpf_program__insns(prog), n * sizeof(*insns));
	for (size_t i = 0; i + 1 < n; i++) {
		if (insns[i].code != (BPF_LD | BPF_IMM | BPF_DW) || insns[i].src_reg ||
		    (uint32_t)insns[i].imm != (uint32_t)placeholder ||
		    (uint32_t)insns[i + 1].imm != (uint32_t)(placeholder >> 32))
			continue;
		insns[i].imm = (__s32)number;
		insns[i + 1].imm = 0;
		found = true;
	}
	fd = found ? bpf_prog_load(bpf_program__type(prog), bpf_program__name(prog), "GPL", insns,
				   n, opts)
		   : -EINVAL;
	free(insns);
	return fd;
}

uint32_t tracepoints_run(int prog_fd, const uint64_t *args, size_t n, uint32_t failed)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args,
		    .ctx_size_in = (uint32_t)(n * sizeof(*args)));

	return bpf_prog_test_run_opts(prog_fd, &opts) ? failed : opts.retval;
}
