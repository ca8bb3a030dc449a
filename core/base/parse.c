/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/text.h"

#define DIGITS	    "0123456789"
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

int parse_size(const char *name, const char *text, uint64_t min, uint64_t *out, struct error *err)
{
	static const char units[] = "KMGT";
	const size_t digits = strspn(text, DIGITS);
	const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;
	const unsigned int shift = unit ? 10 * (unsigned int)(unit - units + 1) : 0;
	uint64_t value;

	errno = 0;
	value = strtoull(text, NULL, 10);
	if (digits && !text[digits + (unit != NULL)] && errno != ERANGE &&
	    value <= UINT64_MAX >> shift && value << shift >= min) {
		*out = value << shift;
		return 0;
	}
	error_set(err, STATUS_USAGE, -EINVAL, "invalid %s '%s'", name, text_shown(text).text);
	error_hint(err, "give %" PRIu64 " bytes or more, such as 512M or 1G", min);
	return -EINVAL;
}

static int bad_time(const char *name, const char *text, int code, const char *why,
		    struct error *err)
{
	error_set(err, STATUS_USAGE, code, "invalid %s '%s': %s", name, text_shown(text).text, why);
	error_hint(err, "give a time such as 1, 0.5, 10ms or 1h");
	return code;
}

/* The nanoseconds in a unit of time; no unit: @plain_ns; 0: none that is known. */
static uint64_t unit_ns(const char *unit, uint64_t plain_ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "ns", 1 },
		{ "us", 1000 },
		{ "ms", 1000000 },
		{ "s", NS_PER_SEC },
		{ "m", 60 * NS_PER_SEC },
		{ "h", 3600 * NS_PER_SEC },
		{ "d", 86400 * NS_PER_SEC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(unit, units[i].name) == 0)
			return units[i].ns;
	return *unit ? 0 : plain_ns;
}

/* A decimal number and a unit, which may be missing. */
static int parse_time(const char *name, const char *text, uint64_t plain_ns, uint64_t *ns,
		      struct error *err)
{
	size_t whole = strspn(text, DIGITS);
	const char *fraction = text[whole] == '.' ? text + whole + 1 : NULL;
	size_t decimals = fraction ? strspn(fraction, DIGITS) : 0;
	uint64_t in_unit = unit_ns(fraction ? fraction + decimals : text + whole, plain_ns);
	unsigned __int128 value = 0; /* in 1 / NS_PER_SEC of a unit */

	if (!in_unit || !(fraction ? decimals : whole))
		return bad_time(name, text, -EINVAL, "not a time", err);
	if (decimals > DECIMALS)
		return bad_time(name, text, -EINVAL, "more than 9 decimals", err);
	for (size_t i = 0; i < whole; i++) {
		value = value * 10 + (uint64_t)(text[i] - '0');
		if (value * in_unit > MAX_SECONDS * NS_PER_SEC)
			return bad_time(name, text, -ERANGE, "more than 10 years", err);
	}
	for (size_t i = 0; i < DECIMALS; i++)
		value = value * 10 + (i < decimals ? (uint64_t)(fraction[i] - '0') : 0);
	value = value * in_unit / NS_PER_SEC;
	if (value > MAX_SECONDS * NS_PER_SEC)
		return bad_time(name, text, -ERANGE, "more than 10 years", err);
	if (!value)
		return bad_time(name, text, -ERANGE, "must be more than 0", err);
	*ns = (uint64_t)value;
	return 0;
}

int parse_seconds(const char *name, const char *text, uint64_t *ns, struct error *err)
{
	return parse_time(name, text, NS_PER_SEC, ns, err);
}

int parse_ms(const char *name, const char *text, uint64_t *ns, struct error *err)
{
	int r;

	if (strcmp(text, "0") == 0) {
		*ns = 0;
		return 0;
	}
	r = parse_time(name, text, NS_PER_SEC / 1000, ns, err);
	if (r)
		error_hint(err,
			   "give milliseconds such as 10 or 0.5, a time such as 1s, or 0 for all");
	return r;
}

/* ---- a moment ---- */

static int bad_moment(const char *name, const char *text, struct error *err)
{
	error_set(err, STATUS_USAGE, -EINVAL, "invalid %s '%s': not a time", name,
		  text_shown(text).text);
	error_hint(err, "give 03:12, 2026-11-28 03:12, or -90m for 90 minutes before the end");
	return -EINVAL;
}

/* "03:12", "03:12:30": seconds since midnight, and all of @text. */
static bool parse_clock(const char *text, uint64_t *secs)
{
	static const char *const forms[] = { "%H:%M", "%H:%M:%S" };

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tm tm = { 0 };
		const char *end = strptime(text, forms[i], &tm);

		if (!end || *end || tm.tm_sec > 59)
			continue;
		*secs =
		    (uint64_t)tm.tm_hour * 3600 + (uint64_t)tm.tm_min * 60 + (uint64_t)tm.tm_sec;
		return true;
	}
	return false;
}

/* "2026-11-28", which exists: seconds since the epoch, as if the clock showed UTC; returns what
 * follows it, NULL: none. */
static const char *parse_date(const char *text, uint64_t *secs)
{
	struct tm tm = { 0 };
	const char *rest = strspn(text, DIGITS) == 4 ? strptime(text, "%Y-%m-%d", &tm) : NULL;
	int day = tm.tm_mday;
	time_t time;

	if (!rest)
		return NULL;
	time = timegm(&tm); /* which turns February 30 into March 2 */
	if (time < 0 || tm.tm_mday != day)
		return NULL;
	*secs = (uint64_t)time;
	return rest;
}

int parse_moment(const char *name, const char *text, struct moment *out, struct error *err)
{
	const size_t len = strlen(text);
	char clock_text[sizeof("03:12:30")];
	uint64_t date, clock = 0;
	const char *rest;
	bool utc;

	if (text[0] == '-') {
		if (parse_seconds(name, text + 1, &clock, NULL))
			return bad_moment(name, text, err);
		*out = (struct moment){ MOMENT_BEFORE_END, clock };
		return 0;
	}
	if (parse_clock(text, &clock)) {
		*out = (struct moment){ MOMENT_CLOCK, clock * NS_PER_SEC };
		return 0;
	}
	rest = parse_date(text, &date);
	if (!rest || (*rest && *rest != ' ' && *rest != 'T'))
		return bad_moment(name, text, err);
	utc = *rest && text[len - 1] == 'Z' && rest + sizeof(clock_text) >= text + len - 1;
	if (utc)
		snprintf(clock_text, sizeof(clock_text), "%.*s", (int)(text + len - rest) - 2,
			 rest + 1);
	if (*rest && !parse_clock(utc ? clock_text : rest + 1, &clock))
		return bad_moment(name, text, err);
	*out = (struct moment){ utc ? MOMENT_UTC : MOMENT_DATE, (date + clock) * NS_PER_SEC };
	return 0;
}
