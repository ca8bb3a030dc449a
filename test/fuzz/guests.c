/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of a process that claims to be a virtual machine. */
#include <stdbool.h>
#include <sys/stat.h>

#include "cmd/kvm/guests.h"
#include "fuzz.h"

static char root[] = "/tmp/iotrace-fuzz-XXXXXX";

static bool made;

static void remove_root(void)
{
	char path[64];

	for (const char *const *at =
		 (const char *const[]){ "/proc/1/cmdline", "/proc/1", "/proc", "", NULL };
	     *at; at++) {
		snprintf(path, sizeof(path), "%s%s", root, *at);
		remove(path);
	}
}

static void make_root(void)
{
	char path[64];

	if (!mkdtemp(root))
		abort();
	snprintf(path, sizeof(path), "%s/proc", root);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/proc/1", root);
	mkdir(path, 0700);
	atexit(remove_root);
	made = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64], name[GUEST_NAME_SIZE];
	struct guest *guests;
	FILE *file;
	size_t n;

	if (!made)
		make_root();
	snprintf(path, sizeof(path), "%s/proc/1/cmdline", root);
	file = fopen(path, "w");
	if (!file || fwrite(data, 1, size, file) != size || fclose(file))
		abort();
	memset(name, 'x', sizeof(name));
	if (guest_name(root, 1, name) != name || !memchr(name, 0, sizeof(name)))
		abort();
	if (!guests_list(root, &guests, &n)) {
		if (n)
			abort(); /* it holds no machine */
		free(guests);
	}
	return 0;
}
