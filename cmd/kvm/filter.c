// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/filter.h"

#include <ctype.h>
#include <errno.h>

#include "core/base/array.h"
#include "core/base/text.h"

int kvm_regex(const char *pattern, regex_t *out, struct error *err)
{
	const int flags = REG_EXTENDED | REG_NOSUB | REG_ICASE;
	char text[KVM_PATTERN_SIZE + sizeof("^()")], reason[128];
	int r;

	if (strlen(pattern) >= KVM_PATTERN_SIZE)
		return error_set(err, STATUS_USAGE, -EINVAL, "regular expression too long");
	/* Without the parentheses the b of "a|b" would match anywhere. */
	snprintf(text, sizeof(text), "^(%s)", pattern);
	/* By itself first: "a)(b" is none, though "^(a)(b)" is. */
	r = regcomp(out, pattern, flags);
	if (!r) {
		regfree(out);
		r = regcomp(out, *pattern ? text : "", flags);
	}
	if (!r)
		return 0;
	regerror(r, out, reason, sizeof(reason));
	return error_set(err, STATUS_USAGE, -EINVAL, "invalid regular expression '%s': %s",
			 text_shown(pattern).text, reason);
}

static bool found(const regex_t *filter, const char *name)
{
	return regexec(filter, name, 0, NULL, 0) == 0;
}

/* Reasons that have other names in kvm_stat than in the kernel, not only in upper case: of SVM, VMX
 * and arm64. */
static const struct {
	const char *ours, *theirs;
} other_names[] = {
	{ "io", "IOIO" },
	{ "interrupt", "INTR" },
	{ "hypercall", "VMMCALL" },
	{ "DE_excp", "EXCP_BASE" },
	{ "read_idtr", "IDTR_READ" },
	{ "read_gdtr", "GDTR_READ" },
	{ "read_ldtr", "LDTR_READ" },
	{ "read_rt", "TR_READ" },
	{ "write_idtr", "IDTR_WRITE" },
	{ "write_gdtr", "GDTR_WRITE" },
	{ "write_ldtr", "LDTR_WRITE" },
	{ "write_rt", "TR_WRITE" },
	{ "INTERRUPT_WINDOW", "PENDING_INTERRUPT" },
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

const char *kvm_stat_name(const char *name, char buf[EVENT_NAME_SIZE])
{
	static const char parent[] = "kvm_exit(";
	const char *reason = name + sizeof(parent) - 1;

	if (strncmp(name, parent, sizeof(parent) - 1) != 0 || strncmp(reason, "0x", 2) == 0)
		return name;
	snprintf(buf, EVENT_NAME_SIZE, "%s", name);
	for (char *c = buf + sizeof(parent) - 1; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	for (size_t i = 0; i < ARRAY_SIZE(other_names); i++)
		if (strncmp(reason, other_names[i].ours, strlen(other_names[i].ours)) == 0 &&
		    strcmp(reason + strlen(other_names[i].ours), ")") == 0)
			snprintf(buf, EVENT_NAME_SIZE, "%s%s)", parent, other_names[i].theirs);
	return buf;
}

bool kvm_filter_matches(const regex_t *filter, const char *name)
{
	char theirs[EVENT_NAME_SIZE];

	return !filter || found(filter, name) || found(filter, kvm_stat_name(name, theirs));
}

/* ---- names that may come ---- */

#define NUMBERS_TRIED 0x410 /* the numbers of all exits, except a few with high bits */

bool kvm_filter_matches_unnamed(const regex_t *filter, const char *pattern,
				const struct kvm_events *e, size_t parent)
{
	static const char *const flags[] = { "|FAILED_VMENTRY", "|0x10000" };
	char name[256];

	/* Behind the beginning, where the name of the event stands. */
	if (!filter || strstr(pattern + (*pattern != 0), "0x"))
		return true;
	for (unsigned int n = 0; n < NUMBERS_TRIED; n++) {
		snprintf(name, sizeof(name), "%s(0x%x)", e->v[parent].name, n);
		if (found(filter, name))
			return true;
	}
	for (size_t i = 0; i < e->n; i++) {
		const char *child = e->v[i].name;

		for (size_t f = 0; f < 2 && e->v[i].parent == (int)parent; f++) {
			snprintf(name, sizeof(name), "%.*s%s)", (int)strlen(child) - 1, child,
				 flags[f]);
			if (found(filter, name))
				return true;
		}
	}
	return false;
}

/* ---- names that are close ---- */

#define EXPRESSION_SIZE 256

/* Copies what fits of @from, without the characters in @drop, and with a backslash before those in
 * @escape.  Returns @to. */
static const char *copy_text(char *to, size_t size, const char *from, const char *drop,
			     const char *escape)
{
	size_t len = 0;

	for (; *from && len + 1 + (*escape != 0) < size; from++) {
		if (strchr(drop, *from))
			continue;
		if (strchr(escape, *from))
			to[len++] = '\\';
		to[len++] = *from;
	}
	to[len] = 0;
	return to;
}

static void hint_close(const char *pattern, const struct kvm_events *e, struct error *err)
{
	char text[TEXT_DISTANCE_LENGTH], expression[EXPRESSION_SIZE], list[256] = "";
	struct text_close close = { .wanted = text };
	size_t len = 0;

	/* The pattern as a name: without what has a meaning in expressions. */
	copy_text(text, sizeof(text), pattern, "^$\\.*+?", "");
	/* Reasons are only close to who has asked for one. */
	for (size_t i = 0; *text && i < e->n; i++)
		if (e->v[i].parent < 0 || strchr(text, '('))
			text_close_add(&close, e->v[i].name);
	for (size_t i = 0; i < TEXT_CLOSE_NAMES && close.names[i][0] && len < sizeof(list); i++)
		if (close.how_far[i] == close.how_far[0])
			len += (size_t)snprintf(
			    list + len, sizeof(list) - len, "%s%s", i ? ", " : "",
			    copy_text(expression, sizeof(expression), close.names[i], "", "()|"));
	error_hint(err, "%s%s%s-f help lists the events", len ? "close: " : "", list,
		   len ? "; " : "");
}

static bool has_children(const struct kvm_events *e, size_t i)
{
	for (size_t k = 0; k < e->n; k++)
		if (e->v[k].parent == (int)i)
			return true;
	return false;
}

int kvm_filter_check(const regex_t *filter, const char *pattern, const struct kvm_events *e,
		     struct error *err)
{
	if (!filter)
		return 0;
	for (size_t i = 0; i < e->n; i++)
		if (kvm_filter_matches(filter, e->v[i].name) ||
		    (has_children(e, i) && kvm_filter_matches_unnamed(filter, pattern, e, i)))
			return 0;
	error_set(err, STATUS_USAGE, -EINVAL, "no event matches '%s'", text_shown(pattern).text);
	hint_close(pattern, e, err);
	return -EINVAL;
}
