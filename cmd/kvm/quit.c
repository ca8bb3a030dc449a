// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/quit.h"

#include <curses.h>
#include <signal.h>
#include <term.h>
#include <unistd.h>

static struct {
	struct termios modes;
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
	ssize_t written = write(STDOUT_FILENO, way_back.text, way_back.len);

	(void)written;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &way_back.modes);
	raise(signo); /* SA_RESETHAND: the end */
}

void quit_catch(const struct termios *modes)
{
	static const char *const capabilities[] = { "sgr0", "rmkx", "cnorm", "rmcup" };
	const struct sigaction action = {
		.sa_handler = on_quit,
		.sa_flags = (int)SA_RESETHAND | SA_NODEFER,
	};

	way_back.modes = *modes;
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

void quit_release(void)
{
	sigaction(SIGQUIT, &way_back.old, NULL);
	/* endwin() does so by standard output, which may have been given up (cmd/guard.h). */
	tcsetattr(STDIN_FILENO, TCSANOW, &way_back.modes);
}
