// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/debugfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/kvm/counters.h"
#include "core/base/array.h"
#include "core/system/kernel_fs.h"

struct machine {
	uint32_t pid, fd;
	ino_t inode;   /* another one: another machine by the same name */
	bool seen;     /* in this read */
	int64_t *last; /* field by field */
};

struct debugfs {
	const char *root; /* the caller's */
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

	return r ? r : kvm_not_loaded(code, err);
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

int debugfs_open(const char *root, struct kvm_events *events, struct debugfs **out,
		 struct error *err)
{
	struct debugfs *d = calloc(1, sizeof(*d));
	DIR *top;
	int r;

	if (!d)
		return error_no_memory(err);
	d->root = root;
	d->events = events;
	top = open_top(d);
	if (!top) {
		r = no_counters(root, -errno, err);
		debugfs_close(d);
		return r;
	}
	r = find_fields(d, top, err);
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
		free(d->machines[i].last);
	free(d->machines);
	free(d);
}

/* ---- machines ---- */

/* The machine @like, made if it is not there; a name may come again.  NULL without memory. */
static struct machine *machine_of(struct debugfs *d, const struct machine *like)
{
	struct machine *m = d->machines;

	for (size_t i = 0; i < d->n_machines; i++, m++)
		if (m->inode == like->inode && m->pid == like->pid && m->fd == like->fd)
			return m;
	m = ARRAY_ADD(d->machines, d->n_machines);
	if (!m)
		return NULL;
	*m = *like;
	m->last = calloc(d->n_fields, sizeof(*m->last));
	return m->last ? m : NULL; /* freed with the others */
}

static int read_machine(struct debugfs *d, int dir, const struct machine *like,
			struct kvm_counts *by_process)
{
	struct machine *m = machine_of(d, like);
	int r = 0;

	if (!m)
		return -ENOMEM;
	m->seen = true;
	for (size_t i = 0; !r && i < d->n_fields; i++) {
		int64_t value;

		if (read_number(dir, d->events->v[d->fields[i]].name, &value))
			continue;
		if (by_process)
			r = counts_add(by_process, m->pid, (size_t)d->fields[i],
				       (uint64_t)value - (uint64_t)m->last[i]);
		m->last[i] = value;
	}
	return r;
}

static int read_entry(struct debugfs *d, int top, const char *name, struct kvm_counts *by_process)
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
		r = read_machine(d, dir, &like, by_process);
	}
	close(dir);
	return r;
}

static void forget_ended(struct debugfs *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n_machines; i++) {
		if (d->machines[i].seen)
			d->machines[n++] = d->machines[i];
		else
			free(d->machines[i].last);
	}
	d->n_machines = n;
}

int debugfs_read(struct debugfs *d, struct kvm_counts *by_process, struct error *err)
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
			r = read_entry(d, dirfd(top), entry->d_name, by_process);
	if (top)
		closedir(top);
	if (r)
		return error_no_memory(err);
	forget_ended(d);
	return 0;
}
