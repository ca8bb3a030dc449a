/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of KVM's exit reasons, from the running kernel, or from the uapi headers (generated
 * kvm_exits.inc).
 */
#ifndef IOTRACE_CMD_KVM_EXIT_REASONS_H
#define IOTRACE_CMD_KVM_EXIT_REASONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Why a guest of KVM was left: what the numbers of kvm_exit and kvm_userspace_exit are called.  The
 * names are the kernel's own (in the tracepoints' `format` text), with '_' instead of blanks.
 * Reasons without a name there have the names of the uapi headers that iotrace was built with.
 */

enum reason_event { REASON_EXIT, REASON_UEXIT, REASON_EVENTS };

/* How this machine's CPUs run guests. */
enum cpu_virt { CPU_UNKNOWN, CPU_VMX, CPU_SVM, CPU_ARM64 };

/* By the text of /proc/cpuinfo, at @path, and uname's @machine. */
enum cpu_virt cpus_virt(const char *path, const char *machine);

/* What kvm_exit's class says: "isa" on x86, "ret" on arm64. */
enum { CLASS_VMX = 1, CLASS_SVM = 2, CLASS_ARM_TRAP = 2 };

/* What KVM_RUN has returned, as kvm_userspace_exit's class. */
enum {
	CLASS_RETURNED, /* 0: the reason is valid */
	CLASS_EINTR,	/* the reason may be an old one */
	CLASS_ERRNO,	/* another error */
};

#define REASON_NAME_SIZE 64

/* One number that has a name.  Several may have the same. */
struct reason {
	enum reason_event event;
	uint32_t class, reason;
	char name[REASON_NAME_SIZE];
	bool listed; /* occurs on this CPU */
};

/* Offsets in the records; 0: no such field. */
struct reason_fields {
	uint32_t exit_reason, exit_class, exit_vcpu;
	uint32_t uexit_reason, uexit_errno;
	uint32_t entry_vcpu;
};

/* The texts of kvm_exit, kvm_userspace_exit and kvm_entry; NULL where they cannot be read. */
struct reason_formats {
	char *exit, *uexit, *entry;
};

struct reasons;

/* The reasons of @cpu are listed though they have not been seen.  @formats stay the caller's.  0 or
 * -ENOMEM. */
int reasons_open(const struct reason_formats *formats, enum cpu_virt cpu, struct reasons **out);

/* The reasons of the running kernel and this CPU.  0 or -ENOMEM. */
int reasons_open_running(struct reasons **out);
void reasons_free(struct reasons *r);

struct reason_fields reasons_fields(const struct reasons *r);

/* All that have a name.  The array belongs to @r. */
const struct reason *reasons_list(const struct reasons *r, size_t *n);

/* The name of any number: "HLT", or without a name "0x8f".  Returns @name. */
char *reason_name(const struct reasons *r, enum reason_event event, uint32_t class, uint32_t reason,
		  char name[REASON_NAME_SIZE]);

#endif
