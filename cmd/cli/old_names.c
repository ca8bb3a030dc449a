// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/cli/old_names.h"
#include "core/base/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A word of the command line, and the word before it (NULL: any). */
struct respelled {
	const char *before, *theirs, *ours;
};

static const struct old_name {
	const char *name, *command;
	const char *option; /* iotrace's option that its users need; NULL: none */
	struct respelled words[8];
} old_names[] = {
	{ .name = "virtiostat", .command = "virtio" },
	{ .name = "biotop",
	  .command = "top",
	  .words = { { NULL, "--rows", "--maxrows" },
		     /* iotrace has no order by all of them: it begins with most bytes. */
		     { "-s", "all", "bytes" },
		     { "--sort", "all", "bytes" },
		     { NULL, "-sall", "-sbytes" },
		     { NULL, "--sort=all", "--sort=bytes" } } },
	{ .name = "iostackbreakdown", .command = "breakdown" },
	{ .name = "iostack", .command = "stack" },
	{ .name = "kvm_stat",
	  .command = "kvm",
	  .option = "--kvm-stat-names",
	  .words = { { NULL, "--csv", "-c" } } },
};

static const char *our_word(const struct old_name *old, const char *before, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(old->words) && old->words[i].theirs; i++) {
		const struct respelled *one = &old->words[i];

		if (strcmp(word, one->theirs) == 0 &&
		    (!one->before || (before && strcmp(before, one->before) == 0)))
			return one->ours;
	}
	return word;
}

/* COMMAND after -- is unchanged. */
static void respell(const struct old_name *old, char **argv)
{
	const char *before = NULL;

	for (; *argv && strcmp(*argv, "--") != 0; argv++) {
		*argv = (char *)our_word(old, before, *argv);
		before = *argv;
	}
}

/* By its name in upper or lower case, like the file of the project or of a distribution. */
static bool is_called(const char *file, const char *name)
{
	static const char *const ends[] = { "", ".py", "-bpfcc" };
	size_t len = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (strncasecmp(file, name, len) == 0 && strcmp(file + len, ends[i]) == 0)
			return true;
	return false;
}

const char *old_names_command(const char *path, char **argv, const char **option)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_SIZE(old_names); i++) {
		if (!is_called(name, old_names[i].name))
			continue;
		respell(&old_names[i], argv);
		*option = old_names[i].option;
		return old_names[i].command;
	}
	return NULL;
}
