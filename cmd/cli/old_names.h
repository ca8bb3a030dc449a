/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tools that iotrace replaces, and their spelling of options, for links with their names. */
#ifndef IOTRACE_CMD_CLI_OLD_NAMES_H
#define IOTRACE_CMD_CLI_OLD_NAMES_H

/*
 * The subcommand that replaces the tool that @path is named after (biotop, kvm_stat, ...); NULL:
 * none.  Options in @argv, which ends with NULL and begins after the name, that have another
 * spelling there get iotrace's spelling; the strings are constants or the original ones. *option is
 * an option to insert before them, or NULL.
 */
const char *old_names_command(const char *path, char **argv, const char **option);

#endif
