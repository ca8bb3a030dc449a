#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Completion scripts, by the shells themselves: what --help has is offered, and nothing else."""
import glob
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from packtest import IOTRACE, main, is_optional, options, run, subcommands

COMPLETION, TEMPLATES = os.environ["COMPLETION"], os.environ["COMPLETIONS"]
SUBCOMMANDS = [name for name, _ in subcommands()]


def disks():
    with open("/proc/diskstats", encoding="ascii") as file:
        return [line.split()[2] for line in file]


def script(shell, directory):
    path = f"{directory}/iotrace.{shell}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(run(COMPLETION, shell, f"{TEMPLATES}/iotrace.{shell}"))
    return path


class Shell:
    """Tests that every shell must pass; complete(words) is what is offered for the last one."""

    shell = None

    def setUp(self):
        if not shutil.which(self.shell):
            self.skipTest(f"no {self.shell}")
        directory = tempfile.mkdtemp(prefix="iotrace-test-")
        self.addCleanup(shutil.rmtree, directory)
        self.directory = directory
        self.script = script(self.shell, directory)

    def complete(self, *words):
        raise NotImplementedError

    def offered(self, *words):
        return sorted(set(self.complete("iotrace", *words)))

    def test_syntax(self):
        run(self.shell, "-n", self.script)

    def test_subcommands(self):
        self.assertEqual(self.offered(""), sorted(SUBCOMMANDS))
        self.assertEqual(self.offered("vi"), ["virtio"])

    def test_no_subcommand(self):
        """A subcommand stands first: behind an option it is refused."""
        for words in (["--check", ""], ["--check", "--json", ""]):
            with self.subTest(words=words):
                self.assertEqual(self.offered(*words), [])
        self.assertEqual(self.offered("--check", "--js"), ["--json"])

    def test_main_options(self):
        self.assertEqual(self.offered("--"),
                         sorted(o for o in options() if o.startswith("--")))

    def test_options(self):
        for name in SUBCOMMANDS:
            with self.subTest(name=name):
                self.assertEqual(self.offered(name, "--"),
                                 sorted(o for o in options(name) if o.startswith("--")))

    def test_words(self):
        self.assertEqual(self.offered("top", "-s", ""), ["bytes", "io", "time"])
        self.assertEqual(self.offered("top", "--sort", "b"), ["bytes"])
        self.assertEqual(self.offered("stack", "--iodir", ""), ["r", "rw", "w"])
        self.assertEqual(self.offered("stack", "--order", ""), ["disk", "process"])
        self.assertEqual(self.offered("breakdown", "-T", "ex"), ["ext4"])

    def test_disks(self):
        if not disks():
            self.skipTest("no disk")
        for option in ("-d", "--disk"):
            offered = self.offered("top", option, "")
            self.assertLessEqual(set(disks()), set(offered))
        name = disks()[0]
        self.assertIn(name, self.offered("breakdown", "-T", "blk", "-d", name[:2]))
        self.assertNotIn("bytes", self.offered("top", "-d", ""))
        # -d is debugfs of kvm, and takes nothing
        self.assertFalse(set(self.offered("kvm", "-d", "")) & set(disks()))

    def test_disk_by_path(self):
        self.assertIn("/dev/null", self.offered("top", "-d", "/dev/nul"))

    def test_virtio(self):
        for option, folder in (("-d", "drivers"), ("-n", "devices")):
            path = f"/sys/bus/virtio/{folder}"
            there = os.listdir(path) if os.path.isdir(path) else []
            self.assertEqual(self.offered("virtio", option, ""), sorted(there))

    def test_lists(self):
        keys = ["cgroup", "comm", "container", "dir", "disk", "file", "process", "unit", "user"]
        self.assertEqual(self.offered("top", "--by", ""), keys)
        self.assertEqual(self.offered("top", "--by", "c"), ["cgroup", "comm", "container"])
        self.assertEqual(self.offered("top", "--by", "disk,un"), ["disk,unit"])
        self.assertEqual(self.offered("top", "--by", "disk,unit,"), [f"disk,unit,{key}" for key in keys])

    def test_collectors(self):
        page = run(IOTRACE, "export", "--help").replace("\n", " ")
        names = re.search(r"Collectors: ([a-z, ]+)\.", page)[1].split(", ")
        self.assertGreater(len(names), 5)
        self.assertEqual(self.offered("export", ""), sorted(names))
        self.assertEqual(self.offered("export", "top", "bre"), ["breakdown"])

    def test_recordings(self):
        """What compare compares: files."""
        for name in "before.rec", "after.rec":
            with open(f"{self.directory}/{name}", "w", encoding="utf-8"):
                pass
        self.assertEqual(self.offered("compare", f"{self.directory}/be"), [f"{self.directory}/before.rec"])
        self.assertEqual(self.offered("compare", "x.rec", f"{self.directory}/af"), [f"{self.directory}/after.rec"])

    def test_units(self):
        """Units that have a cgroup; as root, one more."""
        folder = next((root for root in ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")
                       if os.path.exists(f"{root}/cgroup.procs")), None)
        if folder and os.geteuid() == 0:
            made = f"{folder}/iotrace-test-{os.getpid()}.slice"
            os.mkdir(made)
            self.addCleanup(os.rmdir, made)
            self.assertIn(os.path.basename(made), self.offered("stack", "--cgroup", "iotrace-t"))
        units = {os.path.basename(path) for root in ("", "/unified", "/systemd") for below in ("", "/*.slice")
                 for path in glob.glob(f"/sys/fs/cgroup{root}{below}/*.s*")
                 if path.endswith(".slice") != bool(below) and path.endswith((".slice", ".service", ".scope"))}
        self.assertEqual(self.offered("top", "--cgroup", ""), sorted(units))

    def test_guests(self):
        """The names of QEMU's guests."""
        qemu = shutil.copy(os.path.realpath("/bin/sh"), f"{self.directory}/qemu-test")
        started = [subprocess.Popen([qemu, "-c", "echo; read line", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for words in (["-name", "iotrace-test-a"], ["--name", "guest=iotrace-test-b,debug-threads=on"],
                                 ["iotrace-test-c"])]
        for process in started:
            process.stdout.readline()
        try:
            self.assertEqual(self.offered("kvm", "-g", "iotrace-test-"), ["iotrace-test-a", "iotrace-test-b"])
        finally:
            for process in started:
                process.communicate()

    def test_process(self):
        self.assertIn(str(os.getpid()), self.offered("top", "-p", str(os.getpid())[:2]))

    def test_file(self):
        path = f"{self.directory}/some-file"
        with open(path, "w", encoding="ascii"):
            pass
        self.assertEqual(self.offered("stack", "--svg", f"{self.directory}/some"), [path])

    def test_nothing_to_offer(self):
        """A number cannot be guessed, and files are no answer."""
        self.assertEqual(self.offered("top", "-r", ""), [])
        self.assertEqual(self.offered("top", ""), [])

    def test_command(self):
        self.assertIn("sleep", self.offered("top", "--", "slee"))
        self.assertEqual([o for o in self.offered("top", "--", "sleep", "--") if o == "--sort"], [])


class TestBash(Shell, unittest.TestCase):
    shell = "bash"

    def complete(self, *words):
        words = list(words)
        code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _iotrace; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        out = run("bash", "--norc", "--noprofile", "-c", code, "bash", self.script, *words)
        return [line for line in out.splitlines() if line]

    def test_all_options(self):
        """Short ones too."""
        for name in [None, *SUBCOMMANDS]:
            words = [name, "-"] if name else ["-"]
            self.assertEqual(self.offered(*words), sorted(options(name)))

    def test_every_value(self):
        """An option with an argument takes the next word, another one does not."""
        for name in SUBCOMMANDS:
            for option, argument in options(name).items():
                after = self.offered(name, option, "--verb")
                takes = argument and not is_optional(name, option)
                self.assertEqual(after, [] if takes else ["--verbose"], (name, option))

    def test_equals_sign(self):
        self.assertEqual(self.offered("top", "--sort", "=", "b"), ["bytes"])
        self.assertEqual(self.offered("top", "--sort", "="), ["bytes", "io", "time"])

    def test_registered(self):
        out = run("bash", "--norc", "--noprofile", "-c", 'source "$1"; complete -p iotrace', "bash",
                  self.script)
        self.assertIn("-F _iotrace iotrace", out)

    def test_shellcheck(self):
        if not shutil.which("shellcheck"):
            self.skipTest("no shellcheck")
        run("shellcheck", self.script)


class TestFish(Shell, unittest.TestCase):
    shell = "fish"

    def complete(self, *words):
        line = " ".join(words)
        env = dict(os.environ, HOME=self.directory, XDG_CONFIG_HOME=self.directory)
        out = run("fish", "--no-config", "-c", f"source {self.script}; complete -C '{line}'",
                  env=env)
        return [text.split("\t")[0] for text in out.splitlines()]

    def test_all_options(self):
        for name in [None, *SUBCOMMANDS]:
            words = [name, "-"] if name else ["-"]
            self.assertEqual(self.offered(*words), sorted(options(name)))


class TestZsh(unittest.TestCase):
    """Typed into a zsh on a terminal, as completion has no other door there."""

    def setUp(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        self.directory = tempfile.mkdtemp(prefix="iotrace-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        os.rename(script("zsh", self.directory), f"{self.directory}/_iotrace")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = dict(os.environ, HOME=self.directory, TERM="dumb", PS1="")
            os.execvpe("zsh", ["zsh", "-f", "-i"], env)
        self.addCleanup(self.end)
        self.type(f"fpath=({self.directory} $fpath); autoload -Uz compinit; "
                  "compinit -u -D; unsetopt prompt_cr prompt_sp auto_list beep; PS1=; "
                  "print rea''dy\n")
        self.wait_for("ready")

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, pattern, timeout=30):
        text, end = "", time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                text += os.read(self.fd, 65536).decode("utf-8", "replace")
                match = re.search(pattern, text)
                if match:
                    return match
        raise AssertionError(f"{pattern} did not come: {text!r}")

    def completed(self, line):
        """LINE after a Tab: what then stands in the line, printed by the shell itself."""
        self.type(line + "\t\x01print -r -- '<\x05>'\n")
        return self.wait_for(r"\n<(.*)>\r").group(1).rstrip()

    def test_syntax(self):
        run("zsh", "-n", f"{self.directory}/_iotrace")

    def test_completed(self):
        for line, want in (
                ("iotrace vi", "iotrace virtio"),
                ("iotrace --ch", "iotrace --check"),
                ("iotrace --check vi", "iotrace --check vi"),
                ("iotrace --check --js", "iotrace --check --json"),
                ("iotrace top --cgroup-", "iotrace top --cgroup-owner"),
                ("iotrace top -s by", "iotrace top -s bytes"),
                ("iotrace top --sort=by", "iotrace top --sort=bytes"),
                ("iotrace breakdown -T ex", "iotrace breakdown -T ext4"),
                ("iotrace kvm --skip", "iotrace kvm --skip-zero-records"),
                ("iotrace kvm --sort", "iotrace kvm --sort"),
                ("iotrace top -d /dev/nul", "iotrace top -d /dev/null"),
                ("iotrace top -- slee", "iotrace top -- sleep"),
                ("iotrace top --by disk,cont", "iotrace top --by disk,container"),
                ("iotrace export break", "iotrace export breakdown"),
        ):
            with self.subTest(line=line):
                self.assertEqual(self.completed(line), want)

    def test_disk(self):
        names = disks()
        if not names:
            self.skipTest("no disk")
        for name in names:
            rivals = [other for other in names if other != name and other.startswith(name)]
            if not rivals:
                self.assertEqual(self.completed(f"iotrace top -d {name}"), f"iotrace top -d {name}")
        # One letter short, where that is enough.
        name = max(names, key=len)
        if sum(other.startswith(name[:-1]) for other in names) == 1:
            self.assertEqual(self.completed(f"iotrace top -d {name[:-1]}"),
                             f"iotrace top -d {name}")

    def test_every_option(self):
        """Each long option of --help, one letter short."""
        for name in SUBCOMMANDS:
            long = [o for o in options(name) if o.startswith("--")]
            for option in long:
                short = option[:-1]
                if sum(o.startswith(short) for o in long) == 1 and len(short) > 3:
                    with self.subTest(name=name, option=option):
                        got = self.completed(f"iotrace {name} {short}")
                        self.assertEqual(got.rstrip("="), f"iotrace {name} {option}")


class TestTemplates(unittest.TestCase):
    """A mistake in a template fails the build."""

    def test_mistakes(self):
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/template"
            with open(path, "w", encoding="utf-8") as file:
                file.write("# of the script\n#@option@\n")
            for args, said in ((["bash", path], "no such part: option"),
                               (["ksh", path], "no such shell: ksh"),
                               (["bash", f"{directory}/none"], "No such file"),
                               (["bash"], "SHELL TEMPLATE")):
                done = subprocess.run([COMPLETION, *args], check=False, capture_output=True,
                                      text=True)
                self.assertEqual(done.returncode, 1, args)
                self.assertIn(said, done.stderr)

    def test_installed(self):
        """The build has made what the program makes."""
        for shell in ("bash", "zsh", "fish"):
            made = run(COMPLETION, shell, f"{TEMPLATES}/iotrace.{shell}")
            self.assertNotIn("#@", made)
            with open(f"{os.environ['BUILD']}/packaging/completion.{shell}",
                      encoding="utf-8") as file:
                self.assertEqual(file.read(), made)


if __name__ == "__main__":
    main()
