#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""iotrace export --stuck: what hangs, answered without starting a program. Second witness: `iotrace stuck`, while it
can be started."""
import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

import iotest
from iotest import MIB, LiveTest, iotrace, main, mounted, patience, run, wait_until
from test_breakdown_by import Cgroup
from test_export import Export
from test_stuck import StuckTest, hung_disk

ASK = 'while read -r line; do echo "$line"; done < "{}"; echo end\n'
NOBODY = 65534
CAP_DAC_READ_SEARCH, CAP_BPF = 1 << 2, 1 << 39
SHELL = shutil.which("sh")


class Resident(Export):
    """iotrace export --stuck, with its pipe and socket in a directory of its own."""

    def __init__(self, *options):
        super().__init__("stuck", options=options)
        self.pipe = os.path.join(self.folder, "run", "stuck")
        self.argv[2:2] = ["--stuck", self.pipe]

    def children(self):
        return [int(pid) for pid in iotest.read_text(f"/proc/{self.process.pid}/task/{self.process.pid}/children").split()]

    def server(self):
        """The process that answers."""
        (pid,) = [pid for pid in self.children() if iotest.read_text(f"/proc/{pid}/comm") == "iotrace-stuck\n"]
        return pid

    def ask_socket(self):
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(self.pipe + ".sock")  # waits for room; with a timeout it would not
            one.settimeout(patience(20))
            found = b""
            while data := one.recv(65536):
                found += data
        return found.decode()

    def ask_pipe(self):
        done = subprocess.run([SHELL], input=ASK.format(self.pipe), stdout=subprocess.PIPE, text=True,
                              timeout=patience(20), check=True, env={})
        return done.stdout.removesuffix("end\n")


def of_disk(text, disk):
    """Lines about a disk, without times and its own thread (before 5.14). The shell's read takes the blanks around."""
    return [re.sub(r" +", " ", re.sub(r"\d+\.\d\d", "T", line.strip())) for line in text.splitlines()
            if re.search(rf"\b{disk.name}\b", line) and f": {disk.name}[" not in line]


class TestAnswers(StuckTest):
    def test_shell(self):
        """A shell that was started before, and builtins only."""
        with Resident() as resident, hung_disk() as disk, \
                subprocess.Popen([SHELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PATH": "/none"}) as shell:
            process, begun = self.readers(disk, 3)
            time.sleep(max(0, (min(begun) + 1.2e9 - time.clock_gettime_ns(time.CLOCK_MONOTONIC)) / 1e9))
            self.eventually(disk, lambda rows: sum(row["threads"] for row in rows["threads"]) == 3)
            wanted = of_disk(iotrace("stuck").out, disk)
            self.assertEqual(len(wanted), 3 + 1 + 1, wanted)
            self.assertEqual(len([line for line in wanted if f"reader[{process.pid}]" in line]), 4, wanted)
            for _ in range(3):
                shell.stdin.write(ASK.format(resident.pipe))
                shell.stdin.flush()
                lines = []
                while (line := shell.stdout.readline()) != "end\n":
                    self.assertTrue(line, "the shell has ended")
                    lines.append(line)
                self.assertEqual(of_disk("".join(lines), disk), wanted)
            self.assertEqual(of_disk(resident.ask_socket(), disk), wanted)
            shell.stdin.close()
            shell.wait(patience(20))
            self.assertEqual(resident.stop(), (0, ""))

    def test_without_a_fault(self):
        """Everything is in memory, and nothing is added to it."""
        with Resident() as resident, hung_disk() as disk:
            self.readers(disk, 100)
            pid = resident.server()

            def memory():
                fields = iotest.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
                status = dict(line.split(":\t") for line in iotest.read_text(f"/proc/{pid}/status").splitlines())
                return fields[7], fields[9], status["VmRSS"], len(os.listdir(f"/proc/{pid}/fd"))

            resident.ask_socket()
            before = memory()
            for _ in range(20):
                resident.ask_socket()
                time.sleep(0.11)  # older answers are not given again
            resident.ask_pipe()
            self.assertTrue(wait_until(lambda: memory()[3] == before[3], patience(10)))
            self.assertEqual(memory(), before)
            locked = re.search(r"VmLck:\s+(\d+)", iotest.read_text(f"/proc/{pid}/status"))[1]
            self.assertGreater(int(locked), 16 << 10)

    def test_opens_nothing(self):
        """The thread that answers opens nothing but the pipe: another one reads what has names."""
        if not shutil.which("strace"):
            self.skipTest("no strace")
        with Resident() as resident, hung_disk() as disk, tempfile.TemporaryDirectory() as folder:
            self.readers(disk, 3)
            resident.ask_socket()
            pid, path = resident.server(), os.path.join(folder, "calls")
            self.assertEqual(len(os.listdir(f"/proc/{pid}/task")), 2)
            with subprocess.Popen(["strace", "-p", str(pid), "-o", path, "-e", "trace=%file"], stderr=subprocess.PIPE,
                                  text=True) as strace:
                if not wait_until(lambda: "TracerPid:\t0\n" not in iotest.read_text(f"/proc/{pid}/status")
                                  or strace.poll() is not None, 10) or strace.poll() is not None:
                    strace.kill()
                    self.skipTest(f"strace: {strace.communicate()[1]}")
                for _ in range(3):
                    time.sleep(0.11)  # older answers are not given again
                    self.assertTrue(of_disk(resident.ask_socket(), disk))
                    self.assertTrue(resident.ask_pipe())
                strace.send_signal(signal.SIGINT)
                strace.wait(patience(20))
            calls = [line for line in iotest.read_text(path).splitlines() if "(" in line]
            self.assertTrue(any('openat(' in call for call in calls), calls)
            for call in calls:  # a number: below /proc/self/fd
                self.assertRegex(call, r'^(openat|renameat2?|mknodat)\(\d+, "(stuck(\.next)?|\d+)", |newfstatat\(\d+, "", ')

    def test_names_on_a_disk_that_hangs(self):
        """A container's name is in a file there: the answer comes without, and has it when the disk answers again."""
        shell = ('mount -t tmpfs none /var/log; mkdir /var/log/containers; mount --bind "$0" /var/log/containers; '
                 'exec "$@"')
        with iotest.Served("fuse") as server, Cgroup(f"docker-{os.getpid():064x}.scope") as group, hung_disk() as disk:
            resident = Resident()
            resident.argv[:0] = ["unshare", "-m", "--propagation", "private", SHELL, "-ec", shell,
                                 os.path.dirname(server.path)]
            with resident:
                server.hold("OPENDIR")
                try:
                    reader = subprocess.Popen([SHELL, "-c", 'echo $$ >"$0" && exec dd "if=$1" of=/dev/null count=1 iflag=direct',
                                               group.procs, disk.path], stderr=subprocess.DEVNULL)
                    disk.processes.callback(reader.wait, patience(20))

                    def row():
                        return [line for line in of_disk(resident.ask_socket(), disk) if f" dd[{reader.pid}] " in line]

                    self.assertTrue(wait_until(lambda: len(row()) == 2, patience(20), 0.2))
                    server.asked()
                    for _ in range(3):
                        (request, _) = row()
                        self.assertIn(" cgroup:? ", request)
                        self.assertTrue(resident.ask_pipe())
                        time.sleep(0.11)
                    server.answer()
                    self.assertTrue(wait_until(lambda: "cgroup:?" not in row()[0], patience(20), 0.2), row())
                finally:
                    server.answer()
                self.assertEqual(resident.stop(), (0, ""))

    def test_own_disk(self):
        """The file system that iotrace itself is on hangs."""
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(iotest.Served("fuse"))
            os.truncate(server.path, 32 * MIB)
            disk = stack.enter_context(iotest.NewLoopDisk(backing=server.path, scheduler="none"))
            directory = stack.enter_context(mounted(disk.path))
            binary, file = shutil.copy(iotest.IOTRACE, directory), os.path.join(directory, "file")
            iotest.write_text(file, "x" * 4096)
            run("sync", "-f", directory)
            resident = Resident()
            resident.argv[0] = binary
            with resident:
                iotest.write_text("/proc/sys/vm/drop_caches", "3")
                server.hold()
                try:
                    reader = subprocess.Popen(["dd", f"if={file}", "of=/dev/null", "iflag=direct"],
                                              stderr=subprocess.DEVNULL)
                    self.assertTrue(wait_until(lambda: len(of_disk(resident.ask_pipe(), disk)) == 3, patience(20)))
                    (request, whole, thread) = of_disk(resident.ask_pipe(), disk)
                    self.assertIn(f" dd[{reader.pid}] ", request)
                    self.assertTrue(request.endswith(file), request)
                    self.assertTrue(whole.startswith(f"{disk.name} 1 0 0 0 "), whole)
                    self.assertIn(f"dd[{reader.pid}] waits for request of {disk.name}, {file}", thread)
                finally:
                    server.answer()
                    reader.wait(patience(20))
                self.assertEqual(resident.stop(), (0, ""))

    # In a root of its own: the resident, and then what is asked.
    ROOT = """
mount -t proc none "$0/proc"; mount -t sysfs none "$0/sys"; mount -t tmpfs none "$0/run"; mount --bind /dev "$0/dev"
exec chroot "$0" /busybox sh
"""

    def test_root(self):
        """The root file system hangs: no program starts, as its time of access cannot be written; the shell still gets an answer."""
        busybox = shutil.which("busybox")
        if not busybox or b"dynamic" in subprocess.run(["file", "-L", busybox], check=False, stdout=subprocess.PIPE).stdout:
            self.skipTest("no static busybox")
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(iotest.Served("fuse"))
            os.truncate(server.path, 64 * MIB)
            disk = stack.enter_context(iotest.NewLoopDisk(backing=server.path, scheduler="none"))
            root = stack.enter_context(mounted(disk.path))
            for program in busybox, iotest.IOTRACE:
                shutil.copy(program, root)
            for folder in "proc", "sys", "run", "dev":
                os.mkdir(f"{root}/{folder}")
            run("sync", "-f", root)
            shell = stack.enter_context(subprocess.Popen(
                ["unshare", "-m", "--propagation", "private", SHELL, "-ec", self.ROOT, root], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, env={}))

            def ask(words, end="end"):
                """What the shell prints until `end`."""
                shell.stdin.write(f"{words}\necho {end}\n")
                shell.stdin.flush()
                lines = []
                while (line := shell.stdout.readline()) != f"{end}\n":
                    self.assertTrue(line, "the shell has ended")
                    lines.append(line)
                return "".join(lines)

            try:
                ask("/iotrace export --stuck /run/stuck --listen unix:/run/socket stuck 2>/run/said & exporter=$!\n"
                    "until [ -S /run/socket ]; do :; done")
                answer = 'while read -r line; do echo "$line"; done </run/stuck'
                self.assertIn("request", ask(answer))
                server.hold("WRITE")
                os.utime(f"{root}/busybox", (0, 0))
                syncer = subprocess.Popen(["sync", "-f", root])
                self.eventually(disk, lambda rows: any(row["comm"].startswith("jbd2/") and row["where"] == "request"
                                                       for row in rows["threads"]))
                pid = int(ask("/busybox true & echo $!"))
                self.assertTrue(wait_until(lambda: iotest.state_of(pid) == "D", 20))
                time.sleep(1.1)  # what is younger is not shown
                self.assertEqual(iotest.state_of(pid), "D")
                found = ask(answer)
                self.assertRegex(found, rf"\[{pid}\] waits for journal\b")
                requests = [line for line in of_disk(found, disk) if line.startswith(f"{disk.name} T T device W ")]
                self.assertEqual(len([line for line in requests if " jbd2/" in line]), 1, found)
            finally:
                server.answer()
            syncer.wait(patience(20))
            ask("kill $exporter; wait $exporter")
            shell.stdin.close()
            shell.wait(patience(20))

    def test_log(self):
        """--stuck-log: a line when a disk begins to hang, and another one when it does so again."""
        try:
            log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            self.skipTest(f"the kernel's log: {error}")
        self.addCleanup(os.close, log)
        os.lseek(log, 0, os.SEEK_END)
        lines = []

        def read():
            with contextlib.suppress(BlockingIOError):
                while True:
                    lines.append(os.read(log, 8192).decode().splitlines()[0].partition(";")[2])
            return [line for line in lines if re.search(rf"\b{disk.name}\b", line) and "iotrace:" in line]

        with Resident("--stuck-log", "1") as resident, iotest.Served("fuse") as server, \
                iotest.NewLoopDisk(backing=server.path, scheduler="none") as disk, contextlib.ExitStack() as disk.processes:
            for times in 1, 2:
                iotest.write_text("/proc/sys/vm/drop_caches", "1")  # what the server has answered before
                server.hold()
                try:
                    self.readers(disk, 2)
                    self.assertTrue(wait_until(lambda: len(read()) == times, patience(20)), lines)
                    time.sleep(2.5)  # still the same
                    self.assertEqual(len(read()), times, lines)
                    self.assertRegex(read()[-1], rf"iotrace: 2 requests in flight on {disk.name}, 0 queued, the oldest for \d+ s")
                finally:
                    server.answer()
                self.assertTrue(wait_until(lambda: self.in_flight(disk) == 0, patience(20)))
                time.sleep(2.5)  # it looks once a second
            self.assertEqual(resident.stop(), (0, ""))


class TestHostile(LiveTest):
    def test_who_may_ask(self):
        with Resident() as resident:
            for path in resident.pipe, resident.pipe + ".sock":
                st = os.stat(path)
                self.assertEqual((stat.S_IMODE(st.st_mode), st.st_uid), (0o600, 0))
            self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(resident.pipe)).st_mode), 0o700)
            # Even where the permissions have been widened.
            for path in resident.folder, os.path.dirname(resident.pipe):
                os.chmod(path, 0o755)
            os.chmod(resident.pipe + ".sock", 0o666)
            child = os.fork()
            if not child:
                try:
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                    ok = resident.ask_socket() == ""
                except ConnectionError:
                    ok = True
                os._exit(0 if ok else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(resident.ask_socket())

    def test_privileges(self):
        """docs/SECURITY.md: what names control groups, and where each bpf() call needs it CAP_BPF."""
        with Resident() as resident:
            samples = resident.scrape()
            self.assertTrue(samples)
            for pid, kept in ((resident.server(), CAP_DAC_READ_SEARCH), (resident.process.pid, 0)):
                status = dict(line.split(":\t") for line in iotest.read_text(f"/proc/{pid}/status").splitlines())
                for name in "CapPrm", "CapEff", "CapBnd":
                    self.assertEqual(int(status[name], 16) & ~CAP_BPF, kept, (pid, name))
                self.assertEqual([int(status[name], 16) for name in ("CapInh", "CapAmb")], [0, 0])
                self.assertEqual(status["NoNewPrivs"], "1")

    def test_readers_that_do_not_read(self):
        """Clients that do not read their answers do not block other clients, and cost no memory."""
        with Resident() as resident, contextlib.ExitStack() as stack:
            pid = resident.server()
            before = iotest.read_text(f"/proc/{pid}/status")
            for _ in range(300):
                one = stack.enter_context(socket.socket(socket.AF_UNIX))
                one.connect(resident.pipe + ".sock")
            idle = os.open(resident.pipe, os.O_RDONLY)
            stack.callback(os.close, idle)
            for _ in range(3):
                self.assertIn("request", resident.ask_socket())
                self.assertIn("request", resident.ask_pipe())
                self.assertIn(("iotrace_collector_up", (("collector", "stuck"),)), resident.scrape())
            self.assertEqual(re.search(r"VmRSS:.*", iotest.read_text(f"/proc/{pid}/status"))[0],
                             re.search(r"VmRSS:.*", before)[0])
            self.assertEqual(resident.stop(), (0, ""))

    def test_killed(self):
        """Nothing is left, nor does the process stay."""
        with Resident() as resident:
            pid = resident.server()
            resident.process.send_signal(signal.SIGKILL)
            resident.process.communicate()
            self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{pid}"), patience(20)))
            self.assertFalse(os.path.exists(os.path.dirname(resident.pipe)))

    def test_server_killed(self):
        """The exporter ends with one line, so that systemd starts it again; nothing is left."""
        with Resident() as resident:
            os.kill(resident.server(), signal.SIGKILL)
            _, err = resident.process.communicate(timeout=patience(20))
            self.assertEqual(resident.process.returncode, 1)
            self.assertRegex(err, r"\Aiotrace: the process iotrace-stuck was killed \([^\n]+\)\n\Z")
            self.assertFalse(os.path.exists(os.path.dirname(resident.pipe)))

    def test_two(self):
        """Another one with the same path is refused, and the first goes on."""
        with Resident() as resident:
            other = iotrace("export", "--stuck", resident.pipe, "--listen", f"unix:{resident.folder}/other", "stuck")
            self.assert_one_line(other, 1, "in use")
            self.assertIn("request", resident.ask_pipe())
            self.assertIn("request", resident.ask_socket())

    def test_replaced(self):
        """What others put in the place of the pipe is left alone; a pipe that was removed is made again."""
        with Resident() as resident, tempfile.NamedTemporaryFile() as file, contextlib.ExitStack() as stack:
            def asked():
                for _ in range(3):  # each answer is followed by a look at the pipe, and written by the next
                    resident.ask_socket()

            other = os.path.join(resident.folder, "other")
            os.symlink(file.name, other)
            os.replace(other, resident.pipe)
            asked()
            self.assertEqual((os.readlink(resident.pipe), file.read()), (file.name, b""))
            os.mkfifo(other)
            os.chown(other, NOBODY, NOBODY)
            reader = os.open(other, os.O_RDONLY | os.O_NONBLOCK)
            stack.callback(os.close, reader)
            os.replace(other, resident.pipe)
            asked()
            self.assertEqual((os.stat(resident.pipe).st_uid, os.read(reader, 1)), (NOBODY, b""))
            os.unlink(resident.pipe)
            asked()
            self.assertIn("request", resident.ask_pipe())
            self.assertEqual(resident.stop(), (0, ""))

    def test_foreign_file(self):
        """What is there and is none of its own is left alone."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            with open(path, "w", encoding="ascii") as file:
                file.write("mine")
            result = iotrace("export", "--stuck", path, "--listen", f"unix:{folder}/socket", "stuck")
            self.assert_one_line(result, 1, path)
            self.assertEqual(iotest.read_text(path), "mine")
            self.assertEqual(os.listdir(folder), ["file"])


if __name__ == "__main__":
    main()
