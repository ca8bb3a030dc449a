// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/bpf/kretprobe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/bpf/tracepoints.h"
#include "core/system/preflight.h"
#include "core/isolation/privileges.h"

#define GROUP	   "iotrace_"
#define MAX_CALLS  4096 /* KRETPROBE_MAXACTIVE_MAX of the kernel */
#define MAX_GROUPS 4096 /* of this process */

static const char *tracefs(void)
{
	static const char *const roots[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
		snprintf(path, sizeof(path), "%s/kprobe_events", roots[i]);
		if (preflight_access(path, W_OK) == 0)
			return roots[i];
	}
	return NULL;
}

/* Writes one line to kprobe_events. 0 or -errno. */
static int command(const char *root, const char *line)
{
	int fd CLOSE_AT_END = -1;
	char path[64];

	snprintf(path, sizeof(path), "%s/kprobe_events", root);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	return fd < 0 || write(fd, line, strlen(line)) < 0 ? -errno : 0;
}

/* The number in @file, one of the kernel's descriptions of perf events for probes. -errno. */
static int read_pmu(const char *file)
{
	char path[96], line[32] = "";
	FILE *stream FCLOSE_AT_END = NULL;
	int value;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/kprobe/%s", file);
	stream = fopen(path, "re");
	if (!stream)
		return -errno;
	(void)!fgets(line, sizeof(line), stream);
	return sscanf(line + strcspn(line, "0123456789"), "%d", &value) == 1 ? value : -ENOENT;
}

int kprobe_type(void)
{
	return read_pmu("type");
}

int kprobe_open(const char *function, uint64_t address, bool is_return)
{
	int type = kprobe_type(), bit = is_return ? read_pmu("format/retprobe") : 0, fd;
	struct perf_event_attr attr = { .size = sizeof(attr), .type = (uint32_t)type };

	if (type < 0 || bit < 0)
		return -ENOENT;
	attr.config = is_return ? UINT64_C(1) << bit : 0;
	if (address)
		attr.kprobe_addr = address;
	else
		attr.kprobe_func = (uint64_t)(uintptr_t)function;
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int kprobe_attach(const char *function, uint64_t address, bool is_return, int prog_fd)
{
	return tracepoints_attach_event(kprobe_open(function, address, is_return), prog_fd, 0);
}

/* The first unused group name of this process. */
static int name_group(struct kretprobes *k, const char *root)
{
	char path[128];

	for (int i = 0; i < MAX_GROUPS; i++) {
		snprintf(k->group, sizeof(k->group), GROUP "%d_%d", (int)getpid(), i);
		snprintf(path, sizeof(path), "%s/events/%s", root, k->group);
		if (access(path, F_OK))
			return 0;
	}
	k->group[0] = 0;
	return -ENOSPC;
}

/* Defines the event @name: kprobe_profile does not name the group, so the event's name does. */
static int define(struct kretprobes *k, const char *root, const struct bpf_program *prog,
		  const char *function, uint64_t address, char name[64])
{
	bool first = !k->group[0];
	char line[256];
	int r = first ? name_group(k, root) : 0;

	if (r)
		return r;
	snprintf(name, 64, "%s_%s", k->group, bpf_program__name(prog));
	if (address)
		snprintf(line, sizeof(line), "r%d:%s/%s 0x%" PRIx64 "\n", MAX_CALLS, k->group, name,
			 address);
	else
		snprintf(line, sizeof(line), "r%d:%s/%s %s\n", MAX_CALLS, k->group, name, function);
	r = command(root, line);
	if (r && first)
		k->group[0] = 0;
	return r;
}

int kretprobe_attach(struct kretprobes *k, const struct bpf_program *prog, uint64_t address)
{
	const char *root = tracefs();
	const char *function = strchr(bpf_program__section_name(prog), '/');
	char name[64], target[128];
	int r;

	if (!root || !function)
		return -ENOENT;
	r = define(k, root, prog, function + 1, address, name);
	snprintf(target, sizeof(target), "%s/%s", k->group, name);
	return r ? r : tracepoints_attach_classic(target, bpf_program__fd(prog), 0);
}

uint64_t kretprobe_privileges(const struct kretprobes *k)
{
	return k->group[0] ? PRIVILEGE(CAP_DAC_OVERRIDE) : 0;
}

uint64_t kretprobe_missed(const struct kretprobes *k)
{
	const char *root = k->group[0] ? tracefs() : NULL;
	size_t len = strlen(k->group);
	char path[64], name[64];
	FILE *file FCLOSE_AT_END = NULL;
	uint64_t missed, sum = 0;

	if (!root)
		return 0;
	snprintf(path, sizeof(path), "%s/kprobe_profile", root);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fscanf(file, "%63s %*u %" SCNu64, name, &missed) == 2)
		if (strncmp(name, k->group, len) == 0 && name[len] == '_')
			sum += missed;
	return sum;
}

static void remove_group(const char *root, const char *group)
{
	char path[128], line[256];
	DIR *dir CLOSEDIR_AT_END = NULL;
	struct dirent *entry;

	snprintf(path, sizeof(path), "%s/events/%.64s", root, group);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(line, sizeof(line), "-:%.64s/%.64s\n", group, entry->d_name);
		(void)command(root, line);
	}
}

/* A group of process @of, or of a process that is gone. */
static bool is_left_behind(const char *group, pid_t of)
{
	int pid;

	return sscanf(group, GROUP "%d", &pid) == 1 &&
	       (pid == of || (kill(pid, 0) && errno == ESRCH));
}

/* @group may be empty. */
static void clean(const char *root, const char *group, pid_t of)
{
	DIR *dir CLOSEDIR_AT_END = NULL;
	struct dirent *entry;
	char path[64];

	snprintf(path, sizeof(path), "%s/events", root);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, group) == 0 || is_left_behind(entry->d_name, of))
			remove_group(root, entry->d_name);
}

void kretprobe_clean(struct kretprobes *k)
{
	const char *root = k->group[0] ? tracefs() : NULL;

	if (root)
		clean(root, k->group, 0);
	k->group[0] = 0;
}

void kretprobe_clean_after(pid_t of)
{
	const char *root = tracefs();

	if (root)
		clean(root, "", of);
}
