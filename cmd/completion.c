// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/completion.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/report.h"
#include "core/base/text.h"

/* ---- what values there are ---- */

static const struct {
	const char *arg;
	enum value_kind kind;
} kinds[] = {
	{ "DISK", VALUE_DISK },	    { "PID", VALUE_PID },	{ "FILE", VALUE_FILE },
	{ "DRIVER", VALUE_DRIVER }, { "DEVICE", VALUE_DEVICE }, { "VQ", VALUE_FREE },
	{ "GUEST", VALUE_FREE },    { "REGEX", VALUE_FREE },	{ "ROWS", VALUE_FREE },
	{ "SECS", VALUE_FREE },
};

enum value_kind completion_kind(const struct args_spec *spec, const struct argp_option *option,
				const char **words)
{
	const struct args_values *v = spec->values;

	if (!option->arg)
		return VALUE_NONE;
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
	return VALUE_UNKNOWN;
}

/* ---- templates ---- */

/* packaging/completion/iotrace.SHELL; a line "#@NAME@" stands for what part NAME prints. */
extern const char completion_bash[], completion_zsh[], completion_fish[];

struct part {
	const char *name;
	void (*print)(void);
};

static void print_part(const struct part *parts, const char *name, size_t len)
{
	for (; parts->name; parts++)
		if (strlen(parts->name) == len && strncmp(parts->name, name, len) == 0)
			parts->print();
}

static void print_template(const char *text, const struct part *parts)
{
	size_t len;

	for (; *text; text += len) {
		len = strcspn(text, "\n") + 1;
		if (strncmp(text, "#@", 2) == 0)
			print_part(parts, text + 2, strcspn(text + 2, "@"));
		else
			printf("%.*s", (int)len, text);
	}
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
	case VALUE_UNKNOWN:
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
	enum value_kind kind = completion_kind(walk->spec, option, &words);

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

static void print_bash(void)
{
	static const struct part parts[] = {
		{ "subcommands", bash_subcommands },
		{ "values", bash_values },
		{ "options", bash_options },
		{ NULL, NULL },
	};

	print_template(completion_bash, parts);
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
	enum value_kind kind = completion_kind(walk->spec, option, &words);

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
	case VALUE_UNKNOWN:
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

static void print_zsh(void)
{
	static const struct part parts[] = {
		{ "suboptions", zsh_suboptions },
		{ "subcommands", zsh_subcommands },
		{ "options", zsh_options },
		{ NULL, NULL },
	};

	print_template(completion_zsh, parts);
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
	enum value_kind kind = completion_kind(walk->spec, option, &words);

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
	case VALUE_UNKNOWN:
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

static void print_fish(void)
{
	static const struct part parts[] = { { "options", fish_options }, { NULL, NULL } };

	print_template(completion_fish, parts);
}

/* ---- the command ---- */

int completion_run(int argc, char **argv)
{
	static const struct {
		const char *shell;
		void (*print)(void);
	} shells[] = {
		{ "bash", print_bash },
		{ "zsh", print_zsh },
		{ "fish", print_fish },
	};
	struct error err;

	for (size_t i = 0; argc == 1 && i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(argv[0], shells[i].shell) != 0)
			continue;
		shells[i].print();
		return report_stdout();
	}
	if (argc)
		error_set(&err, STATUS_USAGE, -EINVAL, "no completion for '%s'",
			  text_shown(argv[argc - 1]).text);
	else
		error_set(&err, STATUS_USAGE, -EINVAL, "--completion needs a shell's name");
	error_hint(&err, "bash, zsh or fish");
	return report_error(&err);
}
