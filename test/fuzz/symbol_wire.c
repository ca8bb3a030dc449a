/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What symbol_client and symbol_server say to each other: the helper process may have been taken
 * over by a file.  The input: a byte that says which side gets what follows, then packets, each
 * after its length in two bytes.  The server gets the input as the file, too.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/isolation/open_regular.h"
#include "core/symbols/symbol_client.h"
#include "core/symbols/symbol_server.h"
#include "core/symbols/symbol_wire.h"
#include "fuzz.h"

#define PLACES 8

static const uint8_t *input;
static size_t input_size;
static int other_end = -1;

static void send_packet(int socket, const void *bytes, size_t size, int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec iov = { (void *)(uintptr_t)bytes, size };
	struct msghdr header = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		header.msg_control = &control;
		header.msg_controllen = sizeof(control.bytes);
	}
	sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* All packets of the input, then the end. */
static void send_input(int socket, int fd)
{
	const uint8_t *at = input, *end = input + input_size;

	while (end - at >= 2) {
		size_t size = at[0] | (size_t)at[1] << 8;

		at += 2;
		if (size > (size_t)(end - at))
			size = (size_t)(end - at);
		send_packet(socket, at, size, fd);
		at += size;
	}
	shutdown(socket, SHUT_WR);
}

/* A process that does nothing, and what it is to have said. */
static pid_t start_speaker(int socket)
{
	static const struct wire_status ready = { .type = WIRE_READY };
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	if (other_end >= 0)
		close(other_end);
	other_end = dup(socket);
	send_packet(other_end, &ready, sizeof(ready), -1);
	send_input(other_end, -1);
	return pid;
}

static void check(const struct symbol_place *places, int r)
{
	for (size_t i = 0; i < PLACES; i++)
		if (places[i].name && (r || strlen(places[i].name) > MAX_SYMBOL_NAME))
			abort();
}

static void fuzz_client(int fd)
{
	const struct symbol_client_config config = { start_speaker, UINT64_MAX / 2,
						     UINT64_MAX / 2 };
	struct symbol_place places[PLACES] = { { 0 } };
	struct symbol_client *c;
	int root = open_root("/proc/self");
	const struct symbol_file file = {
		.file = { .fd = fd }, .path = "/folder/program", .roots = &root, .n_roots = 1
	};

	if (symbol_client_open(&config, &c))
		abort();
	check(places, symbol_client_elf(c, &file, places, PLACES));
	check(places, symbol_client_perf_map(c, &file.file, "/tmp/perf-1.map", places, PLACES));
	symbol_client_close(c);
	close(root);
}

static void fuzz_server(int fd)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		abort();
	send_input(sockets[0], fd);
	symbol_server_serve(sockets[1]);
	close(sockets[0]);
	close(sockets[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_fd(data, size);

	if (!size)
		return 0;
	input = data + 1;
	input_size = size - 1;
	if (data[0] & 1)
		fuzz_client(fd);
	else
		fuzz_server(fd);
	return 0;
}
