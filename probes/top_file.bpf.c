// SPDX-License-Identifier: GPL-2.0-or-later
/* iotrace top --by file: the programs and maps of top, with files. */
#define BY_FILE true
#include "probes/top.bpf.c"
