/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_CHECK_H
#define IOTRACE_CMD_KVM_CHECK_H

#include "core/system/privileges.h"

struct check;

#define KVM_KEEPS_FOR_DEBUGFS PRIVILEGE(CAP_DAC_READ_SEARCH)

/* --check: tracepoints with times and without, and debugfs. */
void kvm_check(struct check *check);

#endif
