// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/block/uring_events.h"

#include "core/base/array.h"

enum { TAG_REQUEST = 1, TAG_NO_REQUEST };

/* (request) by 6.5, (request, bool) in 6.1, and before that (ring, request, ...): KERNEL-NOTES.md.
 */
static const struct hook_alt submit_alts[] = {
	{ HOOK_TP_BTF, "io_uring_submit_req", 1, { "submit_req_btf" } },
	{ HOOK_RAW_TP, "io_uring_submit_req", 1, { "submit_req_raw" } },
	{ HOOK_TP_BTF, "io_uring_submit_sqe", 2, { "submit_sqe_btf" } },
	{ HOOK_RAW_TP, "io_uring_submit_sqe", 2, { "submit_sqe_raw" } },
	{ HOOK_RAW_TP, "io_uring_submit_sqe", 7, { "submit_old_raw" } },
};

static const struct hook_alt complete_alts[] = {
	{ HOOK_TP_BTF, "io_uring_complete", 3, { "complete_cqe_btf" }, TAG_REQUEST },
	{ HOOK_RAW_TP, "io_uring_complete", 3, { "complete_cqe_raw" }, TAG_REQUEST },
	{ HOOK_RAW_TP, "io_uring_complete", 7, { "complete_args_raw" }, TAG_REQUEST },
	{ HOOK_RAW_TP, "io_uring_complete", 4, { "complete_old_raw" }, TAG_NO_REQUEST },
};

static const struct hook_alt overflow_alts[] = {
	{ HOOK_RAW_TP, "io_uring_cqe_overflow", 5, { "overflow_raw" } },
};

const struct hook_event uring_events[URING_EVENTS] = {
	[URING_SUBMIT] = { "uring_submit", submit_alts, ARRAY_SIZE(submit_alts), false },
	[URING_COMPLETE] = { "uring_complete", complete_alts, ARRAY_SIZE(complete_alts), false },
	[URING_OVERFLOW] = { "uring_overflow", overflow_alts, ARRAY_SIZE(overflow_alts), true },
};

bool uring_is_seen(const struct hooks *hooks)
{
	return hooks_tag(hooks, uring_events[URING_COMPLETE].name, 0) != 0;
}

bool uring_has_request(const struct hooks *hooks)
{
	return hooks_tag(hooks, uring_events[URING_COMPLETE].name, 0) != TAG_NO_REQUEST;
}
