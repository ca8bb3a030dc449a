/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_FORESEE_H
#define IOTRACE_CMD_KVM_FORESEE_H

#include <stdbool.h>

#include "core/base/error.h"

/*
 * --list-hooks --kernel @dir: how the events of the kernel that is described there would be seen
 * (core/bpf/hook_kernel.h); @latency: with -x.  Which events there are is in tracefs alone, so that
 * only those whose arguments are looked at are asked for.  -errno with @err.
 */
int kvm_foresee(const char *dir, bool latency, struct error *err);

#endif
