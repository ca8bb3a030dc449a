/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/screen_internal.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

/*
 * SIGQUIT (Ctrl-\) is for a program that hangs: it is not left to the run loop, as the other
 * signals are, nor does its handler call ncurses, which may be at work.  What gives the terminal
 * back is made before; the signal then ends the program, as it does without a handler.
 */
static struct {
	struct termios modes;
	int in, out;
	char text[128];
	size_t len;
	struct sigaction old;
} way_back;

static int keep_character(int c)
{
	if (way_back.len < sizeof(way_back.text))
		way_back.text[way_back.len++] = (char)c;
	return c;
}

static void on_quit(int signo)
{
	ssize_t written = write(way_back.out, way_back.text, way_back.len);

	(void)written;
	tcsetattr(way_back.in, TCSADRAIN, &way_back.modes);
	raise(signo); /* SA_RESETHAND: the end */
}

static void catch_quit(void)
{
	static const char *const capabilities[] = { "sgr0", "rmkx", "cnorm", "rmcup" };
	const struct sigaction action = {
		.sa_handler = on_quit,
		.sa_flags = (int)SA_RESETHAND | SA_NODEFER,
	};

	way_back.len = 0;
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
		const char *text = tigetstr(capabilities[i]);

		if (text && text != (char *)-1)
			tputs(text, 1, keep_character);
	}
	sigaction(SIGQUIT, NULL, &way_back.old);
	if (way_back.old.sa_handler != SIG_IGN)
		sigaction(SIGQUIT, &action, NULL);
}

/* A vt100's description, for machines that have no terminfo: every terminal of today is one.  Made
 * by output/CMakeLists.txt; empty where the build could not. */
extern const char terminfo_vt100[];

static SCREEN *open_terminal(FILE *out, FILE *in)
{
	SCREEN *terminal = newterm(NULL, out, in);

	if (terminal || !terminfo_vt100[0])
		return terminal;
	setenv("TERMINFO", terminfo_vt100, 1);
	return newterm("vt100", out, in);
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
	return strcmp(type, "dumb") == 0 ? "TERM is dumb" : NULL;
}

int screen_take_terminal(struct screen *s, struct error *err)
{
	way_back.in = fileno(s->in);
	way_back.out = fileno(s->renderer.stream);
	tcgetattr(way_back.in, &way_back.modes);
	/* Names are UTF-8 whatever the locale, as in the other outputs. */
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
	catch_quit();
	return 0;
}

void screen_give_terminal(struct screen *s)
{
	if (!s->terminal)
		return;
	curs_set(1);
	endwin();
	sigaction(SIGQUIT, &way_back.old, NULL);
	/* endwin() does so by the output, which may have been given up since (cmd/guard.h). */
	tcsetattr(way_back.in, TCSANOW, &way_back.modes);
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

bool screen_hung_up(const struct screen *s)
{
	struct pollfd fd = { fileno(s->in), POLLIN, 0 };
	int waiting = 0;

	if (poll(&fd, 1, 0) <= 0)
		return false;
	return (fd.revents & (POLLHUP | POLLERR)) ||
	       (ioctl(fd.fd, FIONREAD, &waiting) == 0 && waiting == 0);
}

/* How many bytes of @text have room in @room columns. */
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

int screen_width(const char *text)
{
	char unit[ESCAPE_UNIT_SIZE];
	size_t width = 0;

	while (*text) {
		text += data_next(text, false, unit);
		width += unit_width(unit);
	}
	return (int)width;
}

void screen_put(int line, int column, int attributes, const char *text)
{
	int room = COLS - column;

	if (line >= LINES || room <= 0)
		return;
	attrset((chtype)attributes);
	/* The last cell of the last line would scroll. */
	mvaddnstr(line, column, text, bytes_of(text, (size_t)room - (line == LINES - 1)));
	attrset(A_NORMAL);
}
