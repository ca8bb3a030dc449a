/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The full screen: the terminal, its modes and signals. */
#include "output/screen_internal.h"
/* Before <term.h>, whose macros have the names of its members. */
#include "output/terminal.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/array.h"

/*
 * SIGQUIT (Ctrl-\) is for a program that hangs: the run loop does not handle it, unlike the other
 * signals, and its handler does not call ncurses, which may be running.  The sequence that restores
 * the terminal is prepared before; the signal then ends the program, like without a handler.
 *
 * The signals that stop a job are handled the same way, instead of by ncurses: a job that waits for
 * the foreground must still end by SIGTERM.
 */
struct sequence {
	char text[128];
	size_t len;
};

static const int caught[] = { SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU };
static const int end_signals[] = { SIGINT, SIGTERM, SIGHUP };

static struct {
	struct termios modes, own;
	int in, out;
	struct sequence leave, enter;
	struct sigaction old[ARRAY_SIZE(caught)];
	volatile sig_atomic_t suspended; /* the terminal was given back when the job was stopped */
	volatile sig_atomic_t redraw;	 /* it was taken over again: nothing of ours is on it */
} way_back;

static struct sequence *making;

static int keep_character(int c)
{
	if (making->len < sizeof(making->text))
		making->text[making->len++] = (char)c;
	return c;
}

static void add_text(struct sequence *sequence, const char *text)
{
	while (*text && sequence->len < sizeof(sequence->text))
		sequence->text[sequence->len++] = *text++;
}

static void make_sequence(struct sequence *sequence, const char *const *capabilities)
{
	making = sequence;
	for (sequence->len = 0; *capabilities; capabilities++) {
		const char *text = tigetstr((char *)*capabilities);

		if (text && text != (char *)-1)
			tputs(text, 1, keep_character);
	}
}

static void set_terminal(const struct sequence *sequence, const struct termios *modes)
{
	ssize_t written = write(way_back.out, sequence->text, sequence->len);

	(void)written;
	tcsetattr(way_back.in, TCSADRAIN, modes);
}

static void on_quit(int signo)
{
	if (!way_back.suspended)
		set_terminal(&way_back.leave, &way_back.modes);
	raise(signo); /* SA_RESETHAND: the end */
}

/* Are signals held back that end the program? */
static bool is_ending(void)
{
	sigset_t pending;
	bool any = false;

	sigemptyset(&pending);
	sigpending(&pending);
	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++)
		any |= sigismember(&pending, end_signals[i]) == 1;
	return any;
}

/* Ctrl-Z, or the terminal is another job's: stops until it is ours, or until the program ends and
 * must leave the terminal unchanged. */
static void on_stop(int signo)
{
	const int saved = errno;

	(void)signo;
	if (!terminal_is_others(way_back.in))
		set_terminal(&way_back.leave, &way_back.modes);
	way_back.suspended = true;
	do {
		raise(SIGSTOP);
	} while (terminal_is_others(way_back.in) && !is_ending());
	if (terminal_is_others(way_back.in)) {
		signal(SIGTTIN, SIG_IGN);
		signal(SIGTTOU, SIG_IGN);
	} else {
		set_terminal(&way_back.enter, &way_back.own);
		way_back.suspended = false;
		way_back.redraw = true;
		raise(SIGWINCH); /* draws it */
	}
	errno = saved;
}

/* ncurses switches the mouse off at the end; the handlers do so themselves. */
static void add_mouse(void)
{
	char *mode = tigetstr((char *)"XM");

	if (!mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL))
		return;
	mouseinterval(0);
	add_text(&way_back.leave, "\033[?1006;1000l");
	add_text(&way_back.enter, mode && mode != (char *)-1 ? tiparm(mode, 1) : "\033[?1000h");
}

static void catch_signals(void)
{
	static const char *const leave[] = { "sgr0", "rmkx", "cnorm", "rmcup", NULL };
	static const char *const enter[] = { "smcup", "smkx", "civis", NULL };
	struct sigaction quit = { .sa_handler = on_quit,
				  .sa_flags = (int)SA_RESETHAND | SA_NODEFER };
	struct sigaction stop = { .sa_handler = on_stop, .sa_flags = SA_RESTART };

	make_sequence(&way_back.leave, leave);
	make_sequence(&way_back.enter, enter);
	add_mouse();
	way_back.suspended = way_back.redraw = false;
	sigaddset(&quit.sa_mask, SIGTTOU);
	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++)
		sigaddset(&stop.sa_mask, end_signals[i]);
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++) {
		sigaddset(&stop.sa_mask, caught[i]);
		if (way_back.old[i].sa_handler != SIG_IGN)
			sigaction(caught[i], caught[i] == SIGQUIT ? &quit : &stop, NULL);
	}
}

/* ---- looks ---- */

static chtype styles[STYLE_LABEL + 1];

/* Never by colour alone: the mark, the brackets, reverse and bold remain.  Pairs that people who
 * do not see red or green tell apart. */
static void choose_styles(FILE *out)
{
	static const chtype monochrome[] = {
		[STYLE_STRONG] = A_BOLD,
		[STYLE_HEADING] = A_STANDOUT,
		[STYLE_SORTED] = A_STANDOUT | A_BOLD,
		[STYLE_SELECTED] = A_STANDOUT,
		[STYLE_FILTER] = A_BOLD,
		[STYLE_LABEL] = A_STANDOUT,
	};
	static const struct {
		short text, ground;
	} pairs[] = {
		[STYLE_HEADING] = { COLOR_BLACK, COLOR_CYAN },
		[STYLE_SORTED] = { COLOR_BLACK, COLOR_YELLOW },
		[STYLE_SELECTED] = { COLOR_BLACK, COLOR_WHITE },
		[STYLE_FILTER] = { COLOR_YELLOW, -1 },
		[STYLE_GRAPH] = { COLOR_CYAN, -1 },
		[STYLE_LABEL] = { COLOR_BLACK, COLOR_CYAN },
	};

	memcpy(styles, monochrome, sizeof(styles));
	if (!terminal_colours(out) || !has_colors() || start_color() || use_default_colors())
		return;
	for (short i = 0; i < (short)ARRAY_SIZE(pairs); i++) {
		if (!pairs[i].text && !pairs[i].ground)
			continue;
		init_pair(i, pairs[i].text, pairs[i].ground);
		styles[i] = COLOR_PAIR(i) | (styles[i] & A_BOLD);
	}
}

void screen_hold_stops(sigset_t *before)
{
	sigset_t stops;

	sigemptyset(&stops);
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
		sigaddset(&stops, caught[i]);
	sigprocmask(SIG_BLOCK, &stops, before);
}

/* A vt100's description, for machines without terminfo: every terminal of today supports it.  Made
 * by output/CMakeLists.txt; empty if the build could not make it. */
extern const char terminfo_vt100[];

/* While Ctrl-Z has a handler: without one, ncurses handles it, and drops keys pressed during a
 * drawing, instead of keeping them for later.  It checks this once, in newterm(). */
static SCREEN *open_terminal(FILE *out, FILE *in)
{
	const struct sigaction stop = { .sa_handler = on_stop };
	struct sigaction before;
	sigset_t mask;
	SCREEN *terminal;

	screen_hold_stops(&mask);
	sigaction(SIGTSTP, &stop, &before);
	terminal = newterm(NULL, out, in);
	if (!terminal && terminfo_vt100[0]) {
		setenv("TERMINFO", terminfo_vt100, 1);
		terminal = newterm("vt100", out, in);
	}
	sigaction(SIGTSTP, &before, NULL);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	return terminal;
}

const char *screen_missing(void)
{
	const char *type = getenv("TERM");

	if (!isatty(STDOUT_FILENO))
		return "standard output is not a terminal";
	if (!isatty(STDIN_FILENO))
		return "standard input is not a terminal";
	if (!type || !type[0])
		return "TERM is not set";
	if (terminal_is_others(STDIN_FILENO) || terminal_is_others(STDOUT_FILENO))
		return "in the background";
	return strcmp(type, "dumb") == 0 ? "TERM is dumb" : NULL;
}

int screen_take_terminal(struct screen *s, struct error *err)
{
	way_back.in = fileno(s->in);
	way_back.out = fileno(s->renderer.stream);
	/* Since screen_missing() some time has passed. */
	if (terminal_is_others(way_back.in) || terminal_is_others(way_back.out)) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTTY,
			  "the full screen cannot begin in the background");
		error_hint(err, "bring it to the foreground, or use %s", s->view->instead);
		return -ENOTTY;
	}
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
		sigaction(caught[i], NULL, &way_back.old[i]);
	tcgetattr(way_back.in, &way_back.modes);
	/* Names are UTF-8 in any locale, like in the other outputs. */
	setlocale(LC_CTYPE, "C.UTF-8");
	s->terminal = open_terminal(s->renderer.stream, s->in);
	if (!s->terminal) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTTY, "unknown terminal type (TERM=%.40s)",
			  getenv("TERM") ? getenv("TERM") : "");
		error_hint(err, "set TERM, or use %s", s->view->instead);
		return -ENOTTY;
	}
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	choose_styles(s->renderer.stream);
	tcgetattr(way_back.in, &way_back.own);
	catch_signals();
	return 0;
}

void screen_give_terminal(struct screen *s)
{
	sigset_t before;

	if (!s->terminal)
		return;
	/* Then SIGTTOU does not stop it if the job is in the background by now. */
	screen_hold_stops(&before);
	if (!way_back.suspended) {
		curs_set(1);
		endwin();
		/* endwin() does so through the output, which may be /dev/null by now
		 * (cmd/engine/guard.h). */
		tcsetattr(way_back.in, TCSANOW, &way_back.modes);
	}
	for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
		sigaction(caught[i], &way_back.old[i], NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	delscreen(s->terminal);
	s->terminal = NULL;
}

void screen_resized(struct screen *s)
{
	struct winsize size;

	if (s->terminal && ioctl(fileno(s->in), TIOCGWINSZ, &size) == 0)
		resizeterm(size.ws_row, size.ws_col);
	screen_draw(s);
}

size_t screen_width(void)
{
	return (size_t)COLS;
}

bool screen_may_draw(void)
{
	if (way_back.suspended || terminal_is_others(way_back.out))
		return false;
	if (way_back.redraw)
		clearok(curscr, TRUE);
	way_back.redraw = false;
	return true;
}

bool screen_hung_up(const struct screen *s)
{
	struct pollfd fd = { fileno(s->in), POLLIN, 0 };
	int waiting = 0;

	if (poll(&fd, 1, 0) <= 0)
		return false;
	return (fd.revents & (POLLHUP | POLLERR)) ||
	       (ioctl(fd.fd, FIONREAD, &waiting) == 0 && waiting == 0);
}

/* How many bytes of @text fit into @room columns. */
static int bytes_of(const char *text, size_t room)
{
	char unit[ESCAPE_UNIT_SIZE];
	const char *end = text;

	while (*end) {
		size_t len = data_next(end, false, unit), width = unit_width(unit);

		if (width > room)
			break;
		room -= width;
		end += len;
	}
	return (int)(end - text);
}

int screen_put_cut(int line, int column, enum screen_style style, const char *text, int room)
{
	int bytes;

	if (line >= LINES || room <= 0)
		return column;
	bytes = bytes_of(text, (size_t)room);
	attrset(styles[style]);
	mvaddnstr(line, column, text, bytes);
	attrset(A_NORMAL);
	return getcurx(stdscr) > column || !bytes ? getcurx(stdscr) : COLS;
}

int screen_put(int line, int column, enum screen_style style, const char *text)
{
	/* The last cell of the last line would scroll. */
	return screen_put_cut(line, column, style, text, COLS - column - (line == LINES - 1));
}

void screen_fill(int line, enum screen_style style)
{
	if (line < LINES)
		mvhline(line, 0, ' ' | styles[style], COLS);
}
