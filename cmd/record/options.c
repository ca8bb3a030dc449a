// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/record/options.h"

#include <errno.h>
#include <string.h>

#include "cmd/engine/segments.h"
#include "cmd/engine/trigger_file.h"
#include "core/base/clock.h"
#include "core/base/parse.h"

#define OWN struct record_options

#define LEAST_SIZE (16 << 20)

static int take_size(void *own, const char *arg, struct error *err)
{
	OWN *o = own;

	return parse_size("--size", arg, LEAST_SIZE, &o->size, err);
}

static int take_trigger(void *own, const char *arg, struct error *err)
{
	OWN *o = own;

	return triggers_add(&o->triggers, arg, err);
}

static const struct args_option options[] = {
	{ "dir", 0, "DIR", "the directory of the recordings (" SEGMENTS_DIR ")", ARGS_OUTPUT,
	  ARGS_FILE(dir) },
	{ "size", 0, "SIZE", "the directory's recordings have at most SIZE bytes, 16M or more (1G)",
	  ARGS_OUTPUT, ARGS_TAKEN(take_size) },
	{ "keep", 0, "TIME", "recordings that are older than TIME are removed (7d)", ARGS_OUTPUT,
	  ARGS_SECONDS(keep_ns) },
	{ "trigger", 0, "WHEN",
	  "keep every request around the moment WHEN (p99>100ms, psi>30%, error, stuck>5s, signal); "
	  "may be repeated",
	  ARGS_OUTPUT, ARGS_TAKEN(take_trigger) },
	{ "before", 0, "TIME", "from TIME before a trigger (60s)", ARGS_OUTPUT,
	  ARGS_SECONDS(before_ns) },
	{ "after", 0, "TIME", "until TIME after a trigger (30s)", ARGS_OUTPUT,
	  ARGS_SECONDS(after_ns) },
	{ "sync", 0, NULL,
	  "flush each interval to the disk: a machine that crashes loses the last one", ARGS_OUTPUT,
	  ARGS_FLAG(sync) },
	{ "interval", 0, "SECS", "one interval every SECS seconds (1)", ARGS_COUNTED,
	  ARGS_SECONDS(interval_ns) },
	{ 0 },
};

static int take_collector(const char *arg, void *own, struct error *err)
{
	OWN *o = own;
	struct collector_words *words = &o->collectors[o->n_collectors];
	int r;

	if (o->n_collectors == RECORD_COLLECTORS)
		return error_set(err, STATUS_USAGE, -E2BIG, "more than %d collectors",
				 RECORD_COLLECTORS);
	r = collector_parse(arg, words, err);
	if (r)
		return r;
	for (size_t i = 0; i < o->n_collectors; i++) {
		if (strcmp(o->collectors[i].name, words->name) != 0)
			continue;
		error_set(err, STATUS_USAGE, -EINVAL, "two collectors are called '%s'",
			  words->name);
		error_hint(err, "give one of them a name: %s-2='%s ...'", words->name, words->name);
		return -EINVAL;
	}
	o->n_collectors++;
	return 0;
}

/* The value of an option of @c, which has the names @letter and @name; NULL: it is not given. */
static const char *value_of(const struct collector_words *c, const char *letter, const char *name)
{
	const char *value = NULL;

	for (const char *word = c->text; *word; word += strlen(word) + 1) {
		const char *of = strncmp(word, name, strlen(name)) == 0 ? name : letter;

		if (strncmp(word, of, strlen(of)) != 0)
			continue;
		value = word + strlen(of);
		value += *value == '=' || !*value;
	}
	return value;
}

/* Can rows of @c meet the condition? */
static bool can_meet(const struct collector_words *c, const struct trigger *t)
{
	const char *needs = trigger_needs(t->kind), *value;
	uint64_t min_ns = NS_PER_SEC;
	struct error unused;

	if (strcmp(c->tool->name, needs) != 0)
		return false;
	if (t->kind == TRIGGER_STUCK) {
		value = value_of(c, "-m", "--min");
		return (value && parse_ms("-m", value, &min_ns, &unused)) || min_ns <= t->limit;
	}
	if (t->kind != TRIGGER_P99)
		return true;
	value = value_of(c, "--value", "--value");
	if (value && strcmp(value, "latency") != 0)
		return false;
	value = value_of(c, "-T", "--type");
	return !value || strcmp(value, "blk") == 0;
}

/* Adds the collector of details, unless one has its name; triggers need other collectors. */
static int add_detail(OWN *o, struct error *err)
{
	bool has = false;

	for (size_t i = 0; i < o->n_collectors; i++) {
		const bool detail = strcmp(o->collectors[i].name, TRIGGER_DETAIL) == 0;

		has |= detail;
		if (detail && o->triggers.n && strcmp(o->collectors[i].tool->name, "slow") != 0)
			return error_set(err, STATUS_USAGE, -EINVAL,
					 "with --trigger the collector '" TRIGGER_DETAIL
					 "' must be slow: it has the requests");
		if (strcmp(o->collectors[i].name, RING_RECENT) == 0)
			return error_set(err, STATUS_USAGE, -EINVAL,
					 "no collector can be called '" RING_RECENT
					 "': --trigger calls details so");
	}
	if (!o->triggers.n)
		return 0;
	if (!has && take_collector(TRIGGER_DETAIL "=slow -m 0", o, err))
		return -EINVAL;
	for (size_t k = 0; k < o->triggers.n; k++) {
		const char *needs = trigger_needs(o->triggers.list[k].kind);
		bool found = !needs;

		for (size_t i = 0; i < o->n_collectors && !found; i++)
			found = can_meet(&o->collectors[i], &o->triggers.list[k]);
		if (!found)
			return error_set(err, STATUS_USAGE, -EINVAL,
					 "--trigger %s needs the collector %s%s",
					 o->triggers.list[k].text, needs,
					 o->triggers.list[k].kind == TRIGGER_P99
					     ? ", of all layers or with -T blk, without --value"
					 : o->triggers.list[k].kind == TRIGGER_STUCK
					     ? ", whose -m is not longer than that time"
					     : "");
	}
	return 0;
}

static const struct args_example examples[] = {
	{ "", "the last week" },
	{ "--size 200M --keep 1d top slow", "two collectors, a day" },
	{ "--trigger 'p99>100ms'", "and every request then" },
	{ "'slow -m 5 -d sda' w='top -d sda'", "options, and a name" },
	{ 0 },
};

const struct args_spec record_args = {
	.options = options,
	.doc =
	    "Records what other subcommands count, always, in a directory whose oldest recordings "
	    "make room for new ones. `iotrace SUBCOMMAND --replay DIR --begin 03:10 --end 03:15` "
	    "shows them.",
	.notes =
	    "COLLECTOR is one of " COLLECTOR_NAMES " (all of them by default), or a subcommand "
	    "with its options, in quotes; NAME=COLLECTOR gives it another name, for `--replay "
	    "DIR/NAME`.",
	.argument = take_collector,
	.arguments = "[COLLECTOR...]",
	.examples = examples,
};

int record_options(int argc, char **argv, struct record_options *o, struct error *err)
{
	int r;

	*o = (struct record_options){ .dir = SEGMENTS_DIR,
				      .size = 1ULL << 30,
				      .keep_ns = 7 * 86400 * NS_PER_SEC,
				      .interval_ns = NS_PER_SEC,
				      .triggers = { .psi_fd = -1 },
				      .before_ns = 60 * NS_PER_SEC,
				      .after_ns = 30 * NS_PER_SEC };
	r = args_parse(&record_args, o, argc, argv, &o->args, err);
	if (!r && !o->n_collectors)
		o->n_collectors = collector_defaults(o->collectors);
	return r || o->args.help ? r : add_detail(o, err);
}
