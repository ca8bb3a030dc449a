// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/isolation/privileges.h"

#include <errno.h>
#include <linux/bpf.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/system/preflight.h"

static int set_capabilities(uint64_t permitted, uint64_t effective)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
		{ .permitted = (uint32_t)permitted, .effective = (uint32_t)effective },
		{ .permitted = (uint32_t)(permitted >> 32),
		  .effective = (uint32_t)(effective >> 32) },
	};

	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

/* ---- needed capabilities ---- */

/* Does the kernel refuse bpf(2) as a whole without CAP_BPF?  Tried with an invalid descriptor. */
static bool is_bpf_refused(void)
{
	const uint64_t bpf = PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_SYS_ADMIN);
	uint64_t effective = preflight_caps();
	union bpf_attr attr = { .map_fd = (uint32_t)-1 };
	bool refused;

	if (set_capabilities(effective, effective & ~bpf))
		return true;
	refused = syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr)) && errno == EPERM;
	return set_capabilities(effective, effective) || refused;
}

static bool is_bpf_for_all(void)
{
	FILE *file FCLOSE_AT_END = fopen("/proc/sys/kernel/unprivileged_bpf_disabled", "re");
	int value;

	return !file || fscanf(file, "%d", &value) != 1 || value == 0;
}

/* If the sysctl kernel.unprivileged_bpf_disabled is set, kernels before 5.19 require CAP_BPF for
 * each call, later ones only to make maps and programs.  It may be set at any time. */
uint64_t privileges_to_drain(void)
{
	return is_bpf_for_all() || is_bpf_refused() ? PRIVILEGE(CAP_BPF) : 0;
}

uint64_t privileges_to_name(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent mount;
	bool hidden = false;
	char line[4096];

	if (!mounts)
		return PRIVILEGE(CAP_SYS_PTRACE);
	while (!hidden && getmntent_r(mounts, &mount, line, sizeof(line)))
		hidden = strcmp(mount.mnt_dir, "/proc") == 0 &&
			 strcmp(mount.mnt_type, "proc") == 0 && hasmntopt(&mount, "hidepid");
	endmntent(mounts);
	return hidden ? PRIVILEGE(CAP_SYS_PTRACE) : 0;
}

/* ---- dropping ---- */

static uint64_t kept_of(uint64_t wanted, uint64_t effective)
{
	const uint64_t by_admin =
	    PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON) | PRIVILEGE(CAP_CHECKPOINT_RESTORE);
	uint64_t missing = wanted & ~effective;

	if (missing & by_admin)
		wanted |= PRIVILEGE(CAP_SYS_ADMIN);
	if (missing & PRIVILEGE(CAP_DAC_READ_SEARCH))
		wanted |= PRIVILEGE(CAP_DAC_OVERRIDE);
	return wanted & effective;
}

uint64_t privileges_kept(uint64_t wanted)
{
	return kept_of(wanted, preflight_caps());
}

/* Needs CAP_SETPCAP; without it nothing can be added to the permitted set either. */
static void drop_bounding(uint64_t kept)
{
	for (int i = 0; i < 64 && prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (!(kept & PRIVILEGE(i)))
			prctl(PR_CAPBSET_DROP, i);
}

int privileges_drop(uint64_t wanted, struct error *err)
{
	uint64_t kept = privileges_kept(wanted);
	int r;

	drop_bounding(kept);
	r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : 0;
	if (!r)
		r = set_capabilities(kept, kept);
	if (r)
		error_set(err, STATUS_FAILED, r, "cannot give up privileges: %s", strerror(-r));
	return r;
}

size_t privileges_names(uint64_t set, const char **names, size_t room)
{
	static const struct {
		int capability;
		const char *name;
	} known[] = {
		{ CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE" },
		{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH" },
		{ CAP_FOWNER, "CAP_FOWNER" },
		{ CAP_KILL, "CAP_KILL" },
		{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE" },
		{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN" },
		{ CAP_PERFMON, "CAP_PERFMON" },
		{ CAP_BPF, "CAP_BPF" },
		{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE" },
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known) && n < room; i++)
		if (set & PRIVILEGE(known[i].capability))
			names[n++] = known[i].name;
	return n;
}
