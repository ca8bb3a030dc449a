/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_REASON_TABLES_H
#define IOTRACE_CMD_KVM_REASON_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Names of exit reasons for where the kernel does not say them itself. */
struct known {
	uint32_t value;
	const char *name;
};

struct known_table {
	const struct known *known;
	size_t n;
};

extern const struct known_table reasons_vmx, reasons_svm, reasons_arm_traps, reasons_arm_returns,
    reasons_uexit;

#endif
