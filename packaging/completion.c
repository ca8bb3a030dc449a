// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes the completion script of a shell of its template (packaging/completion/iotrace.SHELL): at
 * build time, with the declarations that --help is made of.
 *
 *     completion SHELL TEMPLATE   the script on standard output; status 1 with a line on standard
 *                                 error
 *
 * In a template a line "#@NAME@" stands for what part NAME prints.
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
#include "core/base/array.h"

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *fmt, ...)
{
	va_list args;

	fputs("completion: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputs("\n", stderr);
	exit(1);
}

/* ---- what values there are ---- */

/* What can be said of the value of an option. */
enum value_kind {
	VALUE_NONE,   /* it takes none */
	VALUE_FREE,   /* a number, or a name that cannot be completed */
	VALUE_WORDS,  /* one of some words */
	VALUE_LIST,   /* some of these, separated by commas */
	VALUE_DISK,   /* as in /proc/diskstats, a device-mapper name or a path */
	VALUE_PID,    /* a process */
	VALUE_FILE,   /* a path */
	VALUE_DRIVER, /* a virtio driver */
	VALUE_DEVICE, /* a virtio device */
	VALUE_CGROUP, /* a systemd unit */
	VALUE_GUEST,  /* a name of QEMU's -name */
};

static const struct {
	const char *arg;
	enum value_kind kind;
} kinds[] = {
	{ "DISK", VALUE_DISK },	    { "PID", VALUE_PID },	{ "FILE", VALUE_FILE },
	{ "DRIVER", VALUE_DRIVER }, { "DEVICE", VALUE_DEVICE }, { "CGROUP", VALUE_CGROUP },
	{ "GUEST", VALUE_GUEST },
};

/* By the name of its argument; *words is "a|b|c" for VALUE_WORDS and VALUE_LIST. */
static enum value_kind kind_of(const struct args_option *option, const char **words)
{
	if (!option->arg || option->flags & ARGS_OPTIONAL)
		return VALUE_NONE; /* none of its own */
	*words = args_words(option);
	if (*words)
		return strstr(option->arg, "[,") ? VALUE_LIST : VALUE_WORDS;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].arg, option->arg) == 0)
			return kinds[i].kind;
	return VALUE_FREE;
}

/* ---- templates ---- */

struct part {
	const char *name; /* NULL: the end */
	void (*print)(void);
};

/* Prints the part that @line stands for; false: it is a line of the script. */
static bool print_part(const struct part *parts, const char *line)
{
	char name[64];

	if (sscanf(line, "#@%63[^@\n]@", name) != 1)
		return false;
	while (parts->name && strcmp(parts->name, name) != 0)
		parts++;
	if (!parts->name)
		die("no such part: %s", name);
	parts->print();
	return true;
}

/* What the scripts call the kinds. */
static const char *kind_name(enum value_kind kind)
{
	switch (kind) {
	case VALUE_DISK:
		return "disk";
	case VALUE_PID:
		return "pid";
	case VALUE_FILE:
		return "file";
	case VALUE_DRIVER:
		return "driver";
	case VALUE_DEVICE:
		return "device";
	case VALUE_CGROUP:
		return "cgroup";
	case VALUE_GUEST:
		return "guest";
	case VALUE_WORDS:
		return "words";
	case VALUE_LIST:
		return "list";
	case VALUE_NONE:
	case VALUE_FREE:
		break;
	}
	return "free";
}

/* "a|b|c", or "a, b, c", as "a b c". */
static void put_words(const char *words)
{
	for (; *words; words++)
		if (*words != ',')
			putchar(*words == '|' ? ' ' : *words);
}

/* What export takes besides options. */
static void put_collectors(void)
{
	put_words(COLLECTOR_NAMES);
}

/* ---- walking through all options ---- */

struct walk {
	const char *subcommand; /* NULL: of iotrace itself */
	void (*each)(const struct walk *walk, const struct args_option *option);
};

static void step(void *ctx, const struct args_option *option)
{
	const struct walk *walk = ctx;

	walk->each(walk, option);
}

static void walk_main(void (*each)(const struct walk *walk, const struct args_option *option))
{
	const struct walk walk = { .each = each };

	for (const struct args_option *option = main_args.options; option->name; option++)
		each(&walk, option);
}

static void walk_subcommand(const struct command_entry *entry,
			    void (*each)(const struct walk *walk, const struct args_option *option))
{
	struct walk walk = { entry->name, each };

	args_each(entry->args, step, &walk);
}

/* ---- bash ---- */

static void bash_value(const struct walk *walk, const struct args_option *option)
{
	const char *sub = walk->subcommand ? walk->subcommand : "", *words;
	enum value_kind kind = kind_of(option, &words);

	if (kind == VALUE_NONE)
		return;
	fputs("\t", stdout);
	if (args_letter(option))
		printf("%s:-%c", sub, option->key);
	if (option->name)
		printf("%s%s:--%s", args_letter(option) ? " | " : "", sub, option->name);
	printf(") kind='%s'", kind_name(kind));
	if (kind == VALUE_WORDS || kind == VALUE_LIST) {
		fputs(" words='", stdout);
		put_words(words);
		fputs("'", stdout);
	}
	fputs(" ;;\n", stdout);
}

static void bash_option(const struct walk *walk, const struct args_option *option)
{
	(void)walk;
	if (args_letter(option))
		printf(" -%c", option->key);
	if (option->name)
		printf(" --%s", option->name);
}

static void bash_subcommands(void)
{
	fputs("_iotrace_subcommands='", stdout);
	for (size_t i = 0; i < n_commands; i++)
		printf("%s%s", i ? " " : "", commands[i].name);
	fputs("'\n_iotrace_collectors='", stdout);
	put_collectors();
	fputs("'\n", stdout);
}

static void bash_values(void)
{
	walk_main(bash_value);
	for (size_t i = 0; i < n_commands; i++)
		walk_subcommand(&commands[i], bash_value);
}

static void bash_options(void)
{
	fputs("\t'') words='", stdout);
	walk_main(bash_option);
	fputs("' ;;\n", stdout);
	for (size_t i = 0; i < n_commands; i++) {
		printf("\t%s) words='", commands[i].name);
		walk_subcommand(&commands[i], bash_option);
		fputs("' ;;\n", stdout);
	}
}

/* ---- zsh ---- */

/* Text within '...[here]:...' of _arguments. */
static void put_zsh(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr("[]:\\", *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void zsh_value(const struct args_option *option)
{
	const char *words;
	enum value_kind kind = kind_of(option, &words);

	if (kind == VALUE_NONE)
		return;
	fputs(":", stdout);
	put_zsh(strchr(option->arg, '|') ? "value" : option->arg);
	switch (kind) {
	case VALUE_WORDS:
		fputs(":(", stdout);
		put_words(words);
		fputs(")", stdout);
		break;
	case VALUE_LIST:
		fputs(":_values -s , key ", stdout);
		put_words(words);
		break;
	case VALUE_FILE:
		fputs(":_files", stdout);
		break;
	case VALUE_PID:
		fputs(":_pids", stdout);
		break;
	case VALUE_DISK:
	case VALUE_DRIVER:
	case VALUE_DEVICE:
	case VALUE_CGROUP:
	case VALUE_GUEST:
		printf(":_iotrace_%s", kind_name(kind));
		break;
	case VALUE_NONE:
	case VALUE_FREE:
		fputs(": ", stdout);
		break;
	}
}

static void zsh_spec(const struct args_option *option, bool letter)
{
	fputs("\t\t'", stdout);
	if (args_letter(option) && option->name)
		printf("(-%c --%s)", option->key, option->name);
	if (letter)
		printf("-%c%s", option->key, option->arg ? "+" : "");
	else
		printf("--%s%s", option->name, option->arg ? "=" : "");
	fputs("[", stdout);
	put_zsh(option->help);
	fputs("]", stdout);
	zsh_value(option);
	fputs("'\n", stdout);
}

static void zsh_option(const struct walk *walk, const struct args_option *option)
{
	(void)walk;
	if (args_letter(option))
		zsh_spec(option, true);
	if (option->name)
		zsh_spec(option, false);
}

static void zsh_suboptions(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		printf("\t%s)\n\t\tspecs=(\n", commands[i].name);
		walk_subcommand(&commands[i], zsh_option);
		if (strcmp(commands[i].name, "export") == 0) {
			fputs("\t\t'*:collector:(", stdout);
			put_collectors();
			fputs(")'\n", stdout);
		} else if (strcmp(commands[i].name, "compare") == 0) {
			fputs("\t\t'*:recording:_files'\n", stdout);
		}
		fputs("\t\t) ;;\n", stdout);
	}
}

static void zsh_subcommands(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		printf("\t\t'%s:", commands[i].name);
		put_zsh(commands[i].summary);
		fputs("'\n", stdout);
	}
}

static void zsh_options(void)
{
	walk_main(zsh_option);
}

/* ---- fish ---- */

static void put_fish(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
}

static void fish_option(const struct walk *walk, const struct args_option *option)
{
	const char *words;
	enum value_kind kind = kind_of(option, &words);

	printf("complete -c iotrace -n '__iotrace_in%s%s'", walk->subcommand ? " " : "",
	       walk->subcommand ? walk->subcommand : "");
	if (args_letter(option))
		printf(" -s %c", option->key);
	if (option->name)
		printf(" -l %s", option->name);
	fputs(" -d '", stdout);
	put_fish(option->help);
	fputs("'", stdout);
	switch (kind) {
	case VALUE_WORDS:
		fputs(" -x -a '", stdout);
		put_words(words);
		fputs("'", stdout);
		break;
	case VALUE_LIST:
		fputs(" -x -a '(__iotrace_list ", stdout);
		put_words(words);
		fputs(")'", stdout);
		break;
	case VALUE_FILE:
		fputs(" -r -F", stdout);
		break;
	case VALUE_PID:
	case VALUE_DISK:
	case VALUE_DRIVER:
	case VALUE_DEVICE:
	case VALUE_CGROUP:
	case VALUE_GUEST:
		printf(" -x -a '(__iotrace_%s)'", kind_name(kind));
		break;
	case VALUE_FREE:
		fputs(" -x", stdout);
		break;
	case VALUE_NONE:
		break;
	}
	fputs("\n", stdout);
}

static void fish_options(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		printf("complete -c iotrace -n __iotrace_first -a %s -d '", commands[i].name);
		put_fish(commands[i].summary);
		fputs("'\n", stdout);
	}
	fputs("complete -c iotrace -n '__iotrace_in compare' -F\n", stdout);
	fputs("complete -c iotrace -n '__iotrace_in export' -a '", stdout);
	put_collectors();
	fputs("'\n", stdout);
	walk_main(fish_option);
	for (size_t i = 0; i < n_commands; i++)
		walk_subcommand(&commands[i], fish_option);
}

/* ---- scripts ---- */

static const struct shell {
	const char *name;
	struct part parts[4];
} shells[] = {
	{ "bash",
	  { { "subcommands", bash_subcommands },
	    { "values", bash_values },
	    { "options", bash_options } } },
	{ "zsh",
	  { { "suboptions", zsh_suboptions },
	    { "subcommands", zsh_subcommands },
	    { "options", zsh_options } } },
	{ "fish", { { "options", fish_options } } },
};

static void print_script(const struct shell *shell, const char *path)
{
	FILE *template = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	if (!template)
		die("%s: %s", path, strerror(errno));
	while (getline(&line, &size, template) >= 0)
		if (!print_part(shell->parts, line))
			fputs(line, stdout);
	free(line);
	if (ferror(template) || fflush(stdout))
		die("%s: %s", path, strerror(errno));
	fclose(template);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die("SHELL TEMPLATE");
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		if (strcmp(argv[1], shells[i].name) != 0)
			continue;
		print_script(&shells[i], argv[2]);
		return 0;
	}
	die("no such shell: %s", argv[1]);
}
