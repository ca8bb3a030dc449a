// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/screen.h"

#include <ctype.h>
#include <errno.h>
#include <ncurses.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cmd/kvm/quit.h"
#include "cmd/run.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "output/render.h"

#define LEAST_ROWS    8
#define LEAST_COLUMNS 60
#define NUMBERS	      28 /* "%11d%7.1f %9s" behind the name */
#define TIMES	      20 /* with -x: average and 99th percentile */
#define LEAST_DELAY   (NS_PER_SEC / 10)
#define DEFAULT_DELAY (3 * NS_PER_SEC)

enum asking { ASKS_NOTHING, ASKS_FILTER, ASKS_GUEST, ASKS_PROCESS, ASKS_DELAY };

struct screen {
	SCREEN *terminal;
	struct view *view;
	bool help;
	enum asking asking;
	char answer[256];
	char complaint[sizeof(((struct error *)NULL)->what)];
};

/* ---- the terminal ---- */

/* A vt100's description, for machines that have no terminfo: every terminal of today is one.  Made
 * by cmd/CMakeLists.txt; empty where the build could not. */
extern const char terminfo_vt100[];

static SCREEN *open_terminal(void)
{
	SCREEN *terminal = newterm(NULL, stdout, stdin);

	if (terminal || !terminfo_vt100[0])
		return terminal;
	setenv("TERMINFO", terminfo_vt100, 1);
	return newterm("vt100", stdout, stdin);
}

int screen_open(struct view *view, struct screen **out, struct error *err)
{
	struct screen *s = calloc(1, sizeof(*s));
	struct termios modes;

	if (!s)
		return error_set(err, STATUS_FAILED, -ENOMEM, "out of memory");
	s->view = view;
	tcgetattr(STDIN_FILENO, &modes);
	s->terminal = open_terminal();
	if (!s->terminal) {
		free(s);
		error_set(err, STATUS_UNSUPPORTED, -ENOTTY, "unknown terminal type (TERM=%.40s)",
			  getenv("TERM") ? getenv("TERM") : "");
		error_hint(err, "set TERM, or use -l");
		return -ENOTTY;
	}
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	quit_catch(&modes);
	*out = s;
	return 0;
}

void screen_close(struct screen *s)
{
	if (!s)
		return;
	curs_set(1);
	endwin();
	quit_release();
	delscreen(s->terminal);
	free(s);
}

/* ---- drawing ---- */

static void put(int row, int column, int attributes, const char *text)
{
	int room = COLS - column;

	if (row >= LINES || room <= 0)
		return;
	attrset((chtype)attributes);
	/* The last cell of the last line would scroll. */
	mvaddnstr(row, column, text, row == LINES - 1 ? room - 1 : room);
	attrset(A_NORMAL);
}

static void draw_too_small(void)
{
	char text[80];

	snprintf(text, sizeof(text), "terminal too small: %dx%d, needs %dx%d", COLS, LINES,
		 LEAST_COLUMNS, LEAST_ROWS);
	put(0, 0, A_NORMAL, text);
}

static int name_width(const struct view *v)
{
	int width = COLS - 1 - NUMBERS - (v->latencies ? TIMES : 0);

	return width > 60 ? 60 : width < 20 ? 20 : width;
}

static void draw_heading(const struct view *v)
{
	char text[512 + 4 * GUEST_NAME_SIZE], guest[4 * GUEST_NAME_SIZE];

	render_escape(v->guest, guest, sizeof(guest));
	if (v->pid)
		snprintf(text, sizeof(text), "kvm statistics - pid %u%s%s%s", v->pid,
			 guest[0] ? " (" : "", guest, guest[0] ? ")" : "");
	else
		snprintf(text, sizeof(text), "kvm statistics - summary");
	put(0, 0, A_BOLD, text);
	if (v->pattern[0]) {
		snprintf(text, sizeof(text), "regex filter: %.400s", v->pattern);
		put(1, 17, A_NORMAL, text);
	}
	snprintf(text, sizeof(text), "%-*s %10s%7s %9s%s", name_width(v),
		 v->by_guest ? "Guest" : "Event", "Total", "%Total", "CurAvg/s",
		 v->latencies ? "    Avg us    P99 us" : "");
	put(2, 1, A_STANDOUT, text);
}

/* A rate of 0 is left blank: what moves is seen better. */
static const char *rate_text(uint64_t rate, char buf[24])
{
	buf[0] = 0;
	if (rate)
		snprintf(buf, 24, "%llu", (unsigned long long)rate);
	return buf;
}

static void draw_line(const struct view *v, int row, const struct view_line *line)
{
	char rate[24], times[64] = "", text[512], name[256];
	const struct latency_sum *l = v->latencies ? line->latency : NULL;
	int width = name_width(v);

	if (l && l->hist.count)
		snprintf(times, sizeof(times), " %9.1f %9.1f",
			 (double)l->hist.total / (double)l->hist.count / 1e3,
			 (double)hist_percentile(&l->hist, 990) / 1e3);
	render_escape(line->name, name, sizeof(name));
	snprintf(text, sizeof(text), "%s%-*.*s %10llu%7.1f %9s%s", line->child ? " " : "",
		 width - line->child, width - line->child, name, (unsigned long long)line->total,
		 v->total ? (double)line->total * 100 / (double)v->total : 0.0,
		 rate_text(view_rate(v, line->delta), rate), times);
	put(row, 1, A_NORMAL, text);
}

static void draw_body(const struct view *v)
{
	char text[512], rate[24];
	int row = 3;

	if (!v->ready) {
		put(4, 1, A_NORMAL, "Collecting data...");
		return;
	}
	if (!v->n_lines)
		put(4, 1, A_NORMAL, "No matching events yet");
	for (size_t i = 0; i < v->n_lines && row < LINES - 2; i++)
		draw_line(v, row++, &v->lines[i]);
	if (v->n_lines) {
		snprintf(text, sizeof(text), "%-*s %10llu%7s %9s", name_width(v), "Total",
			 (unsigned long long)v->total, "", rate_text(view_rate(v, v->delta), rate));
		put(row, 1, A_BOLD, text);
	}
	if (v->lost) {
		snprintf(text, sizeof(text), "lost: %llu (%s)", (unsigned long long)v->lost,
			 v->lost_by);
		put(LINES - 1, 1, A_BOLD, text);
	}
}

static void draw_help(void)
{
	static const char *const lines[] = {
		"b  by guest, or by event again",
		"c  clear the filters",
		"f  filter by regular expression",
		"g  filter by guest's name",
		"h  this help",
		"o  order by total, or by current rate again",
		"p  filter by process id",
		"q  quit",
		"r  reset the totals",
		"s  set the seconds between refreshes",
		"x  show or hide child events, such as kvm_exit(HLT)",
		"",
		"Any other key refreshes at once.",
	};
	int row = 2;

	put(0, 0, A_BOLD, "Keys");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		put(row++, 3, A_NORMAL, lines[i]);
	put(LINES - 1, 0, A_STANDOUT, "Press any key to go back");
}

static void draw_guests(int row)
{
	char text[256], name[GUEST_NAME_SIZE];
	struct guest *guests = NULL;
	size_t n = 0;

	if (guests_list(NULL, &guests, &n) || !guests)
		return;
	put(row++, 1, A_UNDERLINE, "    Pid  Guest");
	for (size_t i = 0; i < n && row < LINES - 1; i++) {
		render_escape(guests[i].name, name, sizeof(name));
		snprintf(text, sizeof(text), "%7u  %s", guests[i].pid, name);
		put(row++, 1, A_NORMAL, text);
	}
	free(guests);
}

static void draw_question(const struct screen *s)
{
	static const struct {
		const char *title, *question;
	} texts[] = {
		[ASKS_NOTHING] = { "", "" },
		[ASKS_FILTER] = { "Show events whose name matches from its beginning.",
				  "Regular expression [ENTER: all]: " },
		[ASKS_GUEST] = { "Show one guest by its name.", "Guest [ENTER: all]: " },
		[ASKS_PROCESS] = { "Show one process.", "Pid [ENTER or 0: all]: " },
		[ASKS_DELAY] = { "Set the time between refreshes.", "Seconds [ENTER: 3]: " },
	};
	int column = (int)strlen(texts[s->asking].question);

	put(0, 0, A_BOLD, texts[s->asking].title);
	put(2, 0, A_NORMAL, texts[s->asking].question);
	put(2, column, A_NORMAL, s->answer);
	put(4, 0, A_NORMAL, s->complaint);
	if (s->asking == ASKS_GUEST || s->asking == ASKS_PROCESS)
		draw_guests(6);
	move(2, column + (int)strlen(s->answer));
}

void screen_draw(struct screen *s)
{
	erase();
	curs_set(s->asking != ASKS_NOTHING);
	if (LINES < LEAST_ROWS || COLS < LEAST_COLUMNS) {
		draw_too_small();
	} else if (s->help) {
		draw_help();
	} else if (s->asking != ASKS_NOTHING) {
		draw_question(s);
	} else {
		draw_heading(s->view);
		draw_body(s->view);
	}
	refresh();
}

void screen_resized(struct screen *s)
{
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
		resizeterm(size.ws_row, size.ws_col);
	screen_draw(s);
}

/* ---- keys ---- */

static void ask(struct screen *s, enum asking what)
{
	s->asking = what;
	s->answer[0] = 0;
	s->complaint[0] = 0;
}

static int take_delay(struct view *v, const char *text, struct error *err)
{
	uint64_t ns = DEFAULT_DELAY;
	int r = *text ? parse_seconds("delay", text, &ns, err) : 0;

	if (!r && ns < LEAST_DELAY)
		r = error_set(err, STATUS_USAGE, -ERANGE, "at least 0.1 seconds");
	if (r)
		return r;
	v->delay_ns = ns;
	v->delay_changed = true;
	return 0;
}

static int take_process(struct view *v, const char *text, struct error *err)
{
	uint32_t pid = 0;
	int r = *text && strcmp(text, "0") != 0 ? args_process(text, &pid, err) : 0;

	if (!r)
		view_set_process(v, pid);
	return r;
}

static int take_guest(struct view *v, const char *text, struct error *err)
{
	uint32_t pid = 0;
	int r = *text ? guests_find(NULL, text, &pid, err) : 0;

	if (!r)
		view_set_process(v, pid);
	return r;
}

/* ENTER. */
static int answered(struct screen *s)
{
	struct error err;
	int r = 0;

	switch (s->asking) {
	case ASKS_FILTER:
		r = view_set_filter(s->view, s->answer, &err);
		break;
	case ASKS_GUEST:
		r = take_guest(s->view, s->answer, &err);
		break;
	case ASKS_PROCESS:
		r = take_process(s->view, s->answer, &err);
		break;
	case ASKS_DELAY:
		r = take_delay(s->view, s->answer, &err);
		break;
	case ASKS_NOTHING:
		break;
	}
	if (r) {
		snprintf(s->complaint, sizeof(s->complaint), "%s", err.what);
		s->answer[0] = 0;
		return RUN_GO_ON;
	}
	ask(s, ASKS_NOTHING);
	return RUN_OUTPUT;
}

static int key_in_question(struct screen *s, int key)
{
	size_t len = strlen(s->answer);

	switch (key) {
	case '\r':
	case '\n':
	case KEY_ENTER:
		return answered(s);
	case 27: /* escape */
		ask(s, ASKS_NOTHING);
		return RUN_OUTPUT;
	case KEY_BACKSPACE:
	case 127:
	case '\b':
		if (len)
			s->answer[len - 1] = 0;
		return RUN_GO_ON;
	case 'U' - '@': /* as a terminal's line: all of it */
		s->answer[0] = 0;
		return RUN_GO_ON;
	}
	if (key < 256 && isprint(key) && len + 1 < sizeof(s->answer)) {
		s->answer[len] = (char)key;
		s->answer[len + 1] = 0;
	}
	return RUN_GO_ON;
}

static int key_in_view(struct screen *s, int key)
{
	struct view *v = s->view;

	switch (key) {
	case 'q':
		return RUN_STOP;
	case 'b':
		v->by_guest = !v->by_guest;
		break;
	case 'c':
		view_set_filter(v, "", NULL);
		view_set_process(v, 0);
		break;
	case 'f':
		ask(s, ASKS_FILTER);
		return RUN_GO_ON;
	case 'g':
		ask(s, ASKS_GUEST);
		return RUN_GO_ON;
	case 'p':
		ask(s, ASKS_PROCESS);
		return RUN_GO_ON;
	case 's':
		ask(s, ASKS_DELAY);
		return RUN_GO_ON;
	case 'h':
		s->help = true;
		return RUN_GO_ON;
	case 'o':
		v->by_total = !v->by_total;
		break;
	case 'r':
		v->reset = true;
		break;
	case 'x':
		v->children = !v->children;
		break;
	}
	return RUN_OUTPUT;
}

static int on_key(struct screen *s, int key)
{
	if (key == KEY_RESIZE)
		return RUN_GO_ON;
	if (s->asking != ASKS_NOTHING)
		return key_in_question(s, key);
	if (!s->help)
		return key_in_view(s, key);
	s->help = false;
	return RUN_OUTPUT;
}

/* The terminal is gone, or what is read is at its end. */
static bool hung_up(void)
{
	struct pollfd fd = { STDIN_FILENO, POLLIN, 0 };
	int waiting = 0;

	if (poll(&fd, 1, 0) <= 0)
		return false;
	return (fd.revents & (POLLHUP | POLLERR)) ||
	       (ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting == 0);
}

int screen_input(struct screen *s)
{
	int key, r = RUN_GO_ON, next;
	bool any = false;

	while (r != RUN_STOP && (key = getch()) != ERR) {
		any = true;
		next = on_key(s, key);
		if (next != RUN_GO_ON)
			r = next;
	}
	if (r == RUN_GO_ON)
		screen_draw(s);
	if (!any && r == RUN_GO_ON && hung_up())
		return RUN_STOP;
	return r;
}
