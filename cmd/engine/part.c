// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/part.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cli/command.h"
#include "cmd/cli/report.h"

#define WORDS 24

enum { OUT, ERRORS, PIPES };

static _Noreturn void run_child(const char *subcommand, const char *const *args,
				int pipes[PIPES][2])
{
	char name[64], *argv[WORDS + 1] = { name };
	int argc = 1;

	dup2(pipes[OUT][1], STDOUT_FILENO);
	dup2(pipes[ERRORS][1], STDERR_FILENO);
	for (int i = 0; i < PIPES; i++)
		close(pipes[i][0]);
	snprintf(name, sizeof(name), "iotrace %s", subcommand);
	for (; args[argc - 1] && argc < WORDS; argc++)
		argv[argc] = (char *)args[argc - 1];
	exit(tool_main(command_find(subcommand)->tool, argc, argv));
}

struct text {
	char *bytes;
	size_t n;
	bool cut;
	part_taker *take; /* NULL: it is kept */
	void *ctx;
};

static void pass_on(struct text *text)
{
	const size_t taken = text->take && text->n ? text->take(text->ctx, text->bytes) : 0;

	text->n -= taken;
	if (taken)
		memmove(text->bytes, text->bytes + taken, text->n + 1);
}

/* False: the pipe has ended. */
static bool read_some(int fd, struct text *to)
{
	char buffer[65536];
	const ssize_t n = read(fd, buffer, sizeof(buffer));
	size_t room = PART_SIZE - to->n, take;
	char *grown;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	take = (size_t)n < room ? (size_t)n : room;
	to->cut |= take < (size_t)n;
	grown = realloc(to->bytes, to->n + take + 1);
	if (!grown)
		return false;
	memcpy(grown + to->n, buffer, take);
	to->bytes = grown;
	to->n += take;
	to->bytes[to->n] = 0;
	pass_on(to);
	return true;
}

static void read_all(int pipes[PIPES][2], struct text texts[PIPES])
{
	struct pollfd fds[PIPES];
	int open = PIPES;

	for (int i = 0; i < PIPES; i++)
		fds[i] = (struct pollfd){ pipes[i][0], POLLIN, 0 };
	while (open && (poll(fds, PIPES, -1) >= 0 || errno == EINTR))
		for (int i = 0; i < PIPES; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !read_some(fds[i].fd, &texts[i])) {
				fds[i].fd = -1;
				open--;
			}
}

int part_read(const char *subcommand, const char *const *args, part_taker *take, void *ctx,
	      struct part *out, struct error *err)
{
	struct text texts[PIPES] = { [OUT] = { .take = take, .ctx = ctx } };
	int pipes[PIPES][2], status = 0;
	pid_t pid;

	*out = (struct part){ .text = NULL };
	for (int i = 0; i < PIPES; i++)
		if (pipe2(pipes[i], O_CLOEXEC))
			return error_set(err, STATUS_FAILED, -errno, "cannot make a pipe: %s",
					 strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return error_set(err, STATUS_FAILED, -errno, "cannot start a process: %s",
				 strerror(errno));
	if (!pid)
		run_child(subcommand, args, pipes);
	for (int i = 0; i < PIPES; i++)
		close(pipes[i][1]);
	read_all(pipes, texts);
	for (int i = 0; i < PIPES; i++)
		close(pipes[i][0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	out->text = texts[OUT].bytes ?: strdup("");
	out->errors = texts[ERRORS].bytes ?: strdup("");
	out->cut = texts[OUT].cut;
	out->status = WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_FAILED;
	return out->text && out->errors ? 0 : error_no_memory(err);
}

int part_run(const char *subcommand, const char *const *args, struct part *out, struct error *err)
{
	return part_read(subcommand, args, NULL, NULL, out, err);
}

void part_report(const char *name, const struct part *part)
{
	const char *lines = part->errors;

	for (size_t len; *lines; lines += len + (lines[len] != 0)) {
		len = strcspn(lines, "\n");
		if (strncmp(lines, "iotrace: ", 9) == 0 && len > 9)
			report_line("%s: %.*s", name, (int)len - 9, lines + 9);
	}
}

const char *part_error(const struct part *part, int *len)
{
	const char *what = part->errors, *next = part->errors;

	for (; *next; next += strcspn(next, "\n"), next += *next != 0)
		if (strncmp(next, "iotrace: ", 9) == 0)
			what = next + 9;
	if (!*what)
		what = "its replay was ended";
	*len = (int)strcspn(what, "\n");
	return what;
}

void part_free(struct part *part)
{
	free(part->text);
	free(part->errors);
	*part = (struct part){ .text = NULL };
}
