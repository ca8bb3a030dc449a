// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/screen.h"

#include <errno.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/parse.h"

#define DELAY_MIN (NS_PER_SEC / 10)

/* ---- around the table ---- */

static void put_title(struct kvm_screen *s)
{
	struct screen_view *around = &s->around;
	const struct view *v = s->view;
	char guest[4 * GUEST_NAME_SIZE] = "", what[32] = "summary", step[96] = "", text[64];
	char when[CLOCK_TEXT_SIZE];
	const size_t size = sizeof(around->title);
	const char *closing;

	if (v->pid)
		snprintf(what, sizeof(what), "pid %u", v->pid);
	if (v->pid == KVM_PID_UNKNOWN)
		snprintf(what, sizeof(what), "no guest yet");
	if (s->steps)
		snprintf(step, sizeof(step), ", %s, %s", steps_text(s->steps, text, sizeof(text)),
			 clock_date(v->recorded->interval.end_ns, v->recorded->utc_offset, when));
	render_escape(v->guest, guest, sizeof(guest));
	closing = *guest ? ")" : "";
	snprintf(around->title, size, "kvm statistics - %s%s%s%s%s", what, *guest ? " (" : "",
		 guest, s->steps ? closing : "", step);
	snprintf(around->title_end, sizeof(around->title_end), "%s%s", s->steps ? "" : closing,
		 v->gone ? " - gone" : "");
	snprintf(around->note, sizeof(around->note), "%s%.400s",
		 v->pattern[0] ? "regex filter: " : "", v->pattern);
}

int kvm_screen_open(struct kvm_screen *s, struct view *view, struct steps *steps)
{
	*s = (struct kvm_screen){
		.view = view,
		.steps = steps,
		.around = { .none = "No matching events yet",
			    .instead = "-l",
			    .sum = &view->sum,
			    .sort = SCREEN_UNSORTED },
	};
	put_title(s);
	return screen_open(stdin, stdout, &s->around, &s->screen);
}

int kvm_screen_table(struct kvm_screen *s, struct render_interval *in)
{
	const struct view *v = s->view;

	if (view_lines(s->view))
		return -ENOMEM;
	put_title(s);
	s->around.last = !s->steps && in->drained->last;
	in->schema = &v->schema;
	in->rows = v->lines;
	in->n = v->n_lines;
	return 0;
}

/* ---- questions ---- */

static int take_delay(struct view *v, const char *text, struct error *err)
{
	uint64_t ns = KVM_SCREEN_DELAY;
	int r = *text ? parse_seconds("delay", text, &ns, err) : 0;

	if (!r && ns < DELAY_MIN)
		r = error_set(err, STATUS_USAGE, -ERANGE, "at least 0.1 seconds");
	if (r)
		return r;
	v->delay_ns = ns;
	v->delay_changed = true;
	return 0;
}

static char *list_guests(const void *view)
{
	char name[4 * GUEST_NAME_SIZE], *text = NULL;
	struct guest *guests = NULL;
	size_t n = 0, size = 0;
	FILE *stream;

	if (view_guests(view, &guests, &n) || !guests)
		return NULL;
	stream = open_memstream(&text, &size);
	if (stream) {
		fputs("    Pid  Guest", stream);
		for (size_t i = 0; i < n; i++)
			fprintf(stream, "\n%7u  %s", guests[i].pid,
				render_escape(guests[i].name, name, sizeof(name)));
		fclose(stream);
	}
	free(guests);
	return text;
}

/* ENTER. */
static int answer(struct kvm_screen *s)
{
	struct error err;

	if (s->answered(s->view, screen_answer(s->screen), &err)) {
		screen_refuse(s->screen, err.what);
		return RUN_GO_ON;
	}
	screen_back(s->screen);
	return RUN_OUTPUT;
}

/* What holds now of what @key asks. */
static const char *current(const struct view *v, int key, char *buf, size_t size)
{
	buf[0] = 0;
	if (key == 'f')
		snprintf(buf, size, "%s", v->pattern);
	else if (key == 's')
		screens_seconds(v->delay_ns, buf, size);
	else if (v->pid == KVM_PID_UNKNOWN)
		snprintf(buf, size, "%s", v->guest);
	else if (v->pid)
		snprintf(buf, size, "%u%s%s", v->pid, v->guest[0] ? " " : "", v->guest);
	return buf;
}

/* Does @key ask something? */
static bool ask(struct kvm_screen *s, int key)
{
	static const struct {
		int key;
		int (*answered)(struct view *v, const char *text, struct error *err);
		struct screen_question question;
	} questions[] = {
		{ 'f',
		  view_set_filter,
		  { "Show events whose name matches from its beginning.",
		    "Regular expression [ENTER: all]: ", NULL } },
		{ 'g',
		  view_set_guest,
		  { "Show one guest.", "Guest or pid [ENTER: all]: ", list_guests } },
		{ 'p',
		  view_set_guest,
		  { "Show one process.", "Pid or guest [ENTER or 0: all]: ", list_guests } },
		{ 's',
		  take_delay,
		  { "Set the time between refreshes.", "Seconds [ENTER: 3]: ", NULL } },
	};

	char now[KVM_PATTERN_SIZE + GUEST_NAME_SIZE + 16];

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		if (questions[i].key != key || (key == 's' && s->steps))
			continue;
		s->answered = questions[i].answered;
		screen_ask(s->screen, &questions[i].question,
			   current(s->view, key, now, sizeof(now)), s->view);
		return true;
	}
	return false;
}

/* ---- keys ---- */

static void help(struct kvm_screen *s)
{
	static const char *const lines[] = {
		"b  by guest, or by event again",
		"c  clear the filters",
		"f  filter by regular expression",
		"g  filter by guest, by its name or process id",
		"h  this help",
		"j k  of a replay: next interval, the one before",
		"o  order by total, or by current rate again",
		"p  the same as g",
		"q  quit",
		"r  reset the totals",
		"s  set the seconds between refreshes",
		"x  show or hide child events, such as kvm_exit(HLT)",
		"",
		"Arrows, PgUp, PgDn, Home and End scroll.",
		"Any other key refreshes at once.",
	};

	screen_help(s->screen, lines, ARRAY_SIZE(lines));
}

static int on_key(void *screen, int key)
{
	struct kvm_screen *s = screen;
	struct view *v = s->view;

	if (ask(s, key))
		return RUN_GO_ON;
	switch (key) {
	case SCREEN_ANSWER:
		return answer(s);
	case 'q':
		return RUN_STOP;
	case 'b':
		v->by_guest = !v->by_guest;
		break;
	case 'c':
		view_set_filter(v, "", NULL);
		view_set_process(v, 0);
		break;
	case 'h':
		help(s);
		return RUN_GO_ON;
	case 'j':
	case 'k':
		if (s->steps)
			steps_key(s->steps, key);
		break;
	case 'o':
		v->by_total = !v->by_total;
		break;
	case 'r':
		v->reset = !s->steps;
		break;
	case 'x':
		view_show_children(v, !v->children);
		break;
	}
	return RUN_OUTPUT;
}

int kvm_screen_input(struct kvm_screen *s)
{
	return screens_keys(s->screen, s->steps, on_key, s);
}
