// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/symbols/mapped_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "core/system/bounded.h"
#include "core/system/open_regular.h"

/* ---- roots ---- */

static void close_root(struct space_root *root)
{
	if (root->fd >= 0)
		close(root->fd);
}

static int stat_root(struct space_root *root)
{
	struct stat st;

	if (fstat(root->fd, &st))
		return -errno;
	root->dev = st.st_dev;
	root->inode = st.st_ino;
	return 0;
}

void space_files_open(struct space_files *f)
{
	f->n = f->next = 0;
	f->own.fd = open_root("/");
	if (stat_root(&f->own))
		f->own.dev = f->own.inode = 0;
}

void space_files_close(struct space_files *f)
{
	close_root(&f->own);
	for (size_t i = 0; i < f->n; i++)
		close_root(&f->roots[i]);
	f->n = 0;
}

static bool is_same(const struct space_root *a, const struct space_root *b)
{
	return a->dev == b->dev && a->inode == b->inode;
}

/* The root of process @pid, for the caller to close; fd -errno: it is ours, or there is none. */
static struct space_root other_root(const struct space_files *f, uint32_t pid)
{
	struct space_root root = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/root", pid);
	root.fd = open_root(path);
	if (root.fd < 0 || (stat_root(&root) == 0 && !is_same(&root, &f->own)))
		return root;
	close(root.fd);
	root.fd = -ENOENT;
	return root;
}

void space_files_note_root(struct space_files *f, uint32_t pid)
{
	struct space_root root = other_root(f, pid);

	for (size_t i = 0; root.fd >= 0 && i < f->n; i++)
		if (is_same(&f->roots[i], &root)) {
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

void file_search_begin(struct file_search *search, const struct space_files *files, uint32_t pid,
		       const struct mapping *m)
{
	*search = (struct file_search){ .files = files, .mapping = m, .pid = pid };
	search->process_root = other_root(files, pid).fd;
	search->kept_root = -ENOENT;
	search->root = files->own.fd;
}

/* It may be killed on its way (core/system/bounded.h): nothing is closed twice. */
static void close_fd(int *fd)
{
	int old = *fd;

	*fd = -ENOENT;
	if (old >= 0)
		close(old);
}

void file_search_end(struct file_search *search)
{
	close_fd(&search->process_root);
	close_fd(&search->kept_root);
}

static int open_mapped(uint32_t pid, const struct mapping *m)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%u/map_files/%llx-%llx", pid,
		 (unsigned long long)m->start, (unsigned long long)m->end);
	return open_regular_link(path);
}

static int open_path(struct file_search *search, int root)
{
	search->root = root;
	return root < 0 ? root
			: open_regular(root, search->mapping->module->path, OPEN_NO_SYMLINKS);
}

enum { STEP_MAPPED, STEP_PROCESS_ROOT, STEP_OWN_ROOT, STEP_ROOTS };

static int take_step(struct file_search *search, unsigned int step)
{
	int own = search->files->own.fd, process = search->process_root, fd;

	switch (step) {
	case STEP_MAPPED:
		fd = open_mapped(search->pid, search->mapping);
		search->root = process >= 0 ? process : own;
		return fd;
	case STEP_PROCESS_ROOT:
		return open_path(search, process);
	case STEP_OWN_ROOT:
		return open_path(search, own);
	default:
		close_fd(&search->kept_root);
		search->kept_root =
		    fcntl(search->files->roots[step - STEP_ROOTS].fd, F_DUPFD_CLOEXEC, 0);
		return open_path(search, search->kept_root);
	}
}

/* The device is not compared: overlay and btrfs show stat() another one.  Where the kernel tells
 * build ids instead, the inode is 0. */
static bool has_inode(int fd, uint64_t inode)
{
	struct stat st;

	return !inode || (fstat(fd, &st) == 0 && st.st_ino == inode);
}

/* Goes on to the next step that finds a file. */
static int next_file(void *ctx)
{
	struct file_search *search = ctx;
	const struct module *module = search->mapping->module;

	while (search->step < STEP_ROOTS + search->files->n) {
		int fd = take_step(search, search->step++);

		if (fd >= 0 && has_inode(fd, module->id.size ? 0 : module->inode))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -ENOENT;
}

int file_search_next(struct file_search *search)
{
	unsigned int before;
	int r;

	if (!search->mapping->module->is_file)
		return -ENOENT;
	do { /* a step that takes too long is left out */
		before = search->step;
		r = bounded_open(next_file, search);
	} while (r == -ETIMEDOUT && search->step != before);
	return r;
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

bool file_search_is_elsewhere(const struct file_search *search)
{
	return search->root != search->files->own.fd;
}
