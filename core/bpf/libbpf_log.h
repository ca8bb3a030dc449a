/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Redirects libbpf's messages. */
#ifndef IOTRACE_CORE_BPF_LIBBPF_LOG_H
#define IOTRACE_CORE_BPF_LIBBPF_LOG_H

/* From now on libbpf's messages, which are process-wide, go to @verbose, line by line without the
 * newline; NULL discards them.  Returns the previous destination: the caller restores it after
 * attaching. */
typedef void libbpf_log_line(const char *line);
libbpf_log_line *libbpf_log(libbpf_log_line *verbose);

#endif
