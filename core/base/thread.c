// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/base/thread.h"

#include <signal.h>

int thread_start(pthread_t *thread, void *stack, size_t size, void *(*run)(void *ctx), void *ctx)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	if (stack)
		pthread_attr_setstack(&attributes, stack, size);
	else
		pthread_attr_setstacksize(&attributes, size);
	r = -pthread_create(thread, &attributes, run, ctx);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}
