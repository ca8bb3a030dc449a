/* SPDX-License-Identifier: GPL-2.0-or-later */
/* iotrace kvm -f: what matches, what could, and what is close to what does not. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/kvm/filter.h"

static int make_events(void **state)
{
	static const char *const reasons[] = { "HLT", "io", "INTERRUPT_WINDOW" };
	static struct kvm_events e;
	int parent;

	events_add(&e, "kvm_entry", -1, true);
	parent = events_add(&e, "kvm_exit", -1, true);
	events_add(&e, "kvm_pio", -1, true);
	for (size_t i = 0; i < 3; i++)
		events_add_child(&e, parent, reasons[i], true);
	*state = &e;
	return e.n == 6 ? 0 : -1;
}

static int free_events(void **state)
{
	events_free(*state);
	return 0;
}

static int check(const struct kvm_events *e, const char *pattern, struct error *err)
{
	regex_t filter;
	int r = kvm_regex(pattern, &filter, err);

	if (r)
		return r;
	r = kvm_filter_check(&filter, pattern, e, err);
	regfree(&filter);
	return r;
}

static void test_match(void **state)
{
	static const char *const good[] = {
		"",
		"kvm_e",
		"KVM_EXIT",
		"kvm_exit\\(hlt",
		"kvm_exit\\(IOIO",
		"kvm_exit.PENDING_INTERRUPT",
		"x|kvm_pio",
		".*",
		/* not seen yet */
		"kvm_exit\\(0x8f",
		"kvm_exit\\(.*8f\\)",
		"kvm_exit\\(HLT\\|FAILED",
		"kvm_exit\\([a-z0-9]*4\\)",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (check(*state, good[i], NULL))
			fail_msg("'%s' matches nothing", good[i]);
}

/* Each name that kvm_stat has, with the kernel's. */
static void test_names_of_kvm_stat(void **state)
{
	static const struct {
		const char *ours, *theirs;
	} names[] = {
		{ "npf", "NPF" },
		{ "io", "IOIO" },
		{ "interrupt", "INTR" },
		{ "hypercall", "VMMCALL" },
		{ "DE_excp", "EXCP_BASE" },
		{ "mwait_cond", "MWAIT_COND" },
		{ "read_idtr", "IDTR_READ" },
		{ "read_gdtr", "GDTR_READ" },
		{ "read_ldtr", "LDTR_READ" },
		{ "read_rt", "TR_READ" },
		{ "write_idtr", "IDTR_WRITE" },
		{ "write_gdtr", "GDTR_WRITE" },
		{ "write_ldtr", "LDTR_WRITE" },
		{ "write_rt", "TR_WRITE" },
		{ "INTERRUPT_WINDOW", "PENDING_INTERRUPT" },
		{ "HLT", "HLT" },
		{ "0x8f", "0x8f" },
		{ "WFx", "WFI" },
		{ "ILL", "ILL_ISS" },
		{ "IABT_LOW", "IABT" },
		{ "IABT_CUR", "IABT_HYP" },
		{ "DABT_LOW", "DABT" },
		{ "DABT_CUR", "DABT_HYP" },
		{ "BREAKPT_LOW", "BREAKPT" },
		{ "BREAKPT_CUR", "BREAKPT_HYP" },
		{ "SOFTSTP_LOW", "SOFTSTP" },
		{ "SOFTSTP_CUR", "SOFTSTP_HYP" },
		{ "WATCHPT_LOW", "WATCHPT" },
		{ "WATCHPT_CUR", "WATCHPT_HYP" },
	};

	char buf[EVENT_NAME_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char pattern[EVENT_NAME_SIZE], want[EVENT_NAME_SIZE];
		struct kvm_events e = { .kvm_stat_names = false };
		struct kvm_events as_theirs = { .kvm_stat_names = true };
		int parent = events_add(&e, "kvm_exit", -1, true);

		events_add_child(&e, parent, names[i].ours, true);
		snprintf(pattern, sizeof(pattern), "kvm_exit\\(%s\\)", names[i].theirs);
		assert_int_equal(check(&e, pattern, NULL), 0);
		snprintf(want, sizeof(want), "kvm_exit(%s)", names[i].theirs);
		assert_string_equal(kvm_stat_name(e.v[1].name, buf), want);
		parent = events_add(&as_theirs, "kvm_exit", -1, true);
		events_add_child(&as_theirs, parent, names[i].ours, true);
		assert_string_equal(as_theirs.v[1].name, want);
		assert_int_equal(events_add_child(&as_theirs, parent, names[i].ours, true), 1);
		events_free(&e);
		events_free(&as_theirs);
	}
	assert_string_equal(kvm_stat_name("kvm_userspace_exit(io)", buf), "kvm_userspace_exit(io)");
	assert_string_equal(kvm_stat_name("kvm_pio", buf), "kvm_pio");
}

static void test_no_match(void **state)
{
	static const struct {
		const char *pattern, *hint;
	} bad[] = {
		{ "kvm_exti", "close: kvm_exit;" },
		{ "pio", "close: kvm_pio;" },
		{ "kvm_entyr", "close: kvm_entry;" },
		{ "kvm_exit\\(HTL", "close: kvm_exit\\(HLT\\);" },
		{ "kvm_exit(HLT)", "close: kvm_exit\\(HLT\\);" },
		{ "zzz", "-f help" },
		{ "0x8f", "-f help" },
		{ "kvm_pio\\(0", "close: kvm_pio;" },
		{ "$q", "-f help" },
		{ "kvm_poi", "close: kvm_pio;" },
		{ "(((a)))", "-f help" },
	};
	struct error err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (check(*state, bad[i].pattern, &err) != -EINVAL)
			fail_msg("'%s' matches something", bad[i].pattern);
		assert_int_equal(err.status, STATUS_USAGE);
		assert_non_null(strstr(err.what, "no event matches"));
		if (strncmp(err.hint, bad[i].hint, strlen(bad[i].hint)) != 0)
			fail_msg("'%s': %s", bad[i].pattern, err.hint);
	}
}

static void test_long(void **state)
{
	static const size_t lengths[] = { 255, 256, 1019, 1020, 1021, 1023, 1024 };
	char pattern[KVM_PATTERN_SIZE + 1] = "";
	struct error err;
	int want;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(pattern, 'x', lengths[i]);
		memcpy(pattern, "kvm_pio|", 8);
		pattern[lengths[i]] = 0;
		want = lengths[i] < KVM_PATTERN_SIZE ? 0 : -EINVAL;
		err = (struct error){ .status = STATUS_OK };
		assert_int_equal(check(*state, pattern, &err), want);
		assert_int_equal(err.status, want ? STATUS_USAGE : STATUS_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_names_of_kvm_stat),
		cmocka_unit_test(test_no_match),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests_name("kvm_filter", tests, make_events, free_events);
}
