// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/slow/fsync_parts.h"

#include <stdbool.h>

/* Goes through the time of a call once, from its begin to its end: so each nanosecond is in one
 * part. */
struct walk {
	const struct fsync_call *call;
	uint64_t at_ns, limit_ns;
	uint64_t data_ns; /* its own data was written back */
	struct fsync_parts *out;
};

static void add_phase(struct fsync_parts *p, const uint64_t *part, uint64_t ns)
{
	const size_t at = (size_t)((const char *)part - (const char *)p);
	const size_t last = p->n_phases - 1;

	if (p->n_phases && last < FSYNC_PHASES && p->phases[last].part == at) {
		p->phases[last].ns += ns;
		return;
	}
	if (p->n_phases < FSYNC_PHASES)
		p->phases[p->n_phases] = (struct fsync_phase){ at, ns };
	p->n_phases++;
}

/* The time up to @until_ns (0: unknown), if it is ahead, is a part of *part. */
static void spend(struct walk *w, uint64_t until_ns, uint64_t *part)
{
	if (until_ns > w->limit_ns)
		until_ns = w->limit_ns;
	if (until_ns <= w->at_ns)
		return;
	*part += until_ns - w->at_ns;
	add_phase(w->out, part, until_ns - w->at_ns);
	w->at_ns = until_ns;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

/* Up to @until_ns no commit works: this is own data, a fast commit, the log of XFS, or the rest. */
static void spend_alone(struct walk *w, uint64_t until_ns, struct fsync_parts *out)
{
	const struct fsync_call *c = w->call;

	spend(w, earlier(w->data_ns, until_ns), &out->data);
	if (c->fast_ns) {
		spend(w, earlier(c->fast_ns, until_ns), &out->rest);
		spend(w, earlier(c->fast_wait_ns, until_ns), &out->log);
		spend(w, earlier(c->fast_waited_ns, until_ns), &out->ordered);
		spend(w, earlier(c->fast_end_ns, until_ns), &out->log);
	}
	if (c->force_ns) {
		spend(w, earlier(c->force_ns, until_ns), &out->rest);
		spend(w, until_ns, &out->log);
	}
	spend(w, until_ns, &out->rest);
}

static void spend_commit(struct walk *w, const struct fsync_commit *c, struct fsync_parts *out)
{
	spend(w, c->locking_ns, &out->previous); /* it waits for a fast commit */
	spend(w, c->flushing_ns, &out->locking);
	spend(w, c->logging_ns, &out->ordered);
	spend(w, c->wait_ns, &out->log);
	spend(w, c->waited_ns, &out->ordered);
	spend(w, c->flush_ns, c->start_ns ? &out->log : &out->rest);
	spend(w, c->end_ns, c->flush_ns ? &out->flush : c->start_ns ? &out->log : &out->rest);
}

/*
 * The index of the commit that the call waits for; @n: none.  Without the number of its transaction
 * the last one that ends before the call does.  With journalled data it may be a later one: up to
 * 6.2 ext4 commits whatever transaction there is.
 */
static size_t find_waited(const struct fsync_call *call, const struct fsync_commit *commits,
			  size_t n, const struct walk *w)
{
	size_t found = n;

	for (size_t i = 0; i < n; i++) {
		if (commits[i].end_ns <= w->at_ns || commits[i].end_ns > w->limit_ns)
			continue;
		if (call->waits == FSYNC_WAITS_UNKNOWN ||
		    commits[i].transaction == call->transaction ||
		    (call->journals_data &&
		     (int32_t)(commits[i].transaction - call->transaction) > 0))
			found = i;
	}
	return found;
}

void fsync_parts(const struct fsync_call *call, const struct fsync_commit *commits, size_t n,
		 struct fsync_parts *out)
{
	const uint64_t begin_ns = call->sync_ns ?: call->enter_ns;
	const uint64_t data_ns = call->data_ns > begin_ns ? call->data_ns : begin_ns;
	const bool flushes = call->flush_ns >= data_ns;
	struct walk w = { call, call->enter_ns, call->exit_ns, data_ns, out };
	size_t waited;

	*out = (struct fsync_parts){ 0 };
	spend(&w, call->sync_ns, &out->rest);
	/* The write-back of journalled data begins with the commit. */
	if (!call->journals_data)
		spend(&w, data_ns, &out->data);
	if (flushes)
		w.limit_ns = earlier(call->flush_ns, call->exit_ns);
	out->from_ns = w.at_ns;
	out->to_ns = w.limit_ns;
	waited = call->sync_ns ? find_waited(call, commits, n, &w) : n;
	for (size_t i = 0; i <= waited && waited < n; i++) {
		spend_alone(&w, commits[i].start_ns, out);
		if (i < waited)
			spend(&w, commits[i].end_ns, &out->previous);
	}
	if (waited < n) {
		out->commit = &commits[waited];
		spend_commit(&w, out->commit, out);
	}
	spend_alone(&w, w.limit_ns, out);
	w.limit_ns = call->exit_ns;
	spend(&w, call->exit_ns, flushes ? &out->flush : &out->rest);
}

uint64_t fsync_file_ns(const struct fsync_call *call, const struct fsync_parts *parts,
		       uint64_t begin_ns, uint64_t next_ns)
{
	const struct fsync_commit *c = parts->commit;
	uint64_t from_ns = parts->from_ns, to_ns = 0;

	if (c && begin_ns >= c->flushing_ns && begin_ns < c->end_ns)
		to_ns = begin_ns < c->logging_ns ? c->logging_ns : c->waited_ns;
	else if (call->fast_ns && begin_ns >= call->fast_ns && begin_ns < call->fast_waited_ns)
		to_ns = call->fast_waited_ns;
	if (to_ns == call->fast_waited_ns && from_ns < call->fast_wait_ns)
		from_ns = call->fast_wait_ns; /* before, its data is submitted: a part of the log */
	from_ns = from_ns > begin_ns ? from_ns : begin_ns;
	to_ns = earlier(earlier(to_ns, next_ns), parts->to_ns);
	return to_ns > from_ns ? to_ns - from_ns : 0;
}
