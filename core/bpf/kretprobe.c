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

#include "core/system/preflight.h"
#include "core/system/privileges.h"

#define GROUP	   "iotrace_"
#define MOST_CALLS 4096 /* KRETPROBE_MAXACTIVE_MAX of the kernel */

static bool defined; /* by this process */

static const char *tracefs(void)
{
	static const char *const roots[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char path[64];

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		snprintf(path, sizeof(path), "%s/kprobe_events", roots[i]);
		if (preflight_access(path, W_OK) == 0)
			return roots[i];
	}
	return NULL;
}

/* One line to kprobe_events.  0 or -errno. */
static int command(const char *root, const char *line)
{
	char path[64];
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/kprobe_events", root);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, line, strlen(line)) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* Opens the event as perf knows it.  Its descriptor or -errno. */
static int open_event(const char *root, const char *name)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = PERF_TYPE_TRACEPOINT };
	unsigned int id = 0;
	char path[192];
	FILE *file;
	int fd, n;

	snprintf(path, sizeof(path), "%s/events/" GROUP "%d/%s/id", root, (int)getpid(), name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n = fscanf(file, "%u", &id);
	fclose(file);
	if (n != 1)
		return -EINVAL;
	attr.config = id;
	attr.sample_period = 1;
	attr.wakeup_events = 1;
	/* Whichever CPU: its programs run on all of them. */
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* What the names of @owner's events begin with: kprobe_profile does not name their group. */
static void owners_prefix(unsigned int owner, char prefix[32])
{
	snprintf(prefix, 32, GROUP "%d_%u_", (int)getpid(), owner);
}

int kretprobe_attach(const struct bpf_program *prog, unsigned int owner, struct bpf_link **out)
{
	const char *root = tracefs();
	const char *function = strchr(bpf_program__section_name(prog), '/');
	struct bpf_link *link;
	char line[256], prefix[32], name[64];
	int r, fd;

	if (!root || !function)
		return -ENOENT;
	owners_prefix(owner, prefix);
	snprintf(name, sizeof(name), "%s%s", prefix, bpf_program__name(prog));
	snprintf(line, sizeof(line), "r%d:" GROUP "%d/%s %s\n", MOST_CALLS, (int)getpid(), name,
		 function + 1);
	r = command(root, line);
	if (r)
		return r;
	defined = true;
	fd = open_event(root, name);
	if (fd < 0)
		return fd;
	link = bpf_program__attach_perf_event(prog, fd);
	if (!link) {
		r = -errno;
		close(fd);
		return r;
	}
	*out = link;
	return 0;
}

uint64_t kretprobe_privileges(void)
{
	return defined ? PRIVILEGE(CAP_DAC_OVERRIDE) : 0;
}

uint64_t kretprobe_missed(unsigned int owner)
{
	const char *root = defined ? tracefs() : NULL;
	char path[64], prefix[32], name[64];
	uint64_t missed, sum = 0;
	FILE *file;

	if (!root)
		return 0;
	snprintf(path, sizeof(path), "%s/kprobe_profile", root);
	file = fopen(path, "re");
	if (!file)
		return 0;
	owners_prefix(owner, prefix);
	while (fscanf(file, "%63s %*u %" SCNu64, name, &missed) == 2)
		if (strncmp(name, prefix, strlen(prefix)) == 0)
			sum += missed;
	fclose(file);
	return sum;
}

static void remove_group(const char *root, const char *group)
{
	char path[128], line[256];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/events/%.64s", root, group);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(line, sizeof(line), "-:%.64s/%.64s\n", group, entry->d_name);
		(void)command(root, line);
	}
	if (dir)
		closedir(dir);
}

/* A group whose process is gone. */
static bool is_left_behind(const char *group)
{
	int pid;

	return sscanf(group, GROUP "%d", &pid) == 1 && kill(pid, 0) && errno == ESRCH;
}

void kretprobe_clean(void)
{
	const char *root = defined ? tracefs() : NULL;
	struct dirent *entry;
	char path[64], own[32];
	DIR *dir;

	if (!root)
		return;
	snprintf(own, sizeof(own), GROUP "%d", (int)getpid());
	snprintf(path, sizeof(path), "%s/events", root);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, own) == 0 || is_left_behind(entry->d_name))
			remove_group(root, entry->d_name);
	if (dir)
		closedir(dir);
	defined = false;
}
