/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions that have their programs in common are attached to by one link for each of these. What
 * is asked of the kernel is replaced when this is linked. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <cmocka.h>

#include "core/base/array.h"
#include "core/bpf/hooks_internal.h"
#include "probes/breakdown_calls.skel.h"

int __wrap_bpf_link_create(int prog_fd, int target_fd, enum bpf_attach_type type,
			   const struct bpf_link_create_opts *opts);
int __wrap_find_symbols(const char *const *names, uint64_t *values, size_t n);

struct made {
	bool is_return, by_address;
	size_t n;
	char names[16]; /* of one letter each */
	uint64_t cookies[8];
};

static struct made links[16];
static size_t n_links;
static int fds[ARRAY_SIZE(links)];
static char refused;	     /* function that takes no program */
static bool entries_refused; /* of several functions */
static int shortage;	     /* -errno of each link */
static int hidden;	     /* -errno: addresses are not shown */
static char unknown;	     /* function whose address is not known */
static char moved;	     /* function that is elsewhere when it is looked for again */
static unsigned int found;

static void note_function(struct made *link, size_t i, char name)
{
	assert_true(i + 1 < sizeof(link->names));
	link->names[i] = name;
}

int __wrap_bpf_link_create(int prog_fd, int target_fd, enum bpf_attach_type type,
			   const struct bpf_link_create_opts *opts)
{
	const unsigned long *addrs = opts->kprobe_multi.addrs;
	const char **syms = opts->kprobe_multi.syms;
	struct made *link = &links[n_links];

	(void)prog_fd;
	(void)target_fd;
	assert_int_equal(type, BPF_TRACE_KPROBE_MULTI);
	assert_true(n_links < ARRAY_SIZE(links));
	*link = (struct made){ .is_return = opts->kprobe_multi.flags & BPF_F_KPROBE_MULTI_RETURN,
			       .by_address = addrs != NULL,
			       .n = opts->kprobe_multi.cnt };
	for (size_t i = 0; i < link->n; i++) {
		note_function(link, i, addrs ? (char)(addrs[i] >> 8) : syms[i][0]);
		link->cookies[i] = opts->kprobe_multi.cookies[i];
	}
	errno = shortage				  ? -shortage
		: refused && strchr(link->names, refused) ? (link->by_address ? ENOENT : ESRCH)
		: entries_refused && !link->is_return && link->n > 1 ? EINVAL
								     : 0;
	if (errno)
		return -1;
	fds[n_links] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < n_links; i++)
		if (fds[i] == fds[n_links])
			fds[i] = -1; /* that was closed */
	return fds[n_links++];
}

/* 'a' is at 0x6100. */
int __wrap_find_symbols(const char *const *names, uint64_t *values, size_t n)
{
	found++;
	for (size_t i = 0; i < n; i++)
		values[i] = ((uint64_t)*names[i] << 8) + (found > 1 && *names[i] == moved);
	for (size_t i = 0; i < n; i++)
		if (*names[i] == unknown)
			return (int)n - 1;
	return hidden ? hidden : (int)n;
}

static const struct hook_function functions[] = {
	{ "a", 1 }, { "b", 2 }, { "c", 3 }, { "d", 4 }, { "e", 5 }, { "f", 6 },
};

#define CALL(i)                                                                                    \
	{                                                                                          \
		HOOK_KPROBE_MULTI, "x", 0, { "call_mx", "call_me" }, 0, NULL, &functions[i], 1     \
	}

static const struct hook_alt a = CALL(0), b = CALL(1), c = CALL(2), d = CALL(3),
			     others = { HOOK_KPROBE_MULTI,
					"x",
					0,
					{ "syscall_mx", "syscall_me" },
					0,
					NULL,
					&functions[4],
					2 };

static const struct hook_event events[] = {
	{ "others", &others, 1, false },
	{ "a", &a, 1, true },
	{ "b", &b, 1, true },
	{ "c", &c, 1, true },
	{ "d", &d, 1, true },
};

static struct hook_choice choices[ARRAY_SIZE(events)];
static struct hooks h;
static struct breakdown_calls_bpf *skel;

static int reset(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		choices[i] = (struct hook_choice){ .alt = events[i].alts, .chosen = true };
	h = (struct hooks){ .events = events,
			    .n_events = ARRAY_SIZE(events),
			    .choices = choices,
			    .n_choices = ARRAY_SIZE(events) };
	n_links = found = 0;
	refused = moved = unknown = 0;
	entries_refused = false;
	shortage = hidden = 0;
	skel = breakdown_calls_bpf__open();
	return skel ? 0 : -1;
}

static int clean(void **state)
{
	(void)state;
	hooks_detach(&h);
	free(h.attached);
	breakdown_calls_bpf__destroy(skel);
	return 0;
}

/* Link @i is to the functions @names. */
static void link_is(size_t i, bool is_return, bool by_address, const char *names)
{
	const struct made *link = &links[i];

	assert_true(i < n_links);
	assert_int_equal(link->is_return, is_return);
	assert_int_equal(link->by_address, by_address);
	assert_string_equal(link->names, names);
	for (size_t f = 0; f < link->n; f++)
		assert_int_equal(link->cookies[f], names[f] - 'a' + 1);
}

static size_t still_open(void)
{
	size_t n = 0;

	for (size_t i = 0; i < n_links; i++)
		n += fcntl(fds[i], F_GETFD) >= 0;
	return n;
}

static void attach(size_t n)
{
	size_t failed;

	assert_int_equal(hooks_attach_all(&h, skel->obj, &failed), 0);
	assert_int_equal(n_links, n);
	assert_int_equal(still_open(), h.n_attached);
}

static void test_common(void **state)
{
	(void)state;
	attach(4);
	link_is(0, true, true, "abcd");
	link_is(1, false, true, "abcd");
	link_is(2, true, true, "ef");
	link_is(3, false, true, "ef");
	assert_int_equal(h.n_attached, 4);
}

/* An event without a hook does not come between. */
static void test_without_one(void **state)
{
	(void)state;
	choices[2].chosen = false;
	choices[4].chosen = false;
	attach(4);
	link_is(0, true, true, "ac");
	link_is(1, false, true, "ac");
}

static void test_one_alone(void **state)
{
	(void)state;
	choices[0].chosen = choices[1].chosen = choices[3].chosen = choices[4].chosen = false;
	attach(2);
	link_is(0, true, false, "b");
	link_is(1, false, false, "b");
	assert_int_equal(found, 0);
}

static void test_hidden(void **state)
{
	(void)state;
	hidden = -EPERM;
	attach(4);
	link_is(0, true, false, "abcd");
	link_is(3, false, false, "ef");
}

/* The address of one function is not known. */
static void test_unknown(void **state)
{
	(void)state;
	unknown = 'b';
	attach(4);
	link_is(0, true, false, "abcd");
	link_is(2, true, true, "ef");
}

/* A link that may be on another function is detached, and the functions are attached by name. */
static void test_moved(void **state)
{
	(void)state;
	moved = 'c';
	attach(12);
	link_is(0, true, true, "abcd");
	link_is(1, false, true, "abcd");
	for (size_t i = 0; i < 4; i++) {
		link_is(2 + 2 * i, true, false, (const char *[]){ "d", "c", "b", "a" }[i]);
		link_is(3 + 2 * i, false, false, (const char *[]){ "d", "c", "b", "a" }[i]);
	}
	link_is(11, false, true, "ef");
	assert_int_equal(h.n_attached, 10);
}

/* A function's end is not seen twice when its beginning takes no link in common. */
static void test_second_refused(void **state)
{
	(void)state;
	choices[0].chosen = false;
	entries_refused = true;
	attach(9);
	link_is(0, true, true, "abcd");
	link_is(1, true, false, "d");
	link_is(8, false, false, "a");
	assert_int_equal(h.n_attached, 8);
}

static void test_refused(void **state)
{
	size_t failed = 0;

	(void)state;
	refused = 'b';
	assert_int_equal(hooks_attach_all(&h, skel->obj, &failed), -ESRCH);
	assert_int_equal(failed, 2);
	assert_int_equal(h.n_attached, 4); /* of c and d */
	assert_int_equal(still_open(), 4);
}

/* If descriptors run out, functions are not tried one by one. */
static void test_shortage(void **state)
{
	size_t failed = 0;

	(void)state;
	shortage = -EMFILE;
	assert_int_equal(hooks_attach_all(&h, skel->obj, &failed), -EMFILE);
	assert_int_equal(failed, 4);
	assert_int_equal(found, 1);
	shortage = 0;
	hidden = -ENOMEM;
	assert_int_equal(hooks_attach_all(&h, skel->obj, &failed), -ENOMEM);
	assert_int_equal(n_links, 0);
}

/* Events of other programs come between, and are attached in their turn. */
static void test_between(void **state)
{
	const struct hook_event mixed[] = { events[1], events[2], events[0], events[3], events[4] };

	(void)state;
	h.events = mixed;
	for (size_t i = 0; i < ARRAY_SIZE(mixed); i++)
		choices[i].alt = mixed[i].alts;
	attach(6);
	link_is(0, true, true, "cd");
	link_is(1, false, true, "cd");
	link_is(2, true, true, "ef");
	link_is(3, false, true, "ef");
	link_is(4, true, true, "ab");
	link_is(5, false, true, "ab");
	hooks_detach(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_common, reset, clean),
		cmocka_unit_test_setup_teardown(test_without_one, reset, clean),
		cmocka_unit_test_setup_teardown(test_one_alone, reset, clean),
		cmocka_unit_test_setup_teardown(test_hidden, reset, clean),
		cmocka_unit_test_setup_teardown(test_unknown, reset, clean),
		cmocka_unit_test_setup_teardown(test_moved, reset, clean),
		cmocka_unit_test_setup_teardown(test_second_refused, reset, clean),
		cmocka_unit_test_setup_teardown(test_refused, reset, clean),
		cmocka_unit_test_setup_teardown(test_shortage, reset, clean),
		cmocka_unit_test_setup_teardown(test_between, reset, clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
