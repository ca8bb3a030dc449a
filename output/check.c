/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/check.h"

#include "output/render_internal.h"

#define NAME_WIDTH 12

static const char *const works_keys[] = {
	[CHECK_NO] = "no",
	[CHECK_IN_PART] = "in_part",
	[CHECK_YES] = "yes",
};

static const char *const works_texts[] = {
	[CHECK_NO] = "does not work",
	[CHECK_IN_PART] = "works in part",
	[CHECK_YES] = "works",
};

bool check_all_work(const struct check_report *report)
{
	for (size_t i = 0; i < report->n_subcommands; i++)
		if (report->subcommands[i].works != CHECK_YES)
			return false;
	return true;
}

static bool is_there(const char *text)
{
	return text && *text;
}

/* ---- text ---- */

/* Strings up to a NULL, escaped. */
static void text_pieces(struct sink *sink, const char *const *pieces)
{
	for (; *pieces; pieces++)
		put_escaped(sink, *pieces);
}

#define TEXT(sink, ...) text_pieces(sink, (const char *const[]){ __VA_ARGS__, NULL })

/* BEFORE, the reason, and the hint in parentheses; ends the line. */
static void text_reason(struct sink *sink, const char *before, const char *why, const char *hint)
{
	if (is_there(why)) {
		sink_puts(sink, before);
		put_escaped(sink, why);
	}
	if (is_there(hint)) {
		sink_puts(sink, " (");
		put_escaped(sink, hint);
		sink_puts(sink, ")");
	}
	sink_puts(sink, "\n");
}

static void text_hook(struct sink *sink, const struct meta_hook *hook)
{
	TEXT(sink, "    ", hook->event, ": ", hook->reason ? "not " : "", hook->kind, ":",
	     hook->target);
	text_reason(sink, ": ", hook->reason, NULL);
}

static void text_kept(struct sink *sink, const struct check_kept *kept)
{
	sink_printf(sink, "    capabilities kept%s%s:", *kept->when ? " " : "", kept->when);
	for (size_t i = 0; i < kept->n; i++)
		sink_printf(sink, "%s %s", i ? "," : "", kept->names[i]);
	sink_puts(sink, kept->n ? "\n" : " none\n");
}

static void text_subcommand(struct sink *sink, const struct check_subcommand *s, bool verbose)
{
	sink_printf(sink, "%-*s %s", NAME_WIDTH, s->name, works_texts[s->works]);
	text_reason(sink, ": ", s->why, s->hint);
	for (size_t i = 0; i < s->n_gaps; i++) {
		const struct check_gap *gap = &s->gaps[i];

		TEXT(sink, "    ",
		     gap->what[0] == '-' ? "not with "
		     : gap->what[0]	 ? "without "
					 : "note",
		     gap->what);
		text_reason(sink, ": ", gap->why, gap->hint);
	}
	for (size_t i = 0; verbose && i < s->n_hooks; i++)
		text_hook(sink, &s->hooks[i]);
	for (size_t i = 0; verbose && i < s->n_keeps; i++)
		text_kept(sink, &s->keeps[i]);
}

static void text_report(struct sink *sink, const struct check_report *report, bool verbose)
{
	TEXT(sink, "iotrace ", report->version, " on Linux ", report->kernel, " (", report->machine,
	     ")");
	sink_puts(sink, "\n\n");
	for (size_t i = 0; i < report->n_items; i++) {
		const struct check_item *item = &report->items[i];

		sink_printf(sink, "%-*s ", NAME_WIDTH, item->name);
		put_escaped(sink, is_there(item->state) ? item->state : item->ok ? "yes" : "no");
		text_reason(sink, ": ", item->detail, item->hint);
	}
	sink_puts(sink, "\n");
	for (size_t i = 0; i < report->n_subcommands; i++)
		text_subcommand(sink, &report->subcommands[i], verbose);
	if (!verbose)
		sink_puts(sink,
			  "\n-v also shows the hooks, and the capabilities that a run keeps.\n");
}

/* ---- JSON ---- */

static void json_bool(struct sink *sink, const char *key, bool value, bool first)
{
	json_key(sink, key, first);
	sink_puts(sink, value ? "true" : "false");
}

static void json_optional(struct sink *sink, const char *key, const char *value)
{
	if (is_there(value))
		json_member(sink, key, value, false);
}

static void json_items(struct sink *sink, const struct check_report *report)
{
	json_key(sink, "machine", false);
	sink_puts(sink, "{");
	for (size_t i = 0; i < report->n_items; i++) {
		const struct check_item *item = &report->items[i];

		json_key(sink, item->key, i == 0);
		sink_puts(sink, "{");
		json_bool(sink, "ok", item->ok, true);
		json_optional(sink, "state", item->state);
		json_optional(sink, "detail", item->detail);
		json_optional(sink, "hint", item->hint);
		sink_puts(sink, "}");
	}
	sink_puts(sink, "}");
}

static void json_gaps(struct sink *sink, const struct check_subcommand *s)
{
	json_key(sink, "missing", false);
	sink_puts(sink, "[");
	for (size_t i = 0; i < s->n_gaps; i++) {
		sink_puts(sink, i ? ",{" : "{");
		json_member(sink, "option", s->gaps[i].what, true);
		json_optional(sink, "reason", s->gaps[i].why);
		json_optional(sink, "hint", s->gaps[i].hint);
		sink_puts(sink, "}");
	}
	sink_puts(sink, "]");
}

static void json_keeps(struct sink *sink, const struct check_subcommand *s)
{
	json_key(sink, "keeps", false);
	sink_puts(sink, "[");
	for (size_t i = 0; i < s->n_keeps; i++) {
		sink_puts(sink, i ? ",{" : "{");
		json_member(sink, "when", s->keeps[i].when, true);
		json_key(sink, "capabilities", false);
		sink_puts(sink, "[");
		for (size_t k = 0; k < s->keeps[i].n; k++) {
			sink_puts(sink, k ? "," : "");
			json_quoted(sink, s->keeps[i].names[k]);
		}
		sink_puts(sink, "]}");
	}
	sink_puts(sink, "]");
}

static void json_subcommand(struct sink *sink, const struct check_subcommand *s)
{
	sink_puts(sink, "{");
	json_member(sink, "name", s->name, true);
	json_member(sink, "works", works_keys[s->works], false);
	json_optional(sink, "reason", s->why);
	json_optional(sink, "hint", s->hint);
	json_gaps(sink, s);
	json_hooks(sink, "hooks", s->hooks, s->n_hooks, true);
	json_hooks(sink, "passed_over", s->hooks, s->n_hooks, false);
	json_keeps(sink, s);
	sink_puts(sink, "}");
}

static void json_report(struct sink *sink, const struct check_report *report)
{
	sink_puts(sink, "{");
	json_member(sink, "type", "check", true);
	json_member(sink, "version", report->version, false);
	json_member(sink, "kernel", report->kernel, false);
	json_member(sink, "architecture", report->machine, false);
	json_items(sink, report);
	json_key(sink, "subcommands", false);
	sink_puts(sink, "[");
	for (size_t i = 0; i < report->n_subcommands; i++) {
		if (i)
			sink_puts(sink, ",");
		json_subcommand(sink, &report->subcommands[i]);
	}
	sink_puts(sink, "]");
	json_bool(sink, "ok", check_all_work(report), false);
	sink_puts(sink, "}\n");
}

int render_check(enum format format, FILE *stream, const struct check_report *report, bool verbose)
{
	struct sink sink = sink_of(stream);

	if (format == FORMAT_JSON)
		json_report(&sink, report);
	else
		text_report(&sink, report, verbose);
	return sink_flush(&sink);
}
