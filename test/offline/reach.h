/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_TEST_OFFLINE_REACH_H
#define IOTRACE_TEST_OFFLINE_REACH_H

#include "test/offline/object.h"

/*
 * Which instructions of @object can be reached from function @entry, the functions that it calls or
 * points to included.  Constants are followed through registers and the
 * stack, and branches that they decide; what is read from maps (options in .rodata too), from
 * the kernel or from arguments may be anything.  What is not marked is certainly never reached;
 * what is marked might be.
 * reached[c][i] is set for instruction i of object->code[c]; entered[f] for function f.
 * 0 or -ENOMEM.
 */
int reach(const struct object *object, size_t entry, bool **reached, bool *entered);

#endif
