// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/engine/choices.h"

#include <stdio.h>

#include "cmd/cli/report.h"

void choices_list(const struct hooks *hooks)
{
	size_t n;
	const struct hook_choice *choice = hooks_choices(hooks, &n);

	for (size_t i = 0; i < n; i++)
		printf("%s %s %s %s\n", choice[i].event, choice[i].kind, choice[i].target,
		       choice[i].usable ? "usable" : choice[i].reason);
}

size_t choices_meta(const struct hook_choice *choice, size_t n, struct meta_hook *out, size_t max)
{
	const char *settled = NULL; /* event whose chosen hook was seen: the rest is worse */
	size_t used = 0;

	for (size_t i = 0; i < n && used < max; i++) {
		if (settled == choice[i].event || (!choice[i].chosen && !choice[i].reason[0]))
			continue;
		if (choice[i].chosen)
			settled = choice[i].event;
		out[used++] = (struct meta_hook){
			.event = choice[i].event,
			.kind = choice[i].kind,
			.target = choice[i].target,
			.reason = choice[i].chosen ? NULL : choice[i].reason,
		};
	}
	return used;
}

void choices_explain(const struct hooks *hooks, bool dropped)
{
	struct meta_hook hook[CHOICES_MAX];
	size_t n;
	const struct hook_choice *choice = hooks_choices(hooks, &n);
	size_t used = choices_meta(choice, n, hook, CHOICES_MAX);
	char line[320];

	for (size_t i = 0; i < used; i++) {
		if (hook[i].reason)
			snprintf(line, sizeof(line), "%s: not %s:%s: %s", hook[i].event,
				 hook[i].kind, hook[i].target, hook[i].reason);
		else if (!dropped)
			snprintf(line, sizeof(line), "%s: %s:%s", hook[i].event, hook[i].kind,
				 hook[i].target);
		else
			continue;
		report_verbose(line);
	}
}
