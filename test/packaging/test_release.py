#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The container image of packaging/release: its digests are right, its bytes the same each time, and what is in it
runs in a root that has nothing else. (`packaging/release --twice` compares whole releases.)"""
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
IOTRACE = os.environ["IOTRACE"]
SPDX = os.path.join(os.environ["BUILD"], "generated/iotrace.spdx.json")


def version():
    return subprocess.run([IOTRACE, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1]


@unittest.skipUnless(platform.machine() == "x86_64", "releases are made on x86-64")
class TestImage(unittest.TestCase):
    def setUp(self):
        if subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode:
            self.skipTest("no git repository: a release is of a commit")
        self.folder = tempfile.mkdtemp(prefix="iotrace-release-")
        self.addCleanup(shutil.rmtree, self.folder)

    def image(self, name):
        """The bytes of an image of this build."""
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        binary = f"{folder}/iotrace-{version()}-linux-x86_64"
        subprocess.run(["strip", "-o", binary, IOTRACE], check=True)
        shutil.copy(SPDX, binary + ".spdx.json")
        subprocess.run([os.path.join(ROOT, "packaging/release"), "--image", folder], check=True)
        with open(f"{folder}/iotrace-{version()}-image.tar", "rb") as file:
            return file.read()

    def read(self, data):
        """(config, layer, manifest) of the image; each blob is what its name says."""
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            files = {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}
            self.assertEqual({(entry.uid, entry.gid) for entry in tar.getmembers()}, {(0, 0)})
        self.assertEqual(json.loads(files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        blobs = {name.rpartition("/")[2]: content for name, content in files.items() if name.startswith("blobs/sha256/")}
        for digest, content in blobs.items():
            self.assertEqual(hashlib.sha256(content).hexdigest(), digest)

        def follow(entry):
            content = blobs[entry["digest"].removeprefix("sha256:")]
            self.assertEqual(len(content), entry["size"])
            return content
        (entry,) = json.loads(files["index.json"])["manifests"]
        self.assertEqual(entry["platform"], {"architecture": "amd64", "os": "linux"})
        manifest = json.loads(follow(entry))
        layer, config = follow(manifest["layers"][0]), json.loads(follow(manifest["config"]))
        self.assertEqual(len(blobs), 3)
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(layer).hexdigest()])
        self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.version"], version())
        return config, layer

    def test_image(self):
        data = self.image("first")
        self.assertEqual(self.image("second"), data)
        config, layer = self.read(data)
        root = os.path.join(self.folder, "root")
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            names = sorted(entry.name for entry in tar if entry.isfile())
            tar.extractall(root, filter="tar") if hasattr(tarfile, "tar_filter") else tar.extractall(root)
        self.assertEqual(names, ["usr/sbin/iotrace", "usr/share/doc/iotrace/LICENSE",
                                 f"usr/share/doc/iotrace/iotrace-{version()}-linux-x86_64.spdx.json"])
        entry = config["config"]["Entrypoint"]
        self.assertTrue(os.access(root + entry[0], os.X_OK))
        if os.geteuid():
            self.skipTest("running it needs root")

        def run(*args, mounts="true"):
            script = f'mkdir -p "$0/proc" "$0/sys" && {mounts} && exec chroot "$0" "$@"'
            return subprocess.run(["unshare", "-m", "sh", "-c", script, root, *entry, *args],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
        helped = run(*config["config"]["Cmd"])
        self.assertEqual((helped.returncode, helped.stderr), (0, ""))
        self.assertIn("SUBCOMMAND", helped.stdout)
        # What the list has is what is linked.
        with open(SPDX, encoding="utf-8") as file:
            packages = {package["name"]: package["versionInfo"] for package in json.load(file)["packages"]}
        told = dict(line.split(" ", 1) for line in run("--build-info").stdout.splitlines())
        self.assertEqual(told, packages)
        self.assertGreater(len(told), 5)
        kernel = 'mount -t proc proc "$0/proc" && mount -t sysfs sys "$0/sys"'
        checked = run("--check", "--json", mounts=kernel)
        self.assertIn(checked.returncode, (0, 3), checked.stderr)
        self.assertIn('"top"', checked.stdout)
        traced = run("top", "--json", "1", "1", mounts=kernel)
        if traced.returncode == 3:
            self.skipTest(f"nothing can be traced here: {traced.stderr}")
        self.assertEqual(traced.returncode, 0, traced.stderr)
        self.assertEqual([json.loads(line)["type"] for line in traced.stdout.splitlines()], ["meta", "interval"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
