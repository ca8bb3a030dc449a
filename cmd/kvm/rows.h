/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_KVM_ROWS_H
#define IOTRACE_CMD_KVM_ROWS_H

#include "cmd/kvm/events.h"
#include "cmd/kvm/latency.h"
#include "cmd/kvm/reasons.h"
#include "core/system/guest_names.h"
#include "core/base/text.h"
#include "output/schema.h"

struct kvm_row {
	const char *event;
	uint64_t total, delta;
	/* With -x, of kvm_exit's children: */
	uint32_t pid;
	const char *guest, *vcpu;
	uint64_t count, total_ns, avg_ns, p99_ns, max_ns;
	const struct hist *slots; /* NULL: none */
};

struct kvm_rows {
	struct kvm_row *rows;
	size_t n;
	struct latency_sum *sums; /* what slots point to */
	struct text_set texts;
	struct guest_names guests;
};

/* Looks up the names of all processes in @l, a round of struct guest_names: to be called while they
 * run.  0 or -ENOMEM. */
int kvm_rows_name_guests(struct kvm_rows *rows, const struct latency *l);

/* Event, total, delta; with @latency also the times, with @by_vcpu also the vCPU. */
const struct schema *kvm_schema(bool latency, bool by_vcpu);

/* The same of -x's table: no totals, microseconds. */
const struct schema *kvm_latency_schema(bool by_vcpu);

/* Is event @i to be shown? */
bool kvm_shown(const struct kvm_events *e, size_t i);

/* All events that are to be shown, by name. With @without >= 0 not the children of that one.
 * 0 or -ENOMEM. */
int kvm_rows_of_events(struct kvm_rows *rows, const struct kvm_events *e, int without);

/* Names the reasons of exits; returns @name. */
struct kvm_namer {
	char *(*name)(const void *ctx, uint32_t class, uint32_t reason,
		      char name[REASON_NAME_SIZE]);
	const void *ctx;
};

/* The event of @exit_event's child, made if it is not there: its index or -ENOMEM.  @name: what
 * @namer calls its reason. */
int kvm_event_of_reason(struct kvm_events *e, int exit_event, const struct kvm_namer *namer,
			uint32_t class, uint32_t reason, char name[REASON_NAME_SIZE]);

/* One row per sum of @l, as of latency_sums(), behind those that there are; their events are added
 * to @e.  0 or -ENOMEM. */
int kvm_rows_of_latency(struct kvm_rows *rows, struct kvm_events *e, int exit_event,
			const struct latency *l, const struct kvm_namer *namer, uint32_t pid);

/* Makes them empty; the names stay. */
void kvm_rows_clear(struct kvm_rows *rows);
void kvm_rows_free(struct kvm_rows *rows);

#endif
