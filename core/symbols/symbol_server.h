/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_SYMBOLS_SYMBOL_SERVER_H
#define IOTRACE_CORE_SYMBOLS_SYMBOL_SERVER_H

#include <stdbool.h>

/*
 * The helper process: reads files that may be hostile, in a sandbox (core/isolation/sandbox.h), for
 * core/symbols/symbol_client.h.  It is this program, executed under another name: it has no copy of
 * its parent's memory.
 */
#define SYMBOL_SERVER_NAME "iotrace-symbols"
#define SYMBOL_SERVER_FD   3

/* Bytes in addition to the program's own. */
#define SYMBOL_SERVER_MEMORY (256UL << 20)

/* Is a program called with @argc, @argv that process? */
bool symbol_server_is(int argc, char **argv);

/* Serves on SYMBOL_SERVER_FD until it is closed. */
void symbol_server_run(void) __attribute__((noreturn));

/* The same on @socket, without the sandbox: for tests. */
void symbol_server_serve(int socket);

#endif
