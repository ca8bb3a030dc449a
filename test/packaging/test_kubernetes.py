#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""packaging/kubernetes: what the manifests name is there, and they ask for no more than docs/SECURITY.md says. Whether
they are enough, test/live/test_pod.py tries."""
import glob
import os
import re
import shutil
import sys
import unittest

from packtest import IOTRACE, main, run

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../live"))
import manifests  # noqa: E402 # pylint: disable=wrong-import-position

ROOT = os.path.join(HERE, "../..")
PODS = "export", "record"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def of_kind(path, kind):
    return [one for one in manifests.documents(path) if one["kind"] == kind]


class TestManifests(unittest.TestCase):
    def test_parsed(self):
        """The tests read what YAML says."""
        try:
            import yaml  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("no Python module yaml")
        paths = glob.glob(f"{manifests.FOLDER}/*/*.yaml") + [f"{ROOT}/packaging/grafana/kustomization.yaml"]
        self.assertGreater(len(paths), 5)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                self.assertEqual(manifests.documents(path), list(yaml.safe_load_all(file)), path)

    def test_arguments(self):
        """The binary takes them, and the image has it where no command is named."""
        for name in PODS:
            container, = manifests.pod_of(name)["containers"]
            self.assertNotIn("command", container)
            self.assertEqual(container["args"][0], name)
            self.assertIn(f"Usage: iotrace {name} ", run(IOTRACE, *container["args"], "--help"))

    def test_privileges(self):
        """No capability that docs/SECURITY.md does not name for this subcommand's unit; all mounts but the
        recordings' read-only; nothing else of the node's."""
        for name in PODS:
            unit = read(f"packaging/systemd/iotrace-{name}.service")
            allowed = set(re.search(r"(?m)^CapabilityBoundingSet=(.*)$", unit)[1].split())
            pod = manifests.pod_of(name)
            container, = pod["containers"]
            context = container["securityContext"]
            self.assertEqual(context["capabilities"]["drop"], ["ALL"])
            self.assertEqual({f"CAP_{one}" for one in context["capabilities"]["add"]}, allowed)
            for capability in allowed:
                self.assertIn(capability, read("docs/SECURITY.md"))
            self.assertEqual((context["privileged"], context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"],
                              context["seccompProfile"]), (False, False, True, {"type": "RuntimeDefault"}))
            self.assertFalse(pod["automountServiceAccountToken"])
            self.assertTrue(pod["hostPID"])
            self.assertLessEqual({"hostNetwork", "hostIPC"} & set(pod), set())
            self.assertEqual([mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")],
                             ["recordings"] if name == "record" else [])
            self.assertEqual({mount["name"] for mount in container["volumeMounts"]},
                             {volume["name"] for volume in pod["volumes"]})
            self.assertEqual(set(container["resources"]), {"requests", "limits"})

    def test_labels(self):
        """Each selector finds its pods, and the ports are the ones that are served."""
        for name in PODS:
            one, = of_kind(f"base/{name}.yaml", "DaemonSet")
            self.assertEqual(one["spec"]["selector"]["matchLabels"], one["spec"]["template"]["metadata"]["labels"])
        container, = manifests.pod_of("export")["containers"]
        port, = container["ports"]
        self.assertIn(f":{port['containerPort']}", container["args"])
        service, = of_kind("base/export.yaml", "Service")
        self.assertEqual(service["spec"]["selector"], of_kind("base/export.yaml", "DaemonSet")[0]["spec"]["template"]
                         ["metadata"]["labels"])
        self.assertEqual(service["spec"]["ports"][0]["targetPort"], port["name"])
        monitor, = of_kind("monitoring/servicemonitor.yaml", "ServiceMonitor")
        self.assertEqual(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])
        self.assertEqual(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"])
        # The job of prometheus/rules.yml and of the dashboard.
        job = service["metadata"]["labels"][monitor["spec"]["jobLabel"]]
        for user in "prometheus/rules.yml", "grafana/iotrace.json":
            self.assertEqual(set(re.findall(r'job=\\?"(\w+)', read(f"packaging/{user}"))), {job})
        for probe in "livenessProbe", "readinessProbe":
            self.assertEqual(container[probe]["httpGet"]["port"], port["name"])

    def test_kustomizations(self):
        """All files that are named are there; the version is this one."""
        n = 0
        for path in ("base", "monitoring", "../grafana"):
            one, = manifests.documents(f"{path}/kustomization.yaml")
            files = one.get("resources", []) + [name for made in one.get("configMapGenerator", []) for name in made["files"]]
            for name in files:
                self.assertTrue(os.path.exists(f"{manifests.FOLDER}/{path}/{name}"), (path, name))
                n += 1
        self.assertEqual(n, 7)
        image, = manifests.documents("base/kustomization.yaml")[0]["images"]
        self.assertEqual(image["newTag"], run(IOTRACE, "--version").split()[1])
        for name in PODS:
            self.assertEqual(manifests.pod_of(name)["containers"][0]["image"], image["name"])

    def test_built(self):
        """kustomize, where it is: the image and the dashboard are in what it makes."""
        if shutil.which("kustomize"):
            build = ["kustomize", "build"]
        elif shutil.which("kubectl"):
            build = ["kubectl", "kustomize"]
        else:
            self.skipTest("neither kustomize nor kubectl")
        out = run(*build, f"{manifests.FOLDER}/monitoring")
        kinds = sorted(re.findall(r"(?m)^kind: (\w+)", out))
        self.assertEqual(kinds, ["ConfigMap", "DaemonSet", "DaemonSet", "Namespace", "Service", "ServiceMonitor"])
        version = run(IOTRACE, "--version").split()[1]
        self.assertEqual(out.count(f"image: registry.example.com/iotrace:{version}\n"), 2)
        self.assertIn('"uid": "iotrace"', out)
        self.assertEqual(len(re.findall(r"(?m)^  namespace: iotrace$", out)), 5)


if __name__ == "__main__":
    main()
