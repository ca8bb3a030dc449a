// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/record/triggers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/report.h"
#include "cmd/engine/trigger_file.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "core/base/text.h"
#include "output/pivot.h"

#define PRESSURE "/proc/pressure/io"

static const struct {
	const char *name, *needs;
	bool limit;
} kinds[] = {
	[TRIGGER_P99] = { "p99", "breakdown", true }, [TRIGGER_PSI] = { "psi", NULL, true },
	[TRIGGER_ERROR] = { "error", "slow", false }, [TRIGGER_STUCK] = { "stuck", "stuck", true },
	[TRIGGER_SIGNAL] = { "signal", NULL, false },
};

const char *trigger_needs(enum trigger_kind kind)
{
	return kinds[kind].needs;
}

/* ---- options ---- */

/* "30%" or "30" */
static int parse_percent(const char *text, uint64_t *out, struct error *err)
{
	char number[8];
	const size_t len = strcspn(text, "%");

	if (len >= sizeof(number) || (text[len] && text[len + 1]))
		return error_set(err, STATUS_USAGE, -EINVAL, "invalid percentage '%s'",
				 text_shown(text).text);
	memcpy(number, text, len);
	number[len] = 0;
	return parse_u64("--trigger psi", number, 0, 100, out, err);
}

int triggers_add(struct triggers *t, const char *arg, struct error *err)
{
	const size_t len = strcspn(arg, ">");
	struct trigger *trigger = &t->list[t->n];
	size_t kind = 0;
	int r = 0;

	while (kind < ARRAY_SIZE(kinds) &&
	       (strlen(kinds[kind].name) != len || memcmp(kinds[kind].name, arg, len) != 0 ||
		kinds[kind].limit != (arg[len] == '>')))
		kind++;
	if (kind == ARRAY_SIZE(kinds)) {
		error_set(err, STATUS_USAGE, -EINVAL, "unknown trigger '%s'", text_shown(arg).text);
		error_hint(err, "triggers: " TRIGGERS_NAMES);
		return -EINVAL;
	}
	if (t->n == TRIGGERS_MAX || strlen(arg) >= sizeof(trigger->text))
		return error_set(err, STATUS_USAGE, -E2BIG,
				 "more than %d triggers, or '%s' is too long", TRIGGERS_MAX,
				 text_shown(arg).text);
	*trigger = (struct trigger){ .kind = (enum trigger_kind)kind };
	snprintf(trigger->text, sizeof(trigger->text), "%s", arg);
	if (kind == TRIGGER_PSI)
		r = parse_percent(arg + len + 1, &trigger->limit, err);
	else if (kinds[kind].limit)
		r = parse_seconds("--trigger", arg + len + 1, &trigger->limit, err);
	t->n += !r;
	return r;
}

/* ---- conditions ---- */

static void meet(struct triggers *t, struct trigger *trigger, uint64_t epoch_ns, const char *what)
{
	const bool same = trigger->true_ns && epoch_ns - trigger->true_ns < t->same_ns &&
			  trigger->kind != TRIGGER_SIGNAL;
	char text[TRIGGER_TEXT_SIZE];

	trigger->true_ns = epoch_ns;
	if (same)
		return;
	snprintf(text, sizeof(text), "%s%s%s", trigger->text, *what ? ": " : "", what);
	ring_trigger(t->ring, epoch_ns, text);
}

/* Of `breakdown -T blk`, and of the table of all layers. */
static bool is_of_block_layer(const char *layer)
{
	return strcmp(layer, "blk") == 0 || strcmp(layer, "device") == 0;
}

static void check_row(struct triggers *t, struct trigger *trigger, const struct schema *schema,
		      const void *row, uint64_t end_ns)
{
	const char *op = schema_text(schema, row, "op"), *disk = schema_text(schema, row, "disk");
	const char *status = schema_text(schema, row, "status");
	char what[TRIGGER_TEXT_SIZE] = "";
	uint64_t value;

	switch (trigger->kind) {
	case TRIGGER_P99:
		value = schema_number(schema, row, "p99_ns");
		if (value > trigger->limit && is_of_block_layer(schema_text(schema, row, "layer")))
			snprintf(what, sizeof(what), "%.3f ms, %s%s%s", (double)value / 1e6, op,
				 *disk ? " of " : "", disk);
		break;
	case TRIGGER_STUCK:
		value = schema_number(schema, row, "age_ns");
		if (value > trigger->limit &&
		    strcmp(schema_text(schema, row, "kind"), "request") == 0)
			snprintf(what, sizeof(what), "%.1f s, %s of %s", (double)value / 1e9, op,
				 disk);
		break;
	case TRIGGER_ERROR:
		if (*status && strcmp(status, "ok") != 0)
			snprintf(what, sizeof(what), "%s, %s of %s, sector %" PRIu64, status, op,
				 disk, schema_number(schema, row, "sector"));
		break;
	case TRIGGER_PSI:
	case TRIGGER_SIGNAL:
		break;
	}
	if (*what)
		meet(t, trigger, end_ns, what);
}

void triggers_interval(struct triggers *t, const struct tool_run *tool,
		       const struct recording_interval *in)
{
	const struct schema *schema = tool->show.tables[0].schema;

	for (size_t k = 0; k < t->n; k++) {
		const char *needs = trigger_needs(t->list[k].kind);

		if (!needs || strcmp(needs, tool->tool->name) != 0)
			continue;
		for (size_t i = 0; i < in->tables[0].n; i++)
			check_row(t, &t->list[k], schema,
				  (const char *)in->tables[0].rows + i * schema->row_size,
				  in->interval.end_ns);
	}
}

void triggers_signal(struct triggers *t)
{
	const uint64_t now = clock_epoch_ns();

	for (size_t i = 0; i < t->n; i++)
		if (t->list[i].kind == TRIGGER_SIGNAL) {
			meet(t, &t->list[i], now, "");
			return;
		}
	if (t->n)
		ring_trigger(t->ring, now, "signal");
}

/* ---- pressure ---- */

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0": microseconds in which a task waited for I/O */
static int read_pressure(const struct triggers *t, uint64_t *us)
{
	char text[256];
	const ssize_t n = pread(t->psi_fd, text, sizeof(text) - 1, 0);
	const char *total;

	if (n < 0)
		return -errno;
	text[n] = 0;
	total = strstr(text, "total=");
	return total && sscanf(total, "total=%" SCNu64, us) == 1 ? 0 : -EINVAL;
}

void triggers_open(struct triggers *t, struct ring *ring, uint64_t after_ns, uint64_t interval_ns)
{
	t->ring = ring;
	/* The next interval may end somewhat late. */
	t->same_ns = interval_ns + interval_ns / 2;
	if (t->same_ns < after_ns)
		t->same_ns = after_ns;
	t->psi_fd = -1;
	for (size_t i = 0; i < t->n && t->psi_fd < 0; i++) {
		int r = 0;

		if (t->list[i].kind != TRIGGER_PSI)
			continue;
		t->psi_fd = open(PRESSURE, O_RDONLY | O_CLOEXEC);
		if (t->psi_fd < 0)
			r = -errno;
		else
			r = read_pressure(t, &t->psi_us);
		t->psi_ns = clock_mono_ns();
		if (!r)
			continue;
		report_line("note: --trigger %s is not used: " PRESSURE ": %s", t->list[i].text,
			    strerror(-r));
		triggers_close(t);
		return;
	}
}

void triggers_close(struct triggers *t)
{
	if (t->n && t->psi_fd >= 0)
		close(t->psi_fd);
	t->psi_fd = -1;
}

void triggers_poll(struct triggers *t)
{
	const uint64_t now = clock_mono_ns();
	char what[32];
	double percent;
	uint64_t us = 0;

	if (!t->n || t->psi_fd < 0 || now <= t->psi_ns || read_pressure(t, &us))
		return;
	percent = (double)(us - t->psi_us) * 1e5 / (double)(now - t->psi_ns);
	for (size_t i = 0; i < t->n; i++)
		if (t->list[i].kind == TRIGGER_PSI && percent > (double)t->list[i].limit) {
			snprintf(what, sizeof(what), "%.1f %%", percent);
			meet(t, &t->list[i], clock_epoch_ns(), what);
		}
	t->psi_us = us;
	t->psi_ns = now;
}
