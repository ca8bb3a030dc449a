# SPDX-License-Identifier: GPL-2.0-or-later
"""A terminal whose cells and modes can be read."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from iotest import IOTRACE, Result, cleanup, hidden_ends, read_text, wait_until


class Screen:
    """A subcommand in a terminal of its own."""

    made = 0

    def __init__(self, *args, columns=100, rows=30, term="screen", environment=(),
                 subcommand="kvm"):
        Screen.made += 1
        self.socket = f"iotrace-test-{os.getpid()}-{Screen.made}"
        command = " ".join(["env", f"TERM={term}", *environment, IOTRACE, subcommand, *map(str, args)])
        self.directory = tempfile.mkdtemp(prefix="iotrace-test-")
        self.status_path = os.path.join(self.directory, "status")
        cleanup(self.close)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows,
                  f"{command} 2>{self.directory}/err; echo $? >{self.status_path}; cat")
        self.pane_pid = self.tmux("list-panes", "-F", "#{pane_pid}").strip()

    def tmux(self, *args):
        environment = dict(os.environ, LC_ALL="C.UTF-8")
        environment.pop("TMUX", None)
        return subprocess.run(["tmux", "-L", self.socket, *map(str, args)], check=True,
                              capture_output=True, text=True, env=environment).stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")
        shutil.rmtree(self.directory, ignore_errors=True)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def text(self):
        """The text of the screen, never while it is drawn: output/screen.c hides the cursor then, and at the end
        the cursor is in the last corner, or shown."""
        def take():
            nonlocal text
            cursor, text = self.tmux(
                "display-message", "-p", "#{cursor_flag} #{cursor_x} #{cursor_y} #{pane_width} #{pane_height}",
                ";", "capture-pane", "-p").split("\n", 1)
            shown, *at = map(int, cursor.split())
            return shown or at[:2] == [size - 1 for size in at[2:]]

        text = ""
        if not wait_until(take, 30):
            raise AssertionError(f"the drawing does not end\n{text}")
        return text

    def wait(self, pattern, timeout=30, gone=False):
        """Waits until the screen has the pattern; that screen, not one of later."""
        text = ""

        def is_there():
            nonlocal text
            text = self.text()
            return bool(re.search(pattern, text)) != gone

        if not wait_until(is_there, timeout, 0.1):
            raise AssertionError(f"{'still' if gone else 'no'} {pattern!r} on\n{text}")
        return text

    def wait_gone(self, pattern, timeout=30):
        return self.wait(pattern, timeout, gone=True)

    def alternate(self):
        return self.tmux("list-panes", "-F", "#{alternate_on}").strip() == "1"

    def ended(self):
        """Its exit status."""
        if not wait_until(lambda: os.path.exists(self.status_path) and
                          read_text(self.status_path), 60):
            raise AssertionError(f"does not end\n{self.text()}")
        return int(read_text(self.status_path))

    def errors(self):
        text = read_text(f"{self.directory}/err")
        Result.note_losses("", text)
        return text

    def modes(self):
        """The modes that a program can set: the terminal driver's, and the ones that tmux knows."""
        tty = self.tmux("list-panes", "-F", "#{pane_tty}").strip()
        driver = subprocess.run(["stty", "-F", tty, "-g"], check=True, capture_output=True,
                                text=True).stdout
        return driver, self.tmux("list-panes", "-F", "#{alternate_on} #{cursor_flag} #{keypad_flag} "
                                 "#{keypad_cursor_flag} #{wrap_flag}")

    def iotrace_pid(self):
        children = read_text(f"/proc/{self.pane_pid}/task/{self.pane_pid}/children").split()
        return int(children[0])


class OnScreen(unittest.TestCase):
    """Tests of a subcommand's full screen."""

    SUBCOMMAND = "kvm"

    def setUp(self):
        if not shutil.which("tmux"):
            self.skipTest("no tmux")

    def screen(self, *args, **options):
        screen = Screen(*args, subcommand=self.SUBCOMMAND, **options)
        self.addCleanup(screen.close)
        return screen

    def ends(self, screen, *keys):
        screen.keys(*keys)
        self.assertEqual(screen.ended(), 0)
        self.assertFalse(screen.alternate())
        errors = screen.errors()
        unseen = re.fullmatch(r"iotrace: lost: (\d+) \(no_end\)(?:: .*)?\n", errors)
        if not unseen or int(unseen[1]) > hidden_ends.count(everywhere=True):
            self.assertEqual(errors, "")
