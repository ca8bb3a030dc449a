/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_MODULES_H
#define IOTRACE_CORE_SYMBOLS_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/symbols/budget.h"
#include "core/symbols/elf_symbols.h"

/* Instead of a path of PATH_MAX or more. */
#define MODULE_LONG_PATH "[path too long]"

/* A file that code was mapped from. */
struct module {
	const char *path; /* as the process had it; "[vdso]", "[anon]" for what is no file */
	struct build_id id;
	uint64_t inode; /* 0: not known; with @dev, dev_t of the kernel */
	uint32_t dev;
	bool is_file;
	uint64_t serial; /* never used again, unlike the address of a struct module */
	/* of modules.c */
	bool is_listed;
	uint32_t refs;
	struct module *next;
};

/* Each module once.  { 0 } with a budget is an empty set. */
struct modules {
	struct budget *budget;
	void *tree;
	struct module *unused; /* had no reference at some time since the last modules_sweep() */
	uint64_t serial;
	size_t n;
};

/* The module that the kernel calls @path; @id may be NULL.  It has no reference of the caller's,
 * but lives until modules_sweep() in any case.  NULL: no memory. */
struct module *modules_find(struct modules *set, const char *path, const struct build_id *id,
			    uint32_t dev, uint64_t inode);

void module_get(struct module *module);
void modules_put(struct modules *set, struct module *module);

/* Frees those without references. */
void modules_sweep(struct modules *set);

#endif
