/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Command lines: the first byte says whose, then the arguments, a line each. */
#include "cmd/breakdown/options.h"
#include "cmd/kvm/options.h"
#include "cmd/stack/options.h"
#include "cmd/top/options.h"
#include "cmd/virtio/options.h"
#include "fuzz.h"

#define ARGS 40

/* What regcomp() does with the user's own expression is not ours to mend: with repetitions in
 * repetitions it takes all the memory there is. */
static void no_repetitions(char *text)
{
	for (; (text = strpbrk(text, "{*+?")); text++)
		*text = 'x';
}

static void parse(char which, int argc, char **argv)
{
	union {
		struct top_options top;
		struct breakdown_options breakdown;
		struct stack_options stack;
		struct virtio_options virtio;
		struct kvm_options kvm;
	} o;
	struct error err;

	switch (which) {
	case 't':
		top_options(argc, argv, &o.top, &err);
		break;
	case 'b':
		breakdown_options(argc, argv, &o.breakdown, &err);
		break;
	case 's':
		stack_options(argc, argv, &o.stack, &err);
		break;
	case 'v':
		virtio_options(argc, argv, &o.virtio, &err);
		break;
	default:
		kvm_options(argc, argv, &o.kvm, &err);
		kvm_options_free(&o.kvm);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char name[] = "iotrace it";
	char *argv[ARGS + 2] = { name }, *text, *at;
	int argc = 1;

	if (!size)
		return 0;
	if (!freopen("/dev/null", "w", stdout)) /* --help */
		abort();
	text = fuzz_text(data + 1, size - 1);
	if (!strchr("tbsv", data[0]))
		no_repetitions(text);
	for (at = text; argc <= ARGS && at; argc++)
		argv[argc] = strsep(&at, "\n");
	argv[argc] = NULL;
	parse((char)data[0], argc, argv);
	free(text);
	return 0;
}
