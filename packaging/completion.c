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

#include "cmd/command.h"

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
	VALUE_DISK,   /* as in /proc/diskstats, a device-mapper name or a path */
	VALUE_PID,    /* a process */
	VALUE_FILE,   /* a path */
	VALUE_DRIVER, /* a virtio driver */
	VALUE_DEVICE, /* a virtio device */
};

static const struct {
	const char *arg;
	enum value_kind kind;
} kinds[] = {
	{ "DISK", VALUE_DISK },	    { "PID", VALUE_PID },	{ "FILE", VALUE_FILE },
	{ "DRIVER", VALUE_DRIVER }, { "DEVICE", VALUE_DEVICE }, { "VQ", VALUE_FREE },
	{ "GUEST", VALUE_FREE },    { "REGEX", VALUE_FREE },	{ "ROWS", VALUE_FREE },
	{ "SECS", VALUE_FREE },	    { "CGROUP", VALUE_FREE },	{ "ADDRESS", VALUE_FREE },
	{ "SERIES", VALUE_FREE },   { "MS", VALUE_FREE },	{ "IOS", VALUE_FREE },
	{ "NAME", VALUE_FREE },
};

/* By the name of its argument; *words is "a|b|c" for VALUE_WORDS. */
static enum value_kind kind_of(const struct args_spec *spec, const struct argp_option *option,
			       const char **words)
{
	const struct args_values *v = spec->values;

	if (!option->arg || option->flags & OPTION_ARG_OPTIONAL)
		return VALUE_NONE; /* none of its own */
	*words = option->arg;
	if (strchr(option->arg, '|'))
		return VALUE_WORDS;
	for (; v && v->arg; v++) {
		if (strcmp(v->arg, option->arg) != 0)
			continue;
		*words = v->words;
		return VALUE_WORDS;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].arg, option->arg) == 0)
			return kinds[i].kind;
	die("kinds[] of packaging/completion.c does not know %s", option->arg);
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
	case VALUE_WORDS:
		return "words";
	case VALUE_NONE:
	case VALUE_FREE:
		break;
	}
	return "free";
}

/* "a|b|c" as "a b c". */
static void put_words(const char *words)
{
	for (; *words; words++)
		putchar(*words == '|' ? ' ' : *words);
}

static bool has_letter(const struct argp_option *option)
{
	return option->key > 0 && option->key < 0x80 && isalnum(option->key);
}

/* ---- walking through all options ---- */

struct walk {
	const char *subcommand; /* NULL: of iotrace itself */
	const struct args_spec *spec;
	void (*each)(const struct walk *walk, const struct argp_option *option);
};

static void step(void *ctx, const struct argp_option *option)
{
	const struct walk *walk = ctx;

	walk->each(walk, option);
}

static void walk_main(void (*each)(const struct walk *walk, const struct argp_option *option))
{
	const struct walk walk = { .spec = &main_args, .each = each };

	for (const struct argp_option *option = main_args.options; option->name; option++)
		each(&walk, option);
}

static void walk_subcommand(const struct command_entry *entry,
			    void (*each)(const struct walk *walk, const struct argp_option *option))
{
	struct walk walk = { entry->name, entry->command->args, each };

	args_each(walk.spec, step, &walk);
}

/* ---- bash ---- */

static void bash_value(const struct walk *walk, const struct argp_option *option)
{
	const char *sub = walk->subcommand ? walk->subcommand : "", *words;
	enum value_kind kind = kind_of(walk->spec, option, &words);

	if (kind == VALUE_NONE)
		return;
	fputs("\t", stdout);
	if (has_letter(option))
		printf("%s:-%c", sub, option->key);
	if (option->name)
		printf("%s%s:--%s", has_letter(option) ? " | " : "", sub, option->name);
	printf(") kind='%s'", kind_name(kind));
	if (kind == VALUE_WORDS) {
		fputs(" words='", stdout);
		put_words(words);
		fputs("'", stdout);
	}
	fputs(" ;;\n", stdout);
}

static void bash_option(const struct walk *walk, const struct argp_option *option)
{
	(void)walk;
	if (has_letter(option))
		printf(" -%c", option->key);
	if (option->name)
		printf(" --%s", option->name);
}

static void bash_subcommands(void)
{
	fputs("_iotrace_subcommands='", stdout);
	for (size_t i = 0; i < n_commands; i++)
		printf("%s%s", i ? " " : "", commands[i].name);
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

static void zsh_value(const struct walk *walk, const struct argp_option *option)
{
	const char *words;
	enum value_kind kind = kind_of(walk->spec, option, &words);

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
	case VALUE_FILE:
		fputs(":_files", stdout);
		break;
	case VALUE_PID:
		fputs(":_pids", stdout);
		break;
	case VALUE_DISK:
	case VALUE_DRIVER:
	case VALUE_DEVICE:
		printf(":_iotrace_%s", kind_name(kind));
		break;
	case VALUE_NONE:
	case VALUE_FREE:
		fputs(": ", stdout);
		break;
	}
}

static void zsh_spec(const struct walk *walk, const struct argp_option *option, bool letter)
{
	fputs("\t\t'", stdout);
	if (has_letter(option) && option->name)
		printf("(-%c --%s)", option->key, option->name);
	if (letter)
		printf("-%c%s", option->key, option->arg ? "+" : "");
	else
		printf("--%s%s", option->name, option->arg ? "=" : "");
	fputs("[", stdout);
	put_zsh(option->doc);
	fputs("]", stdout);
	zsh_value(walk, option);
	fputs("'\n", stdout);
}

static void zsh_option(const struct walk *walk, const struct argp_option *option)
{
	if (has_letter(option))
		zsh_spec(walk, option, true);
	if (option->name)
		zsh_spec(walk, option, false);
}

static void zsh_suboptions(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		printf("\t%s)\n\t\tspecs=(\n", commands[i].name);
		walk_subcommand(&commands[i], zsh_option);
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

static void fish_option(const struct walk *walk, const struct argp_option *option)
{
	const char *words;
	enum value_kind kind = kind_of(walk->spec, option, &words);

	printf("complete -c iotrace -n '__iotrace_in%s%s'", walk->subcommand ? " " : "",
	       walk->subcommand ? walk->subcommand : "");
	if (has_letter(option))
		printf(" -s %c", option->key);
	if (option->name)
		printf(" -l %s", option->name);
	fputs(" -d '", stdout);
	put_fish(option->doc);
	fputs("'", stdout);
	switch (kind) {
	case VALUE_WORDS:
		fputs(" -x -a '", stdout);
		put_words(words);
		fputs("'", stdout);
		break;
	case VALUE_FILE:
		fputs(" -r -F", stdout);
		break;
	case VALUE_PID:
	case VALUE_DISK:
	case VALUE_DRIVER:
	case VALUE_DEVICE:
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
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(argv[1], shells[i].name) != 0)
			continue;
		print_script(&shells[i], argv[2]);
		return 0;
	}
	die("no such shell: %s", argv[1]);
}
