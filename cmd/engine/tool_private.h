/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_ENGINE_TOOL_PRIVATE_H
#define IOTRACE_CMD_ENGINE_TOOL_PRIVATE_H

#include "cmd/engine/tool.h"
#include "core/bpf/libbpf_log.h"

/* Shared by the engine's own files: tool.c (a run), tool_objects.c (BPF objects), tool_output.c
 * (drains, losses, outputs), tool_check.c (--check). */

/* A run of @tool with its structure, zeroed. 0 or -ENOMEM with @err. */
int tool_new(const struct tool *tool, struct tool_run **out, struct error *err);

/* Parses @argv, and applies the options. -errno with @err. */
int tool_take_options(struct tool_run *t, int argc, char **argv, struct error *err);

/* Fills t->object.events; how many. */
size_t tool_events(struct tool_run *t);

/* libbpf's messages go to @t, until libbpf_log() is called with the result. */
libbpf_log_line *tool_log(const struct tool_run *t);

/* Opens, loads and attaches @o.  -errno with @err. */
int tool_attach_object(struct tool_object *o, struct error *err);

/* Frees the objects of @t. */
void tool_close_objects(struct tool_run *t);

/* Finds the losses' variables in the first object, which is loaded. */
int tool_find_losses(struct tool_run *t, struct error *err);

/* CLOCK_REALTIME may have been set: tool_epoch_ns() follows it. */
void tool_follow_clock(struct tool_run *t);

#endif
