/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Dropping capabilities after attaching. */
#ifndef IOTRACE_CORE_ISOLATION_PRIVILEGES_H
#define IOTRACE_CORE_ISOLATION_PRIVILEGES_H

#include <linux/capability.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Capabilities that are given up once everything is attached.  A set has a bit for each. */
#define PRIVILEGE(capability) (UINT64_C(1) << (capability))

/* To signal COMMAND, which may run as another user. */
#define PRIVILEGES_COMMAND PRIVILEGE(CAP_KILL)
/* To open, rename or remove a file in another user's directory, also in a directory like /tmp. */
#define PRIVILEGES_FILE (PRIVILEGE(CAP_DAC_OVERRIDE) | PRIVILEGE(CAP_FOWNER))
/* To attach further programs, also to functions of modules. */
#define PRIVILEGES_ATTACH (PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON) | PRIVILEGE(CAP_SYS_ADMIN))
/* To read the mappings and the files of other users' processes, to follow new processes, and to
 * make room for tables of more files. */
#define PRIVILEGES_USER_STACKS                                                                     \
	(PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_PERFMON) |                 \
	 PRIVILEGE(CAP_DAC_READ_SEARCH) | PRIVILEGE(CAP_CHECKPOINT_RESTORE))
/* To find the names of cgroups in another user's directory. */
#define PRIVILEGES_CGROUPS PRIVILEGE(CAP_DAC_READ_SEARCH)
/* To see which process of another user holds a virtual machine. */
#define PRIVILEGES_GUESTS (PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_DAC_READ_SEARCH))

/* The capability for bpf(2) on open maps and programs: CAP_BPF or none. */
uint64_t privileges_to_drain(void);

/* The capability for the name of another user's process: CAP_SYS_PTRACE if /proc is mounted with
 * hidepid, otherwise none. */
uint64_t privileges_to_name(void);

/* The capabilities that privileges_drop(@wanted) leaves: the wanted effective capabilities; if one
 * is missing, a capability that includes it (CAP_SYS_ADMIN for CAP_BPF). */
uint64_t privileges_kept(uint64_t wanted);

/* Leaves this process privileges_kept(@wanted), as permitted and effective; nothing inheritable or
 * ambient, nor, if it has the right, more in the bounding set; and no program that it executes can
 * get more.  Processes that were forked before are unchanged. 0, or -errno with @err. */
int privileges_drop(uint64_t wanted, struct error *err);

/* Fills @names (room for @room) with the names ("CAP_BPF") of the capabilities in @set that this
 * header defines.  Returns how many. */
size_t privileges_names(uint64_t set, const char **names, size_t room);

#endif
