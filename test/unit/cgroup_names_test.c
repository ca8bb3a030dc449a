/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/naming/cgroup_names.h"

#define ID    "3f4a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
#define OTHER "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999"
#define UID   "0f4e6a52-1111-2222-3333-444455556666"
#define UID_  "0f4e6a52_1111_2222_3333_444455556666"

static const struct {
	const char *path, *unit, *container, *pod;
	uint32_t user; /* 0: none */
} cases[] = {
	{ "/", NULL, NULL, NULL, 0 },
	{ "", NULL, NULL, NULL, 0 },
	{ "/one/two", NULL, NULL, NULL, 0 },
	/* systemd */
	{ "/init.scope", "init.scope", NULL, NULL, 0 },
	{ "/system.slice", "system.slice", NULL, NULL, 0 },
	{ "/system.slice/postgresql.service", "postgresql.service", NULL, NULL, 0 },
	{ "/system.slice/postgresql.service/worker", "postgresql.service", NULL, NULL, 0 },
	{ "/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", NULL, NULL,
	  0 },
	{ "/system.slice/mnt-a\\x2db.mount", "mnt-a-b.mount", NULL, NULL, 0 },
	{ "/system.slice/_cgroup.x.service", "cgroup.x.service", NULL, NULL, 0 },
	{ "/.service/.slice", NULL, NULL, NULL, 0 },
	{ "/user.slice/user-1000.slice/session-2.scope", "session-2.scope", NULL, NULL, 0 },
	{ "/user.slice/user-1000.slice/user@1000.service/app.slice/app-code.service",
	  "app-code.service", NULL, NULL, 1000 },
	/* docker */
	{ "/system.slice/docker-" ID ".scope", "docker-" ID ".scope", ID, NULL, 0 },
	{ "/docker/" ID, NULL, ID, NULL, 0 },
	{ "/docker/" ID "/inner.service", NULL, ID, NULL, 0 },
	{ "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope",
	  "docker-" ID ".scope", ID, NULL, 1000 },
	/* one in the other */
	{ "/system.slice/docker-" ID ".scope/kubepods/pod" UID "/" OTHER, "docker-" ID ".scope", ID,
	  NULL, 0 },
	/* podman */
	{ "/machine.slice/libpod-" ID ".scope/container", "libpod-" ID ".scope", ID, NULL, 0 },
	{ "/machine.slice/libpod-conmon-" ID ".scope", "libpod-conmon-" ID ".scope", NULL, NULL,
	  0 },
	{ "/libpod_parent/libpod-" ID, NULL, ID, NULL, 0 },
	{ "/libpod_parent/" OTHER "/libpod-" ID, NULL, ID, OTHER, 0 },
	{ "/libpod_parent/" OTHER, NULL, NULL, OTHER, 0 },
	{ "/machine.slice/machine-libpod_pod_" OTHER ".slice/libpod-" ID ".scope",
	  "libpod-" ID ".scope", ID, OTHER, 0 },
	{ "/user.slice/user-7.slice/user@7.service/user.slice/user-libpod_pod_" OTHER
	  ".slice/libpod-" ID ".scope/container",
	  "libpod-" ID ".scope", ID, OTHER, 7 },
	/* Kubernetes: containerd and CRI-O, with systemd and without */
	{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	  ".slice/cri-containerd-" ID ".scope",
	  "cri-containerd-" ID ".scope", ID, UID_, 0 },
	{ "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", "crio-" ID ".scope", ID,
	  UID_, 0 },
	{ "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope",
	  "crio-conmon-" ID ".scope", NULL, UID_, 0 },
	{ "/kubepods/besteffort/pod" UID "/" ID, NULL, ID, UID, 0 },
	{ "/kubepods/burstable/pod" UID, NULL, NULL, UID, 0 },
	{ "/kubepods/pod0123456789abcdef0123456789abcdef/" ID, NULL, ID,
	  "0123456789abcdef0123456789abcdef", 0 },
	{ "/kubepods-pod" UID_ ".slice:cri-containerd:" ID, NULL, ID, UID_, 0 },
	{ "/podman", NULL, NULL, NULL, 0 },
	{ "/pods/podcast", NULL, NULL, NULL, 0 },
	/* LXC */
	{ "/lxc.payload.web/system.slice/nginx.service", NULL, "web", NULL, 0 },
	{ "/lxc.monitor.web", NULL, NULL, NULL, 0 },
	{ "/lxc/101/ns/init.scope", NULL, "101", NULL, 0 },
	{ "/lxc.payload/web", NULL, "web", NULL, 0 },
	/* machines */
	{ "/machine.slice/machine-qemu\\x2d3\\x2dvm\\x2done.scope/libvirt/emulator",
	  "machine-qemu-3-vm-one.scope", "qemu-3-vm-one", NULL, 0 },
	{ "/machine/qemu-3-vm.libvirt-qemu/vcpu0", NULL, "qemu-3-vm", NULL, 0 },
	{ "/machine.slice/systemd-nspawn@web.service/payload/system.slice/x.service",
	  "systemd-nspawn@web.service", "web", NULL, 0 },
	{ "/machine.slice/machine-web.scope/payload", "machine-web.scope", "web", NULL, 0 },
	/* a sub-cgroup of a unit is the unit's, however it is called */
	{ "/system.slice/ci.service/postgresql.service", "ci.service", NULL, NULL, 0 },
	{ "/system.slice/ci.service/user@7.service/x.service", "ci.service", NULL, NULL, 0 },
	{ "/init.scope/x.slice/x.service", "init.scope", NULL, NULL, 0 },
	{ "/alice/postgresql.service", NULL, NULL, NULL, 0 },
	{ "/alice/user@7.service/x.service", NULL, NULL, NULL, 0 },
	{ "/user@7.service/x.slice/x.service/user@8.service", "x.service", NULL, NULL, 7 },
	{ "/user@7.service/user@8.service/x.service", "user@8.service", NULL, NULL, 7 },
	/* almost */
	{ "/docker/" ID "0", NULL, NULL, NULL, 0 },
	{ "/docker/3F4A1B2C3D4E5F60718293A4B5C6D7E8F90123456789ABCDEF0123456789ABCD", NULL, NULL,
	  NULL, 0 },
	{ "/user@4294967295.service/x.service", "user@4294967295.service", NULL, NULL, 0 },
	{ "/user@x.service/x.service", "user@x.service", NULL, NULL, 0 },
	{ "/user@.service/x.service", "user@.service", NULL, NULL, 0 },
	{ "/user@99999999999.service/x.service", "user@99999999999.service", NULL, NULL, 0 },
	{ "/a\\x00.service", "a\\x00.service", NULL, NULL, 0 },
	{ "/a\\x0.service", "a\\x0.service", NULL, NULL, 0 },
	{ "/\\x2.scope", "\\x2.scope", NULL, NULL, 0 },
};

static void assert_part(const char *path, const struct text_part *part, const char *want)
{
	char text[512] = "";

	if (part->at)
		cgroup_unescape(part, text, sizeof(text));
	if (!!want != !!part->at || (want && strcmp(text, want) != 0))
		fail_msg("%s: %s, not %s", path, part->at ? text : "none", want ? want : "none");
	if (want)
		assert_true(cgroup_part_is(part, want));
	assert_false(cgroup_part_is(part, "no such name"));
}

static void test_parts(void **state)
{
	struct cgroup_parts parts;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cgroup_parts(cases[i].path, &parts);
		assert_part(cases[i].path, &parts.unit, cases[i].unit);
		assert_part(cases[i].path, &parts.container, cases[i].container);
		assert_part(cases[i].path, &parts.pod, cases[i].pod);
		assert_int_equal(parts.user, cases[i].user ? cases[i].user : CGROUP_NO_USER);
		assert_int_equal(parts.has_container_id,
				 cases[i].container && strlen(cases[i].container) == 64);
	}
}

#define OF_7 "/user.slice/user-7.slice/user@7.service"

/* Names of units and containers below a user's service manager are shown after the user's name. */
static void test_owners(void **state)
{
	static const struct {
		const char *path, *unit, *container, *pod;
	} owned[] = {
		{ "/system.slice/postgresql.service", "", "", "" },
		{ OF_7, "", "", "" }, /* the system's */
		{ OF_7 "/app.slice/postgresql.service", "user@7.service", "", "" },
		{ OF_7 "/user@8.service/x.service", "user@7.service", "", "" },
		{ OF_7 "/lxc.payload.web", "", "user@7.service", "" },
		{ OF_7 "/a.service/docker-" ID ".scope", "user@7.service", "user@7.service", "" },
		{ OF_7 "/pod" UID "/" ID, "", "user@7.service", "user@7.service" },
		{ "/lxc.payload.web/user@7.service/x", "", "", "" },
		{ "/system.slice/docker-" ID ".scope/docker-" OTHER ".scope", "", "", "" },
		{ "/system.slice/ci.service/lxc.payload.web", "", "ci.service", "" },
		{ "/system.slice/c\\x2di.service/a/docker-" ID ".scope", "", "c-i.service", "" },
		{ "/system.slice/ci.service/pod" UID "/a", "", "", "ci.service" },
		{ "/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope/a", "", "", "" },
	};
	struct cgroup_parts parts;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(owned); i++) {
		const char *want[] = { owned[i].unit, owned[i].container, owned[i].pod };
		const struct text_part *const are[] = { &parts.unit, &parts.container, &parts.pod };

		cgroup_parts(owned[i].path, &parts);
		for (unsigned int k = 0; k < 3; k++) {
			struct text_part owner = cgroup_owner(&parts, (enum cgroup_part)k);
			char label[64], wanted[64];

			if (!are[k]->at)
				continue;
			snprintf(wanted, sizeof(wanted), "%s%sname", want[k], *want[k] ? "/" : "");
			cgroup_label(&owner, "name", label, sizeof(label));
			if (strcmp(label, wanted) != 0)
				fail_msg("%s: %s, not %s", owned[i].path, label, wanted);
		}
	}
}

/* Both as it is shown and as the folder is called. */
static void test_same(void **state)
{
	const struct text_part part = { "mnt-a\\x2db.mount/rest", 16 };

	(void)state;
	assert_true(cgroup_part_is(&part, "mnt-a-b.mount"));
	assert_true(cgroup_part_is(&part, "mnt-a\\x2db.mount"));
	assert_false(cgroup_part_is(&part, "mnt-a-b.moun"));
	assert_false(cgroup_part_is(&part, "mnt-a-b.mounts"));
	assert_false(cgroup_part_is(&part, ""));
}

static void test_cut(void **state)
{
	const struct text_part part = { "a\\x2db.mount", 11 };
	char text[4];

	(void)state;
	cgroup_unescape(&part, text, sizeof(text));
	assert_string_equal(text, "a-b");
	cgroup_unescape(&part, text, 1);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_owners),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
