// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/debugfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/system/kernel_fs.h"
#include "core/system/preflight.h"

struct machine {
	uint32_t pid, fd;
	ino_t inode; /* another one: another machine by the same name */
	bool seen;   /* in this read */
	bool gone;
	int64_t *base, *last; /* field by field; one allocation, at @base */
};

#define ENDED_PID 0 /* no machine's: of many processes */

struct debugfs {
	const char *root; /* the caller's */
	bool past;
	bool first; /* nothing was read yet: what is there began before us */
	struct kvm_events *events;
	int *fields; /* the events that they are */
	size_t n_fields;
	struct machine *machines;
	size_t n_machines;
};

/* ---- files ---- */

/* The one number in a file; -EINVAL for what holds something else (a histogram). */
static int read_number(int dir, const char *name, int64_t *value)
{
	char text[64], *end;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	int code = len < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	if (code)
		return code;
	text[len] = 0;
	errno = 0;
	*value = strtoll(text, &end, 10);
	while (isspace((unsigned char)*end))
		end++;
	return errno || end == text || *end ? -EINVAL : 0;
}

static int refused(int code, struct error *err)
{
	error_set(err, STATUS_UNSUPPORTED, code, "cannot read KVM's counters in debugfs: %s",
		  strerror(-code));
	error_hint(err, "kernel lockdown may forbid it; run without -d to use the tracepoints");
	return code;
}

static int no_counters(const char *root, int code, struct error *err)
{
	int r = kernel_fs_check(root, KERNEL_FS_DEBUG, err);

	return r ? r : preflight_no_kvm(code, err);
}

static DIR *open_top(const struct debugfs *d)
{
	return kernel_fs_folder(d->root, KERNEL_FS_DEBUG, "kvm");
}

/* A counter is a file that holds one number. */
static int find_fields(struct debugfs *d, DIR *top, struct error *err)
{
	int r, refusal = -ENOENT, *field;
	struct dirent *entry;
	int64_t value;

	while ((entry = readdir(top))) {
		r = entry->d_type == DT_REG ? read_number(dirfd(top), entry->d_name, &value)
					    : -EINVAL;
		if (r == -EPERM || r == -EACCES) {
			/* The kernel refuses all of them or none. */
			refusal = r;
			break;
		}
		if (r)
			continue;
		field = ARRAY_ADD(d->fields, d->n_fields);
		if (!field)
			return error_no_memory(err);
		*field = events_add(d->events, entry->d_name, -1, true);
		if (*field < 0)
			return error_no_memory(err);
	}
	return d->n_fields ? 0 : refused(refusal, err);
}

int debugfs_open(const char *root, bool past, struct kvm_events *events,
		 struct kvm_counts *by_process, struct debugfs **out, struct error *err)
{
	struct debugfs *d = calloc(1, sizeof(*d));
	DIR *top;
	int r;

	if (!d)
		return error_no_memory(err);
	d->root = root;
	d->past = past;
	d->first = true;
	d->events = events;
	top = open_top(d);
	if (!top) {
		r = no_counters(root, -errno, err);
		debugfs_close(d);
		return r;
	}
	r = find_fields(d, top, err);
	if (!r)
		r = debugfs_read(d, 0, by_process, err);
	closedir(top);
	if (r)
		debugfs_close(d);
	else
		*out = d;
	return r;
}

void debugfs_close(struct debugfs *d)
{
	if (!d)
		return;
	free(d->fields);
	for (size_t i = 0; i < d->n_machines; i++)
		free(d->machines[i].base);
	free(d->machines);
	free(d);
}

/* ---- machines ---- */

/* The machine @like, which has not ended; a name may come again.  *@fresh: it is new.  NULL without
 * memory. */
static struct machine *machine_of(struct debugfs *d, const struct machine *like, bool *fresh)
{
	struct machine *m = d->machines;

	*fresh = false;
	for (size_t i = 0; i < d->n_machines; i++, m++)
		if (!m->gone && m->inode == like->inode && m->pid == like->pid && m->fd == like->fd)
			return m;
	*fresh = true;
	m = ARRAY_ADD(d->machines, d->n_machines);
	if (!m)
		return NULL;
	*m = *like;
	m->base = calloc(d->n_fields, 2 * sizeof(*m->base));
	if (!m->base)
		return NULL; /* freed with the others */
	m->last = m->base + d->n_fields;
	return m;
}

static int read_machine(struct debugfs *d, int dir, const struct machine *like)
{
	bool fresh;
	struct machine *m = machine_of(d, like, &fresh);

	if (!m)
		return -ENOMEM;
	m->seen = true;
	for (size_t i = 0; i < d->n_fields; i++) {
		int64_t value;

		if (read_number(dir, d->events->v[d->fields[i]].name, &value))
			continue;
		m->last[i] = value;
		if (fresh && d->first && !d->past)
			m->base[i] = value;
	}
	return 0;
}

static int read_entry(struct debugfs *d, int top, const char *name)
{
	struct machine like = { 0 };
	int dir, r = 0, end = 0;
	struct stat st;

	/* "1234-12" */
	if (sscanf(name, "%u-%u%n", &like.pid, &like.fd, &end) != 2 || name[end] || !like.pid)
		return 0;
	dir = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return 0; /* it has just ended */
	if (fstat(dir, &st) == 0) {
		like.inode = st.st_ino;
		r = read_machine(d, dir, &like);
	}
	close(dir);
	return r;
}

/* ---- machines that have ended ---- */

static int64_t counted(const struct machine *m, size_t field)
{
	return m->last[field] - m->base[field];
}

/* Counts machine @i, which has ended, as process @pid's from now on: together with one before it,
 * if there is one.  Returns where the next one is. */
static size_t merge(struct debugfs *d, size_t i, uint32_t pid)
{
	struct machine *from = &d->machines[i], *to = d->machines;

	while (to < from && !(to->gone && to->pid == pid))
		to++;
	from->pid = pid;
	if (to == from)
		return i + 1;
	for (size_t f = 0; f < d->n_fields; f++)
		to->last[f] += counted(from, f);
	free(from->base);
	d->n_machines--;
	memmove(from, from + 1, (d->n_machines - i) * sizeof(*from));
	return i;
}

/* Leaves one for each process, and of processes the last ones, and @wanted. */
static void merge_ended(struct debugfs *d, uint32_t wanted)
{
	size_t ended = 0;

	for (size_t i = 0; i < d->n_machines;)
		i = d->machines[i].gone ? merge(d, i, d->machines[i].pid) : i + 1;
	for (size_t i = 0; i < d->n_machines; i++)
		ended += d->machines[i].gone && d->machines[i].pid != ENDED_PID;
	for (size_t i = 0; ended > DEBUGFS_ENDED && i < d->n_machines;) {
		const struct machine *m = &d->machines[i];
		const bool stays = !m->gone || m->pid == wanted || m->pid == ENDED_PID;

		ended -= !stays;
		i = stays ? i + 1 : merge(d, i, ENDED_PID);
	}
}

/* Counters may sink; what is shown is not below 0. */
static int add_up(struct debugfs *d, uint32_t pid, struct kvm_counts *by_process)
{
	int r = 0;

	for (size_t f = 0; f < d->n_fields; f++) {
		int64_t sum = 0;

		for (size_t i = 0; i < d->n_machines; i++)
			if (!pid || d->machines[i].pid == pid)
				sum += counted(&d->machines[i], f);
		d->events->v[d->fields[f]].total = sum > 0 ? (uint64_t)sum : 0;
	}
	for (size_t i = 0; i < d->n_machines; i++) {
		const struct machine *m = &d->machines[i];

		for (size_t f = 0; !r && m->pid != ENDED_PID && f < d->n_fields; f++)
			if (counted(m, f) > 0)
				r = counts_add(by_process, m->pid, d->fields[f],
					       (uint64_t)counted(m, f));
	}
	return r;
}

int debugfs_read(struct debugfs *d, uint32_t pid, struct kvm_counts *by_process, struct error *err)
{
	DIR *top = open_top(d);
	struct dirent *entry;
	int r = 0;

	if (!top && errno != ENOENT) /* that is: the module was taken away */
		return refused(-errno, err);
	for (size_t i = 0; i < d->n_machines; i++)
		d->machines[i].seen = false;
	while (!r && top && (entry = readdir(top)))
		if (entry->d_type == DT_DIR)
			r = read_entry(d, dirfd(top), entry->d_name);
	if (top)
		closedir(top);
	if (r)
		return error_no_memory(err);
	for (size_t i = 0; i < d->n_machines; i++)
		d->machines[i].gone = !d->machines[i].seen;
	merge_ended(d, pid);
	d->first = false;
	return add_up(d, pid, by_process) ? error_no_memory(err) : 0;
}

void debugfs_reset(struct debugfs *d)
{
	for (size_t i = 0; i < d->n_machines; i++)
		memcpy(d->machines[i].base, d->machines[i].last,
		       d->n_fields * sizeof(*d->machines[i].base));
}
