/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_BASE_BANNED_H
#define IOTRACE_CORE_BASE_BANNED_H

/*
 * Included before every C file of iotrace: functions that cannot be used safely do not compile.
 * core/base/parse.h parses numbers, snprintf() makes text.  The C library's headers come first, so
 * that their own declarations are not affected.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With _FORTIFY_SOURCE glibc makes macros of these for compilers without __va_arg_pack(): clang. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncpy strncat stpcpy sprintf vsprintf gets
#pragma GCC poison atoi atol atoll atof strtok

#endif
