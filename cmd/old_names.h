/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_OLD_NAMES_H
#define IOTRACE_CMD_OLD_NAMES_H

/*
 * The subcommand that takes over the work of the tool that @path is named after (biotop, kvm_stat,
 * ...); NULL: of none.  Options in @argv, which ends with NULL and begins behind the name, that are
 * spelled otherwise there get our spelling; the strings are constants or those that were there.
 * *option is one that is to come before them, or NULL.
 */
const char *old_names_command(const char *path, char **argv, const char **option);

#endif
