/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/parse.h"

#include <errno.h>
#include <inttypes.h>

#include "core/base/text.h"

#define DIGITS	    "0123456789"
#define NSEC	    1000000000ull
#define MAX_SECONDS (10ull * 365 * 86400)
#define DECIMALS    9

static void hint_whole(uint64_t min, uint64_t max, struct error *err)
{
	if (max != UINT64_MAX)
		error_hint(err, "give a whole number from %" PRIu64 " to %" PRIu64, min, max);
	else if (min)
		error_hint(err, "give a whole number, %" PRIu64 " or more", min);
	else
		error_hint(err, "give a whole number such as 10");
}

int parse_u64(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *out,
	      struct error *err)
{
	size_t digits = strspn(text, DIGITS);
	uint64_t value;
	int rc = 0;

	if (!digits || text[digits]) {
		rc = error_set(err, STATUS_USAGE, -EINVAL, "invalid %s '%s': not a whole number",
			       name, text_shown(text).text);
		goto out;
	}
	errno = 0;
	value = strtoull(text, NULL, 10);
	if (errno == ERANGE || value > max)
		rc = error_set(err, STATUS_USAGE, -ERANGE, "invalid %s '%s': more than %" PRIu64,
			       name, text_shown(text).text, max);
	else if (value < min)
		rc = error_set(err, STATUS_USAGE, -ERANGE, "invalid %s '%s': less than %" PRIu64,
			       name, text_shown(text).text, min);
	else
		*out = value;
out:
	if (rc)
		hint_whole(min, max, err);
	return rc;
}

static int bad_seconds(const char *name, const char *text, int code, const char *why,
		       struct error *err)
{
	error_set(err, STATUS_USAGE, code, "invalid %s '%s': %s", name, text_shown(text).text, why);
	error_hint(err, "give seconds such as 1 or 0.5");
	return code;
}

int parse_seconds(const char *name, const char *text, uint64_t *ns, struct error *err)
{
	size_t whole = strspn(text, DIGITS);
	const char *fraction = text[whole] == '.' ? text + whole + 1 : NULL;
	size_t decimals = fraction ? strspn(fraction, DIGITS) : 0;
	uint64_t value = 0;

	if (fraction ? !decimals || fraction[decimals] : !whole || text[whole])
		return bad_seconds(name, text, -EINVAL, "not a number", err);
	if (decimals > DECIMALS)
		return bad_seconds(name, text, -EINVAL, "more than 9 decimals", err);
	for (size_t i = 0; i < whole; i++) {
		value = value * 10 + (uint64_t)(text[i] - '0');
		if (value > MAX_SECONDS)
			return bad_seconds(name, text, -ERANGE, "more than 10 years", err);
	}
	for (size_t i = 0; i < DECIMALS; i++)
		value = value * 10 + (i < decimals ? (uint64_t)(fraction[i] - '0') : 0);
	if (value > MAX_SECONDS * NSEC)
		return bad_seconds(name, text, -ERANGE, "more than 10 years", err);
	if (!value)
		return bad_seconds(name, text, -ERANGE, "must be more than 0", err);
	*ns = value;
	return 0;
}
