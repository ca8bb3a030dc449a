/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/naming/cgroup_find.h"
#include "test/unit/root.h"

#define REST  "1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
#define ID(x) #x REST
#define UID   "0f4e6a52-1111-2222-3333-444455556666"
#define UID_  "0f4e6a52_1111_2222_3333_444455556666"

#define POD "/kubepods.slice/kubepods-pod" UID_ ".slice"

static const char *const paths[] = {
	"/system.slice/postgresql.service/worker",
	"/system.slice/system-getty.slice",
	"/system.slice/mnt-a\\x2db.mount",
	"/system.slice/docker-" ID(d0c1) ".scope/docker",
	"/docker/" ID(d0c2) "/system.slice/postgresql.service",
	"/user.slice/user-7.slice/user@7.service/app.slice/postgresql.service",
	"/user.slice/user-7.slice/user@7.service/app.slice/mine.service",
	"/user.slice/user-8.slice/user@8.service/app.slice/mine.service",
	POD "/crio-" ID(c0d1) ".scope",
	POD "/crio-" ID(c0d2) ".scope",
	"/kubepods-pod11111111_1111_2222_3333_444455556666.slice:cri-containerd:" ID(c0d3),
	"/kubepods-pod11111111_1111_2222_3333_444455556666.slice:cri-containerd:" ID(c0d4),
	"/user.slice/user-8.slice/user@8.service/docker-" ID(d0c1) ".scope",
	"/user.slice/user-8.slice/user@8.service/lxc.payload.mail",
	("/user.slice/user-8.slice/user@8.service/pod" UID),
	"/lxc.payload.mail/init.scope",
	"/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt",
};

static int make_machine(void **state)
{
	char path[PATH_MAX], name[PATH_MAX];

	if (make_root(state))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		snprintf(name, sizeof(name), "cgroup%s/cgroup.procs", paths[i]);
		put(name, "");
	}
	put("var/lib/docker/containers/" ID(d0c1) "/config.v2.json", "{\"Name\":\"/web\"}");
	put("var/log/containers/front_shop_nginx-" ID(c0d1) ".log", "");
	put("var/log/containers/front_shop_side-" ID(c0d2) ".log", "");
	put("var/log/containers/other_shop_side-" ID(c0d3) ".log", "");
	put("var/log/pods/shop_front_" UID "/nginx/0.log", "");
	put("var/log/pods/shop_other_11111111-1111-2222-3333-444455556666/side/0.log", "");
	in_root(path, "cgroup");
	return 0;
}

static int look_up(const char *name, struct cgroup_ref refs[CGROUP_REFS], size_t *n,
		   struct error *err)
{
	char path[PATH_MAX];

	*n = 0;
	memset(err, 0, sizeof(*err));
	in_root(path, "cgroup");
	return cgroup_find(path, root, name, refs, n, err);
}

/* The one cgroup that @name names is @want. */
static void assert_is(const char *name, const char *want, uint32_t level)
{
	struct cgroup_ref refs[CGROUP_REFS];
	char path[PATH_MAX], in[PATH_MAX];
	struct error err;
	struct stat st;
	size_t n;

	if (look_up(name, refs, &n, &err))
		fail_msg("%s: %s", name, err.what);
	assert_int_equal(n, 1);
	snprintf(in, sizeof(in), "cgroup%s", want);
	in_root(path, in);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(refs[0].id, st.st_ino);
	assert_int_equal(refs[0].level, level);
}

static void assert_not(const char *name, int want, const char *hint)
{
	struct cgroup_ref refs[CGROUP_REFS];
	struct error err;
	size_t n;

	assert_int_equal(look_up(name, refs, &n, &err), want);
	assert_int_equal(err.status, STATUS_USAGE);
	if (!hint && want == -ENOENT)
		hint = "`iotrace top --by cgroup` shows";
	if (hint ? !strstr(err.hint, hint) : err.hint[0])
		fail_msg("%s: hint '%s', not '%s'", name, err.hint, hint ? hint : "");
}

static void test_paths(void **state)
{
	(void)state;
	assert_is("/", "/", 0);
	assert_is("/system.slice", "/system.slice", 1);
	assert_is("system.slice/", "/system.slice", 1);
	assert_is("system.slice/postgresql.service", "/system.slice/postgresql.service", 2);
	assert_is("/system.slice/postgresql.service/worker",
		  "/system.slice/postgresql.service/worker", 3);
}

/* Paths below the mount, as a shell completes them. */
static void test_below_mount(void **state)
{
	char name[2 * PATH_MAX], in[PATH_MAX];

	(void)state;
	in_root(in, "cgroup");
	assert_is(in, "/", 0);
	snprintf(name, sizeof(name), "%s/system.slice/", in);
	assert_is(name, "/system.slice", 1);
	snprintf(name, sizeof(name), "%ss/system.slice", in);
	assert_not(name, -ENOENT, NULL);
}

static void test_units(void **state)
{
	(void)state;
	assert_is("postgresql.service", "/system.slice/postgresql.service", 2);
	assert_is("mnt-a-b.mount", "/system.slice/mnt-a\\x2db.mount", 2);
	assert_is("mnt-a\\x2db.mount", "/system.slice/mnt-a\\x2db.mount", 2);
	assert_is("user@7.service", "/user.slice/user-7.slice/user@7.service", 3);
	assert_is("user@7.service/postgresql.service",
		  "/user.slice/user-7.slice/user@7.service/app.slice/postgresql.service", 5);
	assert_is("user@8.service/mine.service",
		  "/user.slice/user-8.slice/user@8.service/app.slice/mine.service", 5);
}

static void test_containers(void **state)
{
	(void)state;
	assert_is("web", "/system.slice/docker-" ID(d0c1) ".scope", 2);
	assert_is("d0c11b", "/system.slice/docker-" ID(d0c1) ".scope", 2);
	assert_is(ID(d0c2), "/docker/" ID(d0c2), 2);
	assert_is("nginx", POD "/crio-" ID(c0d1) ".scope", 3);
	assert_is("front/side", POD "/crio-" ID(c0d2) ".scope", 3);
	assert_is("shop/front/side", POD "/crio-" ID(c0d2) ".scope", 3);
	assert_is("mail", "/lxc.payload.mail", 1);
	assert_is("user@8.service/mail", "/user.slice/user-8.slice/user@8.service/lxc.payload.mail",
		  4);
	assert_is("user@8.service/d0c11b",
		  "/user.slice/user-8.slice/user@8.service/docker-" ID(d0c1) ".scope", 4);
	assert_is("qemu-1-vm", "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", 2);
}

static void test_pods(void **state)
{
	static const char *const names[] = { "other", "shop/other",
					     "11111111-1111-2222-3333-444455556666" };
	struct cgroup_ref refs[CGROUP_REFS];
	struct error err;
	size_t n;

	(void)state;
	assert_is("front", POD, 2);
	assert_is("shop/front", POD, 2);
	assert_is(UID, POD, 2);
	assert_is("0f4e6a52", POD, 2);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(look_up(names[i], refs, &n, &err), 0);
		assert_int_equal(n, 2);
		assert_int_equal(refs[0].level, 1);
		assert_int_not_equal(refs[0].id, refs[1].id);
	}
}

static void test_not_there(void **state)
{
	(void)state;
	assert_not("postgres.service", -ENOENT, "postgresql.service");
	assert_not("d0c1", -ENOENT, NULL); /* too few digits */
	assert_not("wbe", -ENOENT, "web");
	assert_not("shop/fromt", -ENOENT, "shop/front");
	assert_not("/system.slice/postgresq.service", -ENOENT, "/system.slice/postgresql.service");
	/* A user's are not taken for the system's, which may have ended. */
	assert_not("mine.service", -ENOENT, "user@7.service/mine.service");
	assert_not("app.slice", -ENOENT, "user@8.service/app.slice");
	assert_not("user@9.service/mail", -ENOENT, "user@8.service/mail");
	assert_not("worker", -ENOENT, NULL); /* no unit, and no path from the root */
	assert_not("nothing like that", -ENOENT, NULL);
}

static void test_not_one(void **state)
{
	(void)state;
	assert_not("side", -EINVAL, "kubepods");
}

static void test_too_many(void **state)
{
	char path[PATH_MAX];

	(void)state;
	for (int i = 0; i < CGROUP_REFS + 1; i++) {
		snprintf(path, sizeof(path),
			 "cgroup/kubepods-pod" UID_ ".slice:crio:%04x" REST "/cgroup.procs", i);
		put(path, "");
	}
	assert_not(UID, -E2BIG, NULL);
}

#define on_machine(test) cmocka_unit_test_setup_teardown(test, make_machine, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_machine(test_paths),	     on_machine(test_units),
		on_machine(test_containers), on_machine(test_pods),
		on_machine(test_not_there),  on_machine(test_not_one),
		on_machine(test_too_many),   on_machine(test_below_mount),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
