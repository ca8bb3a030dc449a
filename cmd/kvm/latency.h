/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Times from exit to entry, as they grow from output to output. */
#ifndef IOTRACE_CMD_KVM_LATENCY_H
#define IOTRACE_CMD_KVM_LATENCY_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "output/hist.h"
#include "probes/kvm.h"

/* What a row of the probe has counted in an interval. */
struct latency_row {
	struct kvm_latency_key key;
	size_t event;  /* for whoever looks its reason up */
	char vcpu[12]; /* the same of its text; "" */
	uint64_t exits;
	struct hist times;
};

/* Begins as { 0 }. */
struct latency {
	struct latency_row *rows; /* only rows with counts */
	size_t n;
	struct latency_row *before; /* the probe's rows by number, at the last read */
	size_t n_before;
};

void latency_free(struct latency *l);

/* Reads the exits that the probe has counted since the last read, except in bank @active, which the
 * probe is writing.  -errno with @err. */
int latency_read(struct latency *l, const struct kvm_latency_row *rows, size_t n, uint32_t active,
		 struct error *err);

#endif
