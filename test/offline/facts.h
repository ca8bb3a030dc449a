/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_OFFLINE_FACTS_H
#define IOTRACE_TEST_OFFLINE_FACTS_H

struct offline_kernel;

/* The kernel whose answers core/bpf/hook_facts.h gives in a program linked to facts.c; it is set
 * before the first question. */
void facts_about(const struct offline_kernel *kernel);

#endif
