// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes a manual page of its template (docs/man/iotrace*.8): at build time, with the declarations
 * that --help and the output are made of.
 *
 *     manual TEMPLATE     the page on standard output; status 1 with a line on standard error
 *     manual --describe   what is declared, for tests: fields separated by tabs
 *
 * In a template, which is mdoc(7), these lines stand for something:
 *     .\" @options@           the list of the subcommand's options begins
 *     .\" @option NAME@       the text below belongs to that option, after its sentence of --help
 *     .\" @end@               the end of the list
 *     .\" @examples@          the examples of --help
 *     .\" @columns@           the table of the columns
 *     .\" @subcommands@       the list of the subcommands
 *     .\" @metrics@           the metrics of iotrace export, by collector
 *     .\" @version@           a sentence with the version
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli/command.h"
#include "cmd/export/collectors.h"

#define MAX_OPTIONS 64
#define MAX_COLUMNS 64
#define LINE_WIDTH  78

struct more {
	const struct args_option *option;
	char *text; /* from the template; NULL: nothing */
};

struct page {
	const char *path;
	const struct command_entry *entry; /* NULL: iotrace(8) */
	FILE *template;
	char *line;
	size_t line_size;
	int line_number;
	struct more options[MAX_OPTIONS];
	size_t n_options;
};

static void die(const struct page *page, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));

static void die(const struct page *page, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: ", page->path, page->line_number);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputs("\n", stderr);
	exit(1);
}

/* ---- mdoc ---- */

/* One word, or part of one, so that it means only itself; @macro_line: also among macros. */
static void put_word(const char *word, size_t len, bool macro_line)
{
	if (macro_line || *word == '.' || *word == '\'')
		fputs("\\&", stdout);
	for (size_t i = 0; i < len; i++) {
		if (word[i] == '\\')
			fputs("\\e", stdout);
		else if (word[i] == '-' && (i == 0 || word[i - 1] == '-'))
			fputs("\\-", stdout);
		else if (word[i] == '"' && macro_line)
			fputs("\\(dq", stdout);
		else
			putchar(word[i]);
	}
}

/* Words separated by blanks, as one argument after another of a macro. */
static void put_arguments(const char *text)
{
	while (*text) {
		size_t len = strcspn(text, " ");

		putchar(' ');
		put_word(text, len, true);
		text += len;
		text += strspn(text, " ");
	}
}

/* Ends a sentence here, so that the next one begins a line? */
static bool ends_sentence(const char *word, size_t len)
{
	return len > 1 && strchr(".!?", word[len - 1]) && word[len] == ' ' &&
	       isupper((unsigned char)word[len + 1]);
}

/* A text in lines that are not too long; @column is where the first of them begins. */
static void put_text(const char *text)
{
	size_t column = 0;

	while (*text) {
		size_t len = strcspn(text, " ");

		if (column && column + 1 + len > LINE_WIDTH) {
			putchar('\n');
			column = 0;
		}
		if (column)
			putchar(' ');
		put_word(text, len, false);
		column += len + 1;
		if (ends_sentence(text, len)) {
			putchar('\n');
			column = 0;
		}
		text += len;
		text += strspn(text, " ");
	}
	putchar('\n');
}

/* A sentence as --help has it: with a full stop and a capital letter, unless it begins with a name
 * ("blk: ..."). */
static void put_sentence(const char *text)
{
	char buf[1024];
	size_t len;

	snprintf(buf, sizeof(buf) - 1, "%s", text);
	len = strlen(buf);
	if (buf[strcspn(buf, " :")] != ':')
		buf[0] = (char)toupper((unsigned char)buf[0]);
	if (len && !strchr(".!?", buf[len - 1]))
		memcpy(buf + len, ".", 2);
	put_text(buf);
}

/* ---- options ---- */

static void add_option(void *ctx, const struct args_option *option)
{
	struct page *page = ctx;

	if (page->n_options == MAX_OPTIONS)
		die(page, "more than %d options", MAX_OPTIONS);
	page->options[page->n_options++].option = option;
}

static void find_options(struct page *page)
{
	if (page->entry) {
		args_each(page->entry->args, add_option, page);
		return;
	}
	for (const struct args_option *o = main_args.options; o->name; o++)
		add_option(page, o);
}

static struct more *find_option(struct page *page, const char *name)
{
	for (size_t i = 0; i < page->n_options; i++) {
		const struct args_option *o = page->options[i].option;

		if ((o->name && strcmp(o->name, name) == 0) ||
		    (args_letter(o) && name[0] == args_letter(o) && !name[1]))
			return &page->options[i];
	}
	die(page, "no such option: %s", name);
}

static void put_flag(const char *name)
{
	fputs(" Fl ", stdout);
	for (; *name; name++)
		fputs(*name == '-' ? "\\-" : (char[]){ *name, 0 }, stdout);
}

/* DISK, or one of "a|b|c" */
static void put_argument(const char *arg)
{
	size_t len;

	if (!strchr(arg, '|')) {
		printf(" Ar %s", arg);
		return;
	}
	fputs(" Cm", stdout);
	for (; *arg; arg += len + (arg[len] == '|')) {
		len = strcspn(arg, "|");
		putchar(' ');
		put_word(arg, len, true);
		if (arg[len])
			fputs(" |", stdout);
	}
}

static void put_option(const struct more *more)
{
	const struct args_option *o = more->option;
	char letter[2] = { args_letter(o), 0 };
	char name[64];

	fputs(".It", stdout);
	if (letter[0])
		put_flag(letter);
	if (letter[0] && o->name)
		fputs(" ,", stdout);
	if (o->name) {
		snprintf(name, sizeof(name), "-%s", o->name);
		put_flag(name);
	}
	if (o->arg && o->flags & ARGS_OPTIONAL)
		printf(" Ns Op = Ns Ar %s", o->arg);
	else if (o->arg)
		put_argument(o->arg);
	putchar('\n');
	put_sentence(o->help);
	if (more->text)
		fputs(more->text, stdout);
}

static void put_options(const struct page *page)
{
	puts(".Bl -tag -width Ds");
	for (size_t i = 0; i < page->n_options; i++)
		put_option(&page->options[i]);
	puts(".El");
}

/* ---- columns ---- */

struct listed {
	const struct column *column;
	char when[96]; /* "with -x", "not with -T"; "": always */
};

static struct listed *find_listed(struct listed *listed, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(listed[i].column->key, key) == 0)
			return &listed[i];
	return NULL;
}

static bool has_key(const struct schema *schema, const char *key)
{
	for (size_t i = 0; i < schema->n; i++)
		if (schema->columns[i].key && strcmp(schema->columns[i].key, key) == 0)
			return true;
	return false;
}

/* Does the variant have none of what is listed?  Then it only adds to it. */
static bool adds_only(const struct schema *schema, const struct listed *listed, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (has_key(schema, listed[i].column->key))
			return false;
	return true;
}

/* The columns of all variants, as the first one that has them declares them. */
static size_t find_columns(const struct page *page, struct listed listed[MAX_COLUMNS])
{
	const struct tool *tool = page->entry->tool; /* export has none */
	const struct schema *schema;
	const char *with;
	size_t n = 0;

	for (size_t v = 0; tool && (schema = view_columns(tool->view, v, &with)); v++) {
		for (size_t i = 0; i < n && !adds_only(schema, listed, n); i++)
			if (!listed[i].when[0] && !has_key(schema, listed[i].column->key))
				snprintf(listed[i].when, sizeof(listed[i].when), "not with %s",
					 with);
		for (size_t i = 0; i < schema->n; i++) {
			const struct column *c = &schema->columns[i];

			if (!c->key || c->role == ROLE_STATE || find_listed(listed, n, c->key))
				continue;
			if (n == MAX_COLUMNS)
				die(page, "more than %d columns", MAX_COLUMNS);
			listed[n].column = c;
			snprintf(listed[n++].when, sizeof(listed[0].when), "%s%s", v ? "with " : "",
				 with);
		}
	}
	return n;
}

static const char *heading_of(const struct column *column)
{
	return column->heading ? column->heading : "";
}

static void put_columns(const struct page *page)
{
	struct listed listed[MAX_COLUMNS];
	const char *key = "Key", *heading = "Text", *unit = "Unit";
	char meaning[1024];
	size_t n;

	if (!page->entry || !page->entry->tool)
		die(page, "no columns");
	n = find_columns(page, listed);
	for (size_t i = 0; i < n; i++) {
		const struct column *c = listed[i].column;

		key = strlen(c->key) > strlen(key) ? c->key : key;
		heading = strlen(heading_of(c)) > strlen(heading) ? heading_of(c) : heading;
		unit = strlen(c->unit) > strlen(unit) ? c->unit : unit;
	}
	printf(".Bl -column \"%s\" \"%s\" \"%s\" \"Meaning\"\n", key, heading, unit);
	puts(".It Sy Key Ta Sy Text Ta Sy Unit Ta Sy Meaning");
	for (size_t i = 0; i < n; i++) {
		const struct column *c = listed[i].column;

		fputs(".It", stdout);
		put_arguments(c->key);
		fputs(" Ta", stdout);
		put_arguments(heading_of(c));
		fputs(" Ta", stdout);
		put_arguments(c->unit);
		puts(" Ta");
		snprintf(meaning, sizeof(meaning), "%s%s%s%s", c->meaning,
			 listed[i].when[0] ? " (" : "", listed[i].when,
			 listed[i].when[0] ? ")" : "");
		put_text(meaning);
	}
	puts(".El");
}

/* ---- metrics ---- */

struct metrics_list {
	char collector[32]; /* of the list that has begun */
	bool begun;
};

/* As Prometheus has it. */
static const char *metric_suffix(const struct metrics_about *metric)
{
	return strcmp(metric->type, "counter") == 0 ? "_total" : "";
}

static void begin_metrics(struct metrics_list *list, const char *collector,
			  const struct metrics_about *metric)
{
	if (list->begun)
		puts(".El");
	list->begun = true;
	snprintf(list->collector, sizeof(list->collector), "%s", collector ? collector : "");
	if (collector)
		printf(".Ss Collector %s\nLabels:", collector);
	else
		puts(".Ss About the collectors");
	for (size_t i = 0; collector && metric->labels[i]; i++)
		printf("%s\n.Li %s", i ? " ," : "", metric->labels[i]);
	puts(collector ? " .\n.Bl -tag -width Ds" : ".Bl -tag -width Ds");
}

static void put_metric(void *ctx, const char *collector, const struct metrics_about *metric)
{
	struct metrics_list *list = ctx;
	char text[512];

	if (!list->begun || strcmp(list->collector, collector ? collector : "") != 0)
		begin_metrics(list, collector, metric);
	printf(".It Li %s%s\n", metric->name, metric_suffix(metric));
	snprintf(text, sizeof(text), "%s (%s)", metric->help, metric->type);
	put_sentence(text);
}

static void put_metrics(const struct page *page)
{
	struct metrics_list list = { .begun = false };

	if (collectors_about(put_metric, &list))
		die(page, "out of memory");
	puts(".El");
}

/* ---- pages ---- */

static void put_subcommands(void)
{
	puts(".Bl -tag -width breakdown");
	for (size_t i = 0; i < n_commands; i++) {
		printf(".It Cm %s\n", commands[i].name);
		put_sentence(commands[i].summary);
		printf("See\n.Xr iotrace-%s 8 .\n", commands[i].name);
	}
	puts(".El");
}

static void put_examples(const struct page *page)
{
	const struct args_example *first =
	    page->entry ? page->entry->args->examples : main_args.examples;
	const char *name = page->entry ? page->entry->name : "";

	for (const struct args_example *e = first; e->what; e++) {
		printf("%s%c%s:\n.Pp\n.Dl # iotrace%s%s", e > first ? ".Pp\n" : "",
		       toupper((unsigned char)e->what[0]), e->what + 1, *name ? " " : "", name);
		put_arguments(e->arguments);
		putchar('\n');
	}
}

static bool next_line(struct page *page)
{
	if (getline(&page->line, &page->line_size, page->template) < 0)
		return false;
	page->line_number++;
	return true;
}

/* Is this line .\" @NAME@ or .\" @NAME ARG@?  Then *arg is ARG or "", to be read before the next
 * line. */
static bool is_directive(struct page *page, const char *name, char arg[64])
{
	static const char begin[] = ".\\\" @";
	const char *text = page->line + sizeof(begin) - 1;
	size_t len = strlen(name);

	if (strncmp(page->line, begin, sizeof(begin) - 1) != 0 || strncmp(text, name, len) != 0)
		return false;
	arg[0] = 0;
	return strcmp(text + len, "@\n") == 0 || sscanf(text + len, " %63[^@]@", arg) == 1;
}

static void append(struct page *page, struct more *more)
{
	size_t old = more->text ? strlen(more->text) : 0, len = strlen(page->line);

	more->text = realloc(more->text, old + len + 1);
	if (!more->text)
		die(page, "out of memory");
	memcpy(more->text + old, page->line, len + 1);
}

static void take_options(struct page *page)
{
	struct more *more = NULL;
	char arg[64];

	for (;;) {
		if (!next_line(page))
			die(page, "no @end@ of @options@");
		if (is_directive(page, "end", arg))
			break;
		if (is_directive(page, "option", arg)) {
			more = find_option(page, arg);
			if (more->text)
				die(page, "twice: %s", arg);
		} else if (more) {
			append(page, more);
		} else {
			die(page, "a text of no option");
		}
	}
	put_options(page);
}

static void make_page(struct page *page)
{
	char arg[64];

	find_options(page);
	while (next_line(page)) {
		if (is_directive(page, "options", arg))
			take_options(page);
		else if (is_directive(page, "columns", arg))
			put_columns(page);
		else if (is_directive(page, "subcommands", arg))
			put_subcommands();
		else if (is_directive(page, "examples", arg))
			put_examples(page);
		else if (is_directive(page, "metrics", arg))
			put_metrics(page);
		else if (is_directive(page, "version", arg))
			puts("This page is about version\n" IOTRACE_VERSION ".");
		else if (strncmp(page->line, ".\\\" @", 5) == 0)
			die(page, "not known: %s", page->line);
		else
			fputs(page->line, stdout);
	}
}

/* docs/man/iotrace-top.8 is about top, docs/man/iotrace.8 about iotrace itself. */
static void find_subject(struct page *page)
{
	const char *slash = strrchr(page->path, '/');
	const char *name = slash ? slash + 1 : page->path;
	char want[64];

	if (strcmp(name, "iotrace.8") == 0)
		return;
	for (size_t i = 0; i < n_commands; i++) {
		snprintf(want, sizeof(want), "iotrace-%s.8", commands[i].name);
		if (strcmp(name, want) == 0)
			page->entry = &commands[i];
	}
	if (!page->entry)
		die(page, "about no subcommand that there is");
}

/* ---- what is declared ---- */

static void describe_option(void *ctx, const struct args_option *o)
{
	const char *subcommand = ctx;

	printf("option\t%s\t%s\t%s\t%s\n", subcommand, (char[]){ args_letter(o), 0 },
	       o->name ? o->name : "", o->arg ? o->arg : "");
}

static void describe_metric(void *ctx, const char *collector, const struct metrics_about *metric)
{
	(void)ctx;
	printf("metric\t%s\t%s%s\t%s\n", collector ? collector : "", metric->name,
	       metric_suffix(metric), metric->help);
}

static void describe(void)
{
	struct listed listed[MAX_COLUMNS];

	for (const struct args_option *o = main_args.options; o->name; o++)
		describe_option((char[]){ "" }, o);
	for (size_t i = 0; i < n_commands; i++) {
		const struct page page = { .path = "", .entry = &commands[i] };
		char name[64];
		size_t n = find_columns(&page, listed);

		snprintf(name, sizeof(name), "%s", commands[i].name);
		printf("subcommand\t%s\t%s\n", name, commands[i].summary);
		args_each(commands[i].args, describe_option, name);
		for (size_t k = 0; k < n; k++)
			printf("column\t%s\t%s\t%s\t%s\t%s\n", name, listed[k].column->key,
			       heading_of(listed[k].column), listed[k].column->unit,
			       listed[k].when);
	}
	collectors_about(describe_metric, NULL);
}

int main(int argc, char **argv)
{
	struct page page = { 0 };

	if (argc != 2) {
		fputs("Usage: manual TEMPLATE | --describe\n", stderr);
		return 2;
	}
	if (strcmp(argv[1], "--describe") == 0) {
		describe();
		return 0;
	}
	page.path = argv[1];
	find_subject(&page);
	page.template = fopen(page.path, "re");
	if (!page.template)
		die(&page, "%s", strerror(errno));
	make_page(&page);
	for (size_t i = 0; i < page.n_options; i++)
		free(page.options[i].text);
	free(page.line);
	fclose(page.template);
	return fflush(stdout) ? 1 : 0;
}
