// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/report.h"
#include "core/base/clock.h"
#include "core/bpf/hook_kernel.h"

/* What may be wrong with the arguments comes first, then what may be wrong
 * with the machine: a wrong disk is a wrong disk for everybody. */
int session_begin(struct session *s, const struct args *args, struct blk_filters *filters,
		  int *status)
{
	struct error err;
	int r;

	memset(s, 0, sizeof(*s));
	s->filters = filters;
	r = args->kernel ? 0 : preflight_resources(&err);
	if (!r)
		r = disks_open(NULL, &s->disks, &err);
	if (!r)
		r = blk_resolve_filters(filters, s->disks, &err);
	if (!r && !args->kernel)
		r = blk_check_processes(filters, args, &err);
	if (r)
		*status = report_error(&err);
	return r;
}

static int choose(const struct hook_event *events, size_t n, const struct args *args,
		  struct hooks **hooks, struct hook_kernel **kernel, struct error *err)
{
	int r;

	if (args->kernel) {
		r = hook_kernel_open(args->kernel, kernel, err);
		return r ? r : hooks_foresee(events, n, *kernel, args->hooks, hooks, err);
	}
	r = preflight_trace(err);
	if (r)
		return r;
	hooks_log(args->verbose ? report_verbose : NULL);
	return hooks_choose(events, n, args->hooks, hooks, err);
}

int session_choose_hooks(const struct hook_event *events, size_t n, const struct args *args,
			 struct hooks **hooks, struct hook_kernel **kernel, int *status)
{
	struct error err;
	int r = choose(events, n, args, hooks, kernel, &err);

	if (r && *hooks && args->verbose)
		blk_explain_hooks(*hooks);
	if (*hooks && args->list_hooks) {
		if (args->kernel) {
			blk_table_hooks(*hooks);
		} else {
			hooks_try(*hooks);
			blk_list_hooks(*hooks);
		}
		*status = report_stdout();
		return -ECANCELED;
	}
	if (r)
		*status = report_error(&err);
	return r;
}

int session_choose_events(struct session *s, const struct hook_event *events, size_t n,
			  const struct args *args, int *status)
{
	int r = session_choose_hooks(events, n, args, &s->hooks, &s->kernel, status);

	if (!r)
		s->flags = blk_flags(s->hooks);
	return r;
}

int session_choose(struct session *s, const struct args *args, unsigned int wants, int *status)
{
	s->n_events = blk_events(wants, s->events);
	return session_choose_events(s, s->events, s->n_events, args, status);
}

bool session_look(struct session *s, __u32 *stopped, struct blk_loss_state *losses)
{
	const struct disk_ref *disk = &s->filters->disk;
	bool looked = disks_refresh(s->disks), gone;

	if (!looked || !disk->dev)
		return looked;
	gone = !disks_is_there(s->disks, disk);
	if (gone && !s->disk_gone)
		losses->disk_gone++;
	if (gone != s->disk_gone)
		__atomic_store_n(stopped, gone, __ATOMIC_SEQ_CST);
	s->disk_gone = gone;
	return looked;
}

void session_end(struct session *s)
{
	hooks_free(s->hooks);
	hook_kernel_free(s->kernel);
	disks_free(s->disks);
	memset(s, 0, sizeof(*s));
}

int session_source(const char *text)
{
	if (fputs(text, stdout) < 0)
		return report_output(-errno);
	return report_stdout();
}

char *session_seconds(uint64_t ns, char *buf, size_t size)
{
	int len = snprintf(buf, size, "%llu.%09llu", (unsigned long long)(ns / NS_PER_SEC),
			   (unsigned long long)(ns % NS_PER_SEC));

	while (len > 0 && buf[len - 1] == '0')
		buf[--len] = 0;
	if (len > 0 && buf[len - 1] == '.')
		buf[--len] = 0;
	return buf;
}
