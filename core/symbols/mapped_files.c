// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/mapped_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/isolation/open_regular.h"

/* ---- roots ---- */

static void close_root(struct space_root *root)
{
	if (root->fd >= 0)
		close(root->fd);
}

void address_space_files_open(struct address_space_files *f)
{
	f->n = f->next = 0;
	f->own.fd = open_root("/");
	if (open_root_id(f->own.fd, &f->own.id))
		f->own.id = (struct root_id){ 0 };
}

void address_space_files_close(struct address_space_files *f)
{
	close_root(&f->own);
	for (size_t i = 0; i < f->n; i++)
		close_root(&f->roots[i]);
	f->n = 0;
}

/* The root of process @pid, for the caller to close; fd -errno: it is ours, or there is none. */
static struct space_root other_root(const struct address_space_files *f, uint32_t pid)
{
	struct space_root root = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/root", pid);
	root.fd = open_root(path);
	if (root.fd < 0 ||
	    (open_root_id(root.fd, &root.id) == 0 && !open_root_is_same(&root.id, &f->own.id)))
		return root;
	close(root.fd);
	root.fd = -ENOENT;
	return root;
}

void address_space_files_note_root(struct address_space_files *f, uint32_t pid)
{
	struct space_root root = other_root(f, pid);

	for (size_t i = 0; root.fd >= 0 && i < f->n; i++)
		if (open_root_is_same(&f->roots[i].id, &root.id)) {
			close(root.fd);
			return;
		}
	if (root.fd < 0)
		return;
	if (f->next < f->n)
		close_root(&f->roots[f->next]);
	else
		f->n++;
	f->roots[f->next] = root;
	f->next = (f->next + 1) % SPACE_ROOTS;
}

/* ---- the search ---- */

void file_search_begin(struct file_search *search, const struct address_space_files *files,
		       uint32_t pid, const struct mapping *m)
{
	*search = (struct file_search){ .files = files, .mapping = m, .pid = pid };
	search->process_root = other_root(files, pid).fd;
	search->kept_root = -ENOENT;
	search->root = files->own.fd;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void file_search_end(struct file_search *search)
{
	close_fd(search->process_root);
	close_fd(search->kept_root);
}

int read_maps_text(uint32_t pid, struct bounded_text *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	if (access(path, F_OK))
		return -ENOENT;
	return bounded_read(path, MAPS_SIZE, out);
}

/* Where the mapping that begins at @start ends now; 0: not known. */
static uint64_t find_end(uint32_t pid, uint64_t start)
{
	struct bounded_text text;
	unsigned long long from, to = 0;
	const char *line;

	if (read_maps_text(pid, &text))
		return 0;
	for (line = text.len ? text.text : NULL; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "%llx-%llx ", &from, &to) == 2 && from == start)
			break;
		to = 0;
	}
	bounded_text_free(&text);
	return to;
}

static int open_range(uint32_t pid, uint64_t start, uint64_t end, struct opened_file *out)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%u/map_files/%llx-%llx", pid, (unsigned long long)start,
		 (unsigned long long)end);
	return open_regular_link(path, out);
}

/* The kernel and ld.so map the first segment as long as the whole file needs room, and then other
 * segments over it: if it is code, what perf records of it is too long. */
static int open_as_it_is(uint32_t pid, const struct mapping *m, struct opened_file *out)
{
	uint64_t end = find_end(pid, m->start);

	return end && end != m->end ? open_range(pid, m->start, end, out) : -ENOENT;
}

static int open_path(struct file_search *search, int root, struct opened_file *out)
{
	search->root = root;
	return open_regular(root, search->mapping->module->path, OPEN_NO_SYMLINKS, out);
}

enum { STEP_MAPPED, STEP_PROCESS_ROOT, STEP_OWN_ROOT, STEP_ROOTS };

/* Behind the others comes one that looks for the mapping as it is. */
static unsigned int last_step(const struct file_search *search)
{
	/* What has no path (memfd_create()) can only be had as it is mapped. */
	return search->mapping->module->is_file ? STEP_ROOTS + (unsigned int)search->files->n
						: STEP_MAPPED + 1;
}

static int take_step(struct file_search *search, unsigned int step, struct opened_file *out)
{
	int own = search->files->own.fd, process = search->process_root;
	const struct mapping *m = search->mapping;
	bool last = step == last_step(search);

	if (step == STEP_MAPPED || last) {
		search->root = process >= 0 ? process : own;
		return last ? open_as_it_is(search->pid, m, out)
			    : open_range(search->pid, m->start, m->end, out);
	}
	switch (step) {
	case STEP_PROCESS_ROOT:
		return open_path(search, process, out);
	case STEP_OWN_ROOT:
		return open_path(search, own, out);
	default:
		close_fd(search->kept_root);
		search->kept_root =
		    fcntl(search->files->roots[step - STEP_ROOTS].fd, F_DUPFD_CLOEXEC, 0);
		return open_path(search, search->kept_root, out);
	}
}

/* The device is not compared: overlay and btrfs show stat() another one.  Where the kernel reports
 * build ids instead, the inode is 0. */
static bool is_right(const struct module *module, const struct opened_file *file)
{
	return module->id.size || !module->inode || file->st.st_ino == module->inode;
}

int file_search_next(struct file_search *search, struct opened_file *out)
{
	const struct module *module = search->mapping->module;

	while (search->step <= last_step(search)) {
		if (take_step(search, search->step++, out))
			continue;
		out->is_foreign |= search->root != search->files->own.fd;
		if (is_right(module, out))
			return 0;
		opened_file_close(out);
	}
	return -ENOENT;
}

size_t file_search_roots(const struct file_search *search, int roots[2])
{
	size_t n = 0;

	if (search->root >= 0)
		roots[n++] = search->root;
	if (search->files->own.fd >= 0 && search->root != search->files->own.fd)
		roots[n++] = search->files->own.fd;
	return n;
}
