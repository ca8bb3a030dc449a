// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/breakdown/layers.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/block/syscalls.h"
#include "cmd/block/uring_events.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"

static const char *const layer_names[LAYERS] = {
	[LAYER_SYSCALL] = "syscall", [LAYER_VFS] = "vfs",     [LAYER_EXT4] = "ext4",
	[LAYER_XFS] = "xfs",	     [LAYER_BTRFS] = "btrfs", [LAYER_NFS] = "nfs",
	[LAYER_FUSE] = "fuse",	     [LAYER_9P] = "9p",	      [LAYER_URING] = "uring",
	[LAYER_ADMIT] = "admit",     [LAYER_QUEUE] = "queue", [LAYER_DEVICE] = "device",
};

static const char *const op_names[CALL_OPS] = {
	[CALL_READ] = "read",
	[CALL_WRITE] = "write",
	[CALL_OPEN] = "open",
	[CALL_FSYNC] = "fsync",
};

const char *layer_name(unsigned int layer)
{
	return layer < LAYERS ? layer_names[layer] : "unknown";
}

unsigned int layer_from_top(unsigned int i)
{
	return i == 0 ? LAYER_URING : i <= LAYER_URING ? i - 1 : i;
}

unsigned int layer_ops(unsigned int layer)
{
	return layer == LAYER_SYSCALL ? SYSCALLS : CALL_OPS;
}

const char *layer_op_name(unsigned int layer, unsigned int op)
{
	if (op >= layer_ops(layer))
		return "unknown";
	return layer == LAYER_SYSCALL ? syscalls_name(op) : op_names[op];
}

/* ---- layers of this machine ---- */

static int layer_by_name(const char *name)
{
	for (unsigned int i = 0; i < LAYER_ADMIT; i++)
		if (strcmp(name, layer_names[i]) == 0)
			return (int)i;
	return -1;
}

bool layer_is_known(const char *name)
{
	return layer_by_name(name) >= 0 || strcmp(name, "fs") == 0 || strcmp(name, "blk") == 0;
}

unsigned int layers_file_systems(const char *path)
{
	FILE *file FCLOSE_AT_END = fopen(path ? path : "/proc/filesystems", "re");
	unsigned int found = 0;
	char line[128], name[64];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		int layer;

		if (sscanf(line, "nodev %63s", name) != 1 && sscanf(line, "%63s", name) != 1)
			continue;
		layer = layer_by_name(name);
		if (layer >= LAYER_EXT4 && layer < LAYER_URING)
			found |= LAYER_BIT(layer);
	}
	return found;
}

/* Does @dir have an entry other than @others (NULL ends)? */
static bool has_entries(const char *dir, const char *const *others)
{
	DIR *d CLOSEDIR_AT_END = opendir(dir);
	struct dirent *entry;
	bool found = false;

	while (d && !found && (entry = readdir(d))) {
		found = entry->d_name[0] != '.';
		for (size_t i = 0; found && others[i]; i++)
			found = strcmp(entry->d_name, others[i]) != 0;
	}
	return found;
}

/* The layer of a file system type in mountinfo, -1: not one of ours. */
static int layer_of_mount(const char *type)
{
	if (strcmp(type, "nfs4") == 0)
		return LAYER_NFS;
	if (strncmp(type, "fuse", 4) == 0 || strcmp(type, "virtiofs") == 0)
		return strcmp(type, "fusectl") == 0 ? -1 : LAYER_FUSE;
	return layer_by_name(type);
}

static unsigned int mounted_file_systems(const char *path)
{
	FILE *file FCLOSE_AT_END = fopen(path, "re");
	unsigned int found = 0;
	char *line = NULL, *type, name[64];
	size_t size = 0;

	if (!file)
		return 0;
	while (getline(&line, &size, file) > 0) {
		int layer = -1;

		type = strstr(line, " - ");
		if (type && sscanf(type, " - %63s", name) == 1)
			layer = layer_of_mount(name);
		if (layer >= LAYER_EXT4)
			found |= LAYER_BIT(layer);
	}
	free(line);
	return found;
}

unsigned int layers_in_use(void)
{
	static const char *const not_mounts[] = { "features", "stats", "debug", NULL };
	static const struct {
		const char *dir; /* one entry per mounted file system, in any mount namespace */
		unsigned int layer;
	} dirs[] = {
		{ "/sys/fs/ext4", LAYER_EXT4 },
		{ "/sys/fs/xfs", LAYER_XFS },
		{ "/sys/fs/btrfs", LAYER_BTRFS },
		{ "/sys/fs/fuse/connections", LAYER_FUSE },
	};
	unsigned int found;

	found = mounted_file_systems("/proc/self/mountinfo");
	found |= mounted_file_systems("/proc/1/mountinfo");
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (has_entries(dirs[i].dir, not_mounts))
			found |= LAYER_BIT(dirs[i].layer);
	return found & LAYERS_FS & layers_file_systems(NULL);
}

int layers_select(const char *name, bool list, struct layers_wanted *wanted, struct error *err)
{
	const unsigned int above =
	    LAYER_BIT(LAYER_URING) | LAYER_BIT(LAYER_SYSCALL) | LAYER_BIT(LAYER_VFS);
	unsigned int there = layers_file_systems(NULL), used = layers_in_use();
	int layer = name ? layer_by_name(name) : -1;

	if (!name)
		*wanted = (struct layers_wanted){ above | LAYERS_FS, above | used };
	else if (strcmp(name, "fs") == 0)
		*wanted = (struct layers_wanted){ LAYERS_FS, used ? used : there };
	else
		*wanted = (struct layers_wanted){ LAYER_BIT(layer), LAYER_BIT(layer) };
	if (list) {
		wanted->now = wanted->all;
		return 0;
	}
	if (layer >= LAYER_EXT4 && layer != LAYER_URING && !(there & wanted->now)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "this kernel has no file system '%s', or its module is not loaded", name);
		error_hint(err, "mount one, or try `modprobe %s`; -T fs uses those in use", name);
		return -ENOTSUP;
	}
	if (!wanted->now)
		return error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
				 "none of the file systems of -T fs is in use");
	return 0;
}

/* ---- functions ---- */

#define FUNCTION(name, function, module, layer, op, which)                                         \
	static const struct hook_function name##_function = { #function,                           \
							      CALL_ID(layer, op, which) };         \
	static const struct hook_alt name##_alts[] = {                                             \
		{ HOOK_KPROBE_MULTI,                                                               \
		  #function,                                                                       \
		  0,                                                                               \
		  { "call_mx", "call_me" },                                                        \
		  0,                                                                               \
		  module,                                                                          \
		  &name##_function,                                                                \
		  1 },                                                                             \
		{ HOOK_FENTRY, #function, 0, { #name "_e", #name "_x" }, 0, module },              \
		{ HOOK_KPROBE, #function, 0, { #name "_ke", #name "_kx" }, 0, module },            \
	};
#include "probes/call_functions.h"

static const struct function {
	const char *name;
	const struct hook_alt *alts;
	unsigned int layer, op, which;
} functions[] = {
#define FUNCTION(name, function, module, layer, op, which)                                         \
	{ #function, name##_alts, layer, op, which },
#include "probes/call_functions.h"
};

#define N_FUNCTIONS ARRAY_SIZE(functions)

_Static_assert(N_FUNCTIONS <= LAYER_EVENTS_MAX, "room for all");

/*
 * The table has no rows for open().  Calls of vfs from within the kernel (overlayfs on its lower
 * file system) are counted for the call above them.
 */
static bool is_for_table(const struct function *f)
{
	if (f->op == CALL_OPEN)
		return false;
	return f->layer != LAYER_VFS || f->op == CALL_FSYNC || f->which < 2;
}

size_t layers_events(unsigned int layers, bool table, bool drains_maps, struct hook_event *events)
{
	const size_t first = drains_maps ? LAYERS_MULTI_ALTS : 0;
	size_t n = 0;

	for (size_t i = 0; i < N_FUNCTIONS; i++) {
		const struct function *f = &functions[i];

		if ((layers & LAYER_BIT(f->layer)) && (!table || is_for_table(f)))
			events[n++] =
			    (struct hook_event){ f->name, f->alts + first, 3 - first, true };
	}
	return n;
}

static unsigned int layer_of_event(const char *event)
{
	for (size_t i = 0; i < N_FUNCTIONS; i++)
		if (strcmp(functions[i].name, event) == 0)
			return functions[i].layer;
	if (strcmp(event, uring_events[URING_COMPLETE].name) == 0)
		return LAYER_URING;
	return strcmp(event, "syscall") == 0 ? LAYER_SYSCALL : LAYERS;
}

unsigned int layers_hooked(const struct hooks *hooks, unsigned int layers, char *why, size_t size)
{
	const struct hook_choice *told = NULL, *one;
	unsigned int hooked = 0;
	size_t n;
	const struct hook_choice *choice = hooks_choices(hooks, &n);

	for (size_t i = 0; i < n; i++)
		if (choice[i].chosen)
			hooked |= LAYER_BIT(layer_of_event(choice[i].event));
	for (size_t i = 0, of_event; size && i < n; i += of_event) {
		unsigned int bit = LAYER_BIT(layer_of_event(choice[i].event));

		for (of_event = 1; i + of_event < n; of_event++)
			if (choice[i + of_event].event != choice[i].event)
				break;
		one = hooks_telling(&choice[i], of_event);
		if ((layers & bit) && !(hooked & bit) && (!told || one->weight > told->weight))
			told = one;
	}
	if (told)
		snprintf(why, size, "%s:%s: %s", told->kind, told->target, told->reason);
	else if (size)
		why[0] = 0;
	return hooked & layers;
}
