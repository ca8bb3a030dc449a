#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/kubernetes: what the manifests allow a pod is enough, and containers have the names that Kubernetes gives
them. Without Kubernetes: the root, namespaces, mounts and capabilities are put together by hand, as containerd does."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import iotest
import manifests
from iotest import PYTHON, LiveTest, Load, LoopDisk, Throttle, iotrace, main, run_loads, wait_until, write_text
from test_export import parse, value
from test_export_unit import collectors_up

BLOCK = 4096
LOGS, CGROUPS, RECORDINGS = "/var/log/containers", "/sys/fs/cgroup", "/var/log/iotrace"
ID = "3f4a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef012345"

# In a mount namespace, $0 is the root, $1 the type and options of the node's hierarchy of cgroups. Each further line of
# $2 is "ro|rw SOURCE TARGET". What else is there, and what is read-only, is as the runtime's default.
MOUNTS = r"""
root=$0 kind=$1 mounts=$2
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
if [ "$kind" = cgroup2 ]; then
	mount -t cgroup2 -o ro cgroup "$root/sys/fs/cgroup"
else
	mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
	mkdir "$root/sys/fs/cgroup/blkio"
	mount -t cgroup -o ro,blkio cgroup "$root/sys/fs/cgroup/blkio"
fi
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
echo "$mounts" | while read -r how source target; do
	mount --rbind "$source" "$root$target"
	if [ "$how" = ro ]; then mount -o remount,bind,ro "$root$target"; fi
done
mount -o remount,bind,ro "$root"
exec "$@"
"""

# The last step before iotrace: the pod's network, name and root, and of root's capabilities only the manifest's.
LAUNCHER = """
import ctypes, fcntl, json, os, socket, struct, sys
root, capabilities, argv = json.loads(sys.argv[1])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sh", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
socket.sethostname("iotrace-export-x7k2p")
os.chroot(root)
os.chdir("/")
prctl = ctypes.CDLL(None).prctl
for number in range(64):
    if number not in capabilities and prctl(23, number, 0, 0, 0) >= 0 and prctl(24, number, 0, 0, 0):  # PR_CAPBSET_READ, _DROP
        sys.exit(f"capability {number} was not dropped")
prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
os.execve(argv[0], argv, {"PATH": "/usr/sbin"})
"""

NUMBERS = {"DAC_READ_SEARCH": 2, "SYS_RESOURCE": 24, "PERFMON": 38, "BPF": 39}


class Group:
    """A container's cgroup in a pod's, as the kubelet makes them with the driver cgroupfs."""

    def __init__(self, root, number):
        self.folders = [root]
        pod = f"pod0f4e6a52-1111-2222-3333-{os.getpid():08x}{number:04x}"
        self.id = f"{ID}{os.getpid() & 0xffffff:06x}{number:02x}"
        for name in (f"iotrace-test-{os.getpid()}", "kubepods", "burstable", pod, self.id):
            folder = f"{self.folders[-1]}/{name}"
            os.makedirs(folder, exist_ok=True)
            if os.path.exists(f"{self.folders[-1]}/cgroup.subtree_control"):
                write_text(f"{self.folders[-1]}/cgroup.subtree_control", "+io")
            self.folders.append(folder)

    @property
    def procs(self):
        return f"{self.folders[-1]}/cgroup.procs"

    def removed(self):
        """Each that is empty; the last of several groups removes what they share."""
        for folder in reversed(self.folders[1:]):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                break
        return not os.path.exists(self.folders[-1])


class Pod:
    """The container of a DaemonSet, with the node's files below FOLDER."""

    def __init__(self, name, folder, group, without=None):
        self.spec = manifests.pod_of(name)
        self.container, = self.spec["containers"]
        self.group, self.folder, self.without = group, folder, without
        self.root = tempfile.mkdtemp(prefix=f"{name}-", dir=folder)
        self.process = None

    def mounts(self):
        """Lines for MOUNTS. The node's files are the test's, its cgroups the machine's."""
        paths = {volume["name"]: volume["hostPath"]["path"] for volume in self.spec["volumes"]}
        for mount in self.container["volumeMounts"]:
            path = paths[mount["name"]]
            source = self.hierarchy() if path == CGROUPS else f"{self.folder}/node{path}"
            if mount["name"] != self.without:
                os.makedirs(self.root + mount["mountPath"])
                yield f"{'ro' if mount.get('readOnly') else 'rw'} {source} {mount['mountPath']}"

    def hierarchy(self):
        """/sys/fs/cgroup, if that is where this machine has the hierarchy that counts."""
        root = self.group.folders[0]
        return CGROUPS if root.startswith(CGROUPS) else root

    def __enter__(self):
        for name in ("proc", "sys", "usr/sbin"):
            os.makedirs(f"{self.root}/{name}")
        shutil.copy(iotest.IOTRACE, f"{self.root}/usr/sbin/iotrace")
        os.chmod(f"{self.root}/usr/sbin/iotrace", 0o755)
        mounts = "\n".join(self.mounts())
        context = self.container["securityContext"]
        assert (context["runAsUser"], context["capabilities"]["drop"], self.spec["hostPID"]) == (0, ["ALL"], True)
        capabilities = [NUMBERS[one] for one in context["capabilities"]["add"]]
        if os.uname().release.startswith("5.10."):
            capabilities.append(NUMBERS["SYS_RESOURCE"])  # as the manifest says
        kind = "cgroup2" if os.path.exists(f"{self.group.folders[0]}/cgroup.controllers") else "cgroup"
        what = json.dumps([self.root, capabilities, ["/usr/sbin/iotrace", *self.container["args"]]])
        into = f'echo $$ > "{self.group.procs}" && exec unshare --mount --cgroup --net --uts sh -ec "$@"'
        self.process = subprocess.Popen(
            ["sh", "-ec", into, "sh", MOUNTS, self.root, kind, mounts, PYTHON, "-c", LAUNCHER, what], cwd="/", text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return self

    def get(self, path):
        """(status, text) over HTTP, in the pod's network."""
        script = f"""
import urllib.error, urllib.request
try:
    with urllib.request.urlopen("http://127.0.0.1:9435{path}", timeout=30) as answer:
        print(answer.status)
        print(answer.read().decode(), end="")
except OSError as error:
    print(0)
    print(error)
"""
        done = subprocess.run(["nsenter", f"--net=/proc/{self.process.pid}/ns/net", PYTHON, "-c", script], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=120)
        status, _, text = done.stdout.partition("\n")
        return int(status), text

    def scrape(self):
        time.sleep(0.15)  # the last drain is older than what is taken for fresh
        status, text = self.get("/metrics")
        assert status == 200, text
        return parse(text)

    def is_ready(self):
        """Do its probes succeed?"""
        if self.process.poll() is not None:
            return True
        return all(self.get(self.container[probe]["httpGet"]["path"])[0] == 200
                   for probe in ("livenessProbe", "readinessProbe"))

    def stop(self):
        """(status, what it said on standard error)"""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def has_namespaces():
    return all(map(shutil.which, ("unshare", "nsenter"))) and not subprocess.run(
        ["unshare", "--mount", "--cgroup", "--net", "--uts", "true"], check=False, capture_output=True).returncode


class TestPod(LiveTest):
    """Three containers: 2 x 150 reads and 40 writes in one, 70 reads in another, 23 writes in one that is made later;
    and not in any, 31 reads."""

    WANTED = {("shop/web-0/nginx", "read"): 300, ("shop/web-0/nginx", "write"): 40, ("shop/db-1/postgres", "read"): 70,
              ("ci/job/build", "write"): 23}

    def setUp(self):
        if not has_namespaces():
            self.skipTest("no unshare or nsenter, or not all namespaces")
        v1 = Throttle._mount("cgroup", "blkio")  # pylint: disable=protected-access
        self.cgroups = v1 or Throttle._mount("cgroup2", None)  # pylint: disable=protected-access
        if not self.cgroups:
            self.skipTest("no cgroups")
        self.folder = tempfile.mkdtemp(prefix="iotrace-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for path in LOGS, RECORDINGS:
            os.makedirs(f"{self.folder}/node{path}")

    def group(self, number, name=None):
        """A cgroup, and where the kubelet tells whose container it is: NAMESPACE/POD/CONTAINER."""
        group = Group(self.cgroups, number)
        self.addCleanup(wait_until, group.removed, 5)
        if name:
            namespace, pod, container = name.split("/")
            os.symlink("/var/log/pods/not-mounted/0.log",
                       f"{self.folder}/node{LOGS}/{pod}_{namespace}_{container}-{group.id}.log")
        return group

    def run_all(self, disk, web, database):
        def load(op, count, name, group):
            return Load(op, count, BLOCK, disk.path, name=name, options=["-r"], group=group)
        run_loads(load("read", 150, "nginx", web), load("read", 150, "nginx", web), load("write", 40, "logger", web),
                  load("read", 70, "postgres", database), load("read", 31, "no-pod", None))
        run_loads(load("write", 23, "make", self.group(4, "ci/job/build")))

    def assert_privileges(self, pod):
        """What it has left, once it counts: nothing but what the kernel wants for each call."""
        status = iotest.read_text(f"/proc/{pod.process.pid}/status")
        allowed = {"CAP_BPF": 1 << NUMBERS["BPF"], "CAP_DAC_READ_SEARCH": 1 << NUMBERS["DAC_READ_SEARCH"]}
        self.assertEqual(int(re.search(r"CapEff:\s+(\w+)", status)[1], 16) & ~sum(allowed.values()), 0)
        self.assertRegex(status, r"NoNewPrivs:\s+1\b")
        self.assertNotEqual(os.readlink(f"/proc/{pod.process.pid}/ns/cgroup"), os.readlink("/proc/self/ns/cgroup"))

    def test_export(self):
        web, database = self.group(1, "shop/web-0/nginx"), self.group(2, "shop/db-1/postgres")
        with LoopDisk() as disk, Pod("export", self.folder, self.group(3)) as pod:
            self.assertTrue(wait_until(pod.is_ready, 60))
            self.assertIsNone(pod.process.poll(), pod.process.poll() is not None and pod.stop())
            self.assert_privileges(pod)
            self.run_all(disk, web, database)
            samples = pod.scrape()
            status, err = pod.stop()
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(collectors_up(samples), {"top", "breakdown", "stuck", "container"})
        for (container, op), count in self.WANTED.items():
            for what, want in ("requests", count), ("bytes", count * BLOCK):
                self.assertEqual(value(samples, f"iotrace_container_io_{what}_total", container=container, operation=op),
                                 want, (container, op))
        hidden = iotest.hidden_ends.count()
        for op, count in ("read", 401), ("write", 63):
            self.assertIn(count - value(samples, "iotrace_block_io_requests_total", device=disk.name, operation=op),
                          range(hidden + 1))

    def test_each_mount(self):
        """Without the node's cgroups a container has no name, without the names of its logs only a part of its id."""
        web = self.group(1, "shop/web-0/nginx")
        for without, name in ("cgroup", None), ("containers", web.id[:12]):
            with self.subTest(without=without), LoopDisk() as disk, \
                    Pod("export", self.folder, self.group(3), without) as pod:
                self.assertTrue(wait_until(pod.is_ready, 60))
                run_loads(Load("read", 50, BLOCK, disk.path, options=["-r"], group=web))
                samples = pod.scrape()
                self.assertEqual(pod.stop()[0], 0)
                def count(container, of=samples):
                    return value(of, "iotrace_container_io_requests_total", container=container, operation="read")
                self.assertEqual(count("shop/web-0/nginx"), 0)
                if name:
                    self.assertEqual(count(name), 50)

    def test_record(self):
        web, database = self.group(1, "shop/web-0/nginx"), self.group(2, "shop/db-1/postgres")
        recordings = f"{self.folder}/node{RECORDINGS}"
        with LoopDisk() as disk, Pod("record", self.folder, self.group(3)) as pod:
            self.assertTrue(wait_until(lambda: os.listdir(recordings) or pod.process.poll() is not None, 60))
            self.assert_privileges(pod)
            self.run_all(disk, web, database)

            def counted():
                found = {}
                for row in iotrace("top", "--replay", recordings, "--json").rows:
                    if row["disk"] == disk.name:
                        key = row["container"], row["op"]
                        found[key] = found.get(key, 0) + row["io"]
                return found

            wanted = {**self.WANTED, ("-", "read"): 31}
            wait_until(lambda: counted() == wanted, 60)
            status, err = pod.stop()
        self.assertEqual(counted(), wanted)
        self.assertEqual(status, 0, err)
        self.assertLessEqual(len(err.splitlines()), 1, err)  # memory that is not locked


if __name__ == "__main__":
    main()
