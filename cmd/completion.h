/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_COMPLETION_H
#define IOTRACE_CMD_COMPLETION_H

/* Completion scripts for shells, made from the declarations that --help is made from. */

/* What can be said of the value of an option. */
enum value_kind {
	VALUE_NONE,    /* it takes none */
	VALUE_FREE,    /* a number, a name that nobody can guess */
	VALUE_WORDS,   /* one of some words */
	VALUE_DISK,    /* as in /proc/diskstats, a device-mapper name or a path */
	VALUE_PID,     /* a process */
	VALUE_FILE,    /* a path */
	VALUE_DRIVER,  /* a virtio driver */
	VALUE_DEVICE,  /* a virtio device */
	VALUE_UNKNOWN, /* not in the table: to be added there */
};

struct args_spec;
struct argp_option;

/* By the name of its argument; *words is "a|b|c" for VALUE_WORDS. */
enum value_kind completion_kind(const struct args_spec *spec, const struct argp_option *option,
				const char **words);

/* `iotrace --completion SHELL`.  Returns the exit status. */
int completion_run(int argc, char **argv);

#endif
