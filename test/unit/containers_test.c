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
#include "core/base/clock.h"
#include "core/naming/cgroups.h"
#include "core/naming/cgroup_names.h"
#include "core/naming/containers.h"
#include "test/unit/root.h"

/* Ids that differ in their first digits. */
#define REST  "1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd"
#define ID(x) #x REST
#define UID   "0f4e6a52-1111-2222-3333-444455556666"
#define UID_  "0f4e6a52_1111_2222_3333_444455556666"

#define PODMAN "containers/storage/overlay-containers/containers.json"

/* What each runtime leaves on a machine, and where it puts cgroups. */
static const struct {
	const char *path, *container, *pod;
} cases[] = {
	{ "/system.slice/docker-" ID(d0c1) ".scope", "web", "-" },
	{ "/docker/" ID(d0c2), "db", "-" },
	{ "/docker/" ID(d0c3), "d0c31b2c3d4e", "-" }, /* no file */
	{ "/machine.slice/libpod-" ID(90d1) ".scope/container", "cache", "-" },
	{ "/machine.slice/libpod-" ID(90d2) ".scope/container", "fast", "-" },
	{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	  ".slice/cri-containerd-" ID(c0d1) ".scope",
	  "shop/front-5d9c/nginx", "shop/front-5d9c" },
	{ "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID(c410) ".scope",
	  "shop/front-5d9c/side", "shop/front-5d9c" },
	{ "/kubepods/besteffort/pod" UID "/" ID(c0d2), "c0d21b2c3d4e", "shop/front-5d9c" },
	{ "/kubepods/pod0123456789abcdef0123456789abcdef/" ID(c0d3), "kube-system/etcd-n1/etcd",
	  "kube-system/etcd-n1" },
	{ "/kubepods/poda1234567-1111-2222-3333-444455556666", "-", "a1234567-111" },
	{ "/lxc.payload.mail/init.scope", "mail", "-" },
	{ "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt", "qemu-1-vm", "-" },
	/* users' own */
	{ "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID(a5e1) ".scope",
	  "user@1000.service/alices", "-" },
	{ "/user.slice/user-1001.slice/user@1001.service/app.slice/docker-" ID(b0b1) ".scope",
	  "user@1001.service/bobs", "-" },
	/* another's ids, and the machine's */
	{ "/user.slice/user-1001.slice/user@1001.service/docker-" ID(d0c1) ".scope",
	  "user@1001.service/d0c11b2c3d4e", "-" },
	{ "/user.slice/user-1001.slice/user@1001.service/libpod-" ID(a5e1) ".scope",
	  "user@1001.service/a5e11b2c3d4e", "-" },
	{ "/user.slice/user-1002.slice/user@1002.service/libpod-" ID(90d1) ".scope",
	  "user@1002.service/90d11b2c3d4e", "-" },
	{ "/user.slice/user-1002.slice/user@1002.service/lxc.payload.mail",
	  "user@1002.service/mail", "-" },
};

/* Added to the clock: lets the time limit for reading files pass. */
static uint64_t skipped_ns;

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);

uint64_t __wrap_clock_mono_ns(void)
{
	return skipped_ns + __real_clock_mono_ns();
}

static int make_files(void **state)
{
	if (make_root(state))
		return -1;
	put("etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n"
			  "nonsense\nbob:x:1001:1001:Bob:/home/bob:/bin/sh\n");
	put("var/lib/docker/containers/" ID(d0c1) "/config.v2.json",
	    "{\"State\":{\"Name\":\"no\"},\"ID\":\"" ID(d0c1) "\",\"Name\":\"/web\"}");
	put("var/lib/docker/containers/" ID(d0c2) "/config.v2.json", "{\"Name\":\"db\"}");
	put("var/lib/" PODMAN, "[{\"id\":\"" ID(90d0) "\"},{\"id\":\"" ID(
				   90d1) "\",\"names\":[\"cache\",\"other\"]},7,{\"names\":[1]}]");
	put("run/containers/storage/overlay-containers/volatile-containers.json",
	    "[{\"id\":\"" ID(90d2) "\",\"names\":[\"fast\"]}]");
	put("var/log/containers/front-5d9c_shop_nginx-" ID(c0d1) ".log", "");
	put("var/log/containers/front-5d9c_shop_side-" ID(c410) ".log", "");
	put("var/log/containers/etcd-n1_kube-system_etcd-" ID(c0d3) ".log", "");
	put("var/log/containers/nothing_of_this.log", "");
	put("var/log/containers/a-" ID(c0d2) ".log", "");
	put("var/log/containers/a_b-" ID(c0d2) ".log", "");
	put("var/log/pods/shop_front-5d9c_" UID "/nginx/0.log", "");
	put("var/log/pods/kube-system_etcd-n1_0123456789abcdef0123456789abcdef/etcd/0.log", "");
	put("var/log/pods/x_y/0.log", "");
	put("home/alice/.local/share/" PODMAN,
	    "[{\"id\":\"" ID(a5e1) "\",\"names\":[\"alices\"]}]");
	put("home/bob/.local/share/docker/containers/" ID(b0b1) "/config.v2.json",
	    "{\"Name\":\"/bobs\"}");
	return 0;
}

static uint64_t make_cgroup(const char *name)
{
	char path[PATH_MAX], full[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "cgroup%s", name);
	in_root(full, path);
	assert_true(!mkdir(full, 0755) || errno == EEXIST);
	assert_int_equal(stat(full, &st), 0);
	return st.st_ino;
}

static struct cgroups *opened(void)
{
	struct cgroups *c = NULL;
	char path[PATH_MAX];

	in_root(path, "cgroup");
	assert_int_equal(cgroups_open(path, root, &c), 0);
	return c;
}

#define N ARRAY_SIZE(cases)

static void test_names(void **state)
{
	struct cgroups *c;
	uint64_t ids[N];

	(void)state;
	for (size_t i = 0; i < N; i++)
		ids[i] = make_cgroup(cases[i].path);
	c = opened();
	for (size_t i = 0; i < N; i++) {
		assert_string_equal(cgroups_name(c, ids[i], CGROUP_PATH), cases[i].path);
		/* A user's files take a share of the time only. */
		skipped_ns += NS_PER_SEC;
		assert_string_equal(cgroups_name(c, ids[i], CGROUP_CONTAINER), cases[i].container);
		assert_string_equal(cgroups_name(c, ids[i], CGROUP_POD), cases[i].pod);
	}
	cgroups_free(c);
}

/* The files come when the container runs already; it keeps its name when they are gone. */
static void test_later(void **state)
{
	uint64_t id = make_cgroup("/docker/" ID(d0c9));
	struct cgroups *c = opened();
	char path[PATH_MAX];

	(void)state;
	assert_string_equal(cgroups_name(c, id, CGROUP_CONTAINER), "d0c91b2c3d4e");
	put("var/log/containers/p_n_c-" ID(d0c9) ".log", "");
	skipped_ns += NS_PER_SEC;
	assert_string_equal(cgroups_name(c, id, CGROUP_CONTAINER), "n/p/c");
	in_root(path, "var/log/containers/p_n_c-" ID(d0c9) ".log");
	assert_int_equal(unlink(path), 0);
	skipped_ns += 100 * NS_PER_SEC;
	assert_string_equal(cgroups_name(c, id, CGROUP_CONTAINER), "n/p/c");
	cgroups_free(c);
}

/* docker's file is not read again for each lookup. */
static void test_read_once(void **state)
{
	const struct {
		const char *id, *file, *name;
		uint32_t user;
	} of[] = {
		{ ID(d0c1), "var/lib/docker/containers/" ID(d0c1) "/config.v2.json", "web",
		  CGROUP_NO_USER },
		{ ID(b0b1), "home/bob/.local/share/docker/containers/" ID(b0b1) "/config.v2.json",
		  "bobs", 1001 },
	};
	struct containers *c;
	char path[PATH_MAX], name[64];

	(void)state;
	assert_int_equal(containers_open(root, &c), 0);
	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		assert_true(containers_name(c, of[i].id, of[i].user, name, sizeof(name)));
		assert_string_equal(name, of[i].name);
		in_root(path, of[i].file);
		assert_int_equal(unlink(path), 0);
		name[0] = 0;
		assert_true(containers_name(c, of[i].id, of[i].user, name, sizeof(name)));
		assert_string_equal(name, of[i].name);
	}
	containers_free(c);
}

#define BIG (2 << 20)

static void put_big(const char *name, char byte)
{
	char *bytes = malloc(BIG);

	assert_non_null(bytes);
	memset(bytes, byte, BIG);
	put_bytes(name, bytes, BIG);
	put_bytes("half", bytes, BIG / 4);
	free(bytes);
}

/* Files of a user's: whatever they are, there is no name, and in time. */
static void test_hostile(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"7",
		"{\"Name\":7}",
		"{\"Name\":\"\"}",
		"{\"Name\":\"/\"}",
		"[{\"id\":\"x\",\"names\":[\"x\"]}]",
		"{\"Name\":\"a\\u0000b\"}",
		"{\"Name\":\"\xff\"}",
	};
	const char *file = "home/bob/.local/share/docker/containers/" ID(b0b2) "/config.v2.json";
	char path[PATH_MAX], name[64] = "before";
	struct containers *c;

	(void)state;
	assert_int_equal(containers_open(root, &c), 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		skipped_ns += NS_PER_SEC;
		put(file, texts[i]);
		assert_false(containers_name(c, ID(b0b2), 1001, name, sizeof(name)));
	}
	put_big(file, '[');
	skipped_ns += NS_PER_SEC;
	assert_false(containers_name(c, ID(b0b2), 1001, name, sizeof(name)));
	in_root(path, file);
	assert_int_equal(unlink(path), 0);
	skipped_ns += NS_PER_SEC;
	put_link(file, "../../../../../../half"); /* nested deeper than anybody does */
	assert_false(containers_name(c, ID(b0b2), 1001, name, sizeof(name)));
	assert_int_equal(unlink(path), 0);
	skipped_ns += NS_PER_SEC;
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(containers_name(c, ID(b0b2), 1001, name, sizeof(name)));
	assert_int_equal(unlink(path), 0);
	skipped_ns += 100 * NS_PER_SEC;
	put_link(file, "/dev/zero");
	assert_false(containers_name(c, ID(b0b2), 1001, name, sizeof(name)));
	assert_string_equal(name, "before");
	assert_int_equal(unlink(path), 0);
	skipped_ns += 100 * NS_PER_SEC;
	put(file, "{\"Name\":\"/after\"}");
	assert_true(containers_name(c, ID(b0b2), 1001, name, sizeof(name)));
	assert_string_equal(name, "after");
	containers_free(c);
}

/* A user's file takes less than root's may: JSON in memory is much larger. */
static void test_large_file_of_user(void **state)
{
	enum { EMPTY = 60000 };
	const char *file = "home/bob/.local/share/docker/containers/" ID(b0b2) "/config.v2.json";
	char *text = malloc(3 * EMPTY + 64), path[PATH_MAX], name[64];
	struct containers *c;
	size_t len;

	(void)state;
	assert_non_null(text);
	len = (size_t)snprintf(text, 64, "{\"Name\":\"/large\",\"x\":[{}");
	for (int i = 0; i < EMPTY; i++, len += 3)
		snprintf(text + len, 4, ",{}");
	snprintf(text + len, 3, "]}");
	put(file, text);
	for (int i = 0; i < 2; i++) {
		skipped_ns += 100 * NS_PER_SEC;
		assert_int_equal(containers_open(root, &c), 0);
		assert_int_equal(containers_name(c, ID(b0b2), 1001, name, sizeof(name)),
				 !i && !geteuid());
		containers_free(c);
		in_root(path, file);
		if (!geteuid())
			assert_int_equal(chown(path, 1001, 1001), 0);
	}
	free(text);
}

static void test_none(void **state)
{
	struct containers *c;
	char name[64];

	(void)state;
	assert_int_equal(containers_open("/nonexistent", &c), 0);
	assert_false(containers_name(c, ID(d0c1), CGROUP_NO_USER, name, sizeof(name)));
	assert_false(containers_name(c, ID(d0c1), 1000, name, sizeof(name)));
	assert_false(containers_pod(c, UID, strlen(UID), name, sizeof(name)));
	containers_free(c);
	containers_free(NULL);
}

#define with_files(test) cmocka_unit_test_setup_teardown(test, make_files, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_files(test_names),
		with_files(test_later),
		with_files(test_read_once),
		with_files(test_hostile),
		with_files(test_large_file_of_user),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
