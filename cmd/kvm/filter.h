/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The filter of events by a regular expression: -f. */
#ifndef IOTRACE_CMD_KVM_FILTER_H
#define IOTRACE_CMD_KVM_FILTER_H

#include <regex.h>
#include <stdbool.h>

#include "cmd/kvm/events.h"
#include "core/base/error.h"

/* -f: which events are selected.  A filter that is NULL selects all. */

#define KVM_PATTERN_SIZE 1024

/* Compiles @pattern, which matches an event's name from its beginning, in upper or lower case.
 * -EINVAL with @err (STATUS_USAGE); then *out is not to be freed. */
int kvm_regex(const char *pattern, regex_t *out, struct error *err);

/* What kvm_stat calls the event that the kernel calls @name: that, or in @buf another. */
const char *kvm_stat_name(const char *name, char buf[EVENT_NAME_SIZE]);

/* Does @filter select event @name, by its name or by kvm_stat's? */
bool kvm_filter_matches(const regex_t *filter, const char *name);

/* Could @filter select a reason of event @parent that has no name of its own? */
bool kvm_filter_matches_unnamed(const regex_t *filter, const char *pattern,
				const struct kvm_events *e, size_t parent);

/* Does @filter, which was made of @pattern, select any event of @e, or a reason that may still
 * come?  -EINVAL with @err (STATUS_USAGE), whose hint has names that are close. */
int kvm_filter_check(const regex_t *filter, const char *pattern, const struct kvm_events *e,
		     struct error *err);

#endif
