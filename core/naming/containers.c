// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/containers.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/intern.h"
#include "core/isolation/bounded.h"
#include "core/naming/cgroup_names.h"
#include "core/isolation/open_regular.h"

#define FILE_SIZE   (1U << 20)
#define USERS_FILE  (128U << 10) /* not root's: JSON may take 80 times its size */
#define NAMES_SIZE  (4U << 20)	 /* of one source */
#define MAX_ENTRIES 65536	 /* of a directory */
#define MAX_USERS   16
#define POD_UID	    36
#define USER_TIME   (NS_PER_SEC / 2)
#define READ_PERIOD NS_PER_SEC /* between two reads of a source */
#define READ_SHARE  50	       /* multiple of the time that reading takes */

/* A file or a directory with the names of many containers. */
struct source {
	struct intern names; /* an id, and its name with a NUL */
	uint64_t next_ns;    /* not to be read before */
	struct stat st;	     /* of what was read */
};

struct user {
	uint32_t uid;
	char *home; /* NULL: none */
	struct source docker, podman;
	uint64_t left_ns, at_ns; /* time for his files, see @at_ns */
};

struct containers {
	char *path; /* of the root */
	int root;
	struct source logs, pods, docker, podman, podman_volatile;
	struct user users[MAX_USERS];
	size_t n_users;
};

int containers_open(const char *root, struct containers **out)
{
	struct containers *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->path = strdup(root ? root : "");
	if (!c->path) {
		free(c);
		return -ENOMEM;
	}
	c->root = open_root(root ? root : "/");
	*out = c;
	return 0;
}

void containers_free(struct containers *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_users; i++) {
		free(c->users[i].home);
		intern_free(&c->users[i].docker.names);
		intern_free(&c->users[i].podman.names);
	}
	intern_free(&c->logs.names);
	intern_free(&c->pods.names);
	intern_free(&c->docker.names);
	intern_free(&c->podman.names);
	intern_free(&c->podman_volatile.names);
	if (c->root >= 0)
		close(c->root);
	free(c->path);
	free(c);
}

/* ---- names by id ---- */

static bool find(const struct source *source, const void *id, size_t id_size, char *name,
		 size_t size)
{
	uint32_t number = intern_find(&source->names, id, id_size);
	const char *record;

	if (number == INTERN_NONE)
		return false;
	record = intern_key(&source->names, number);
	snprintf(name, size, "%s", record + id_size);
	return true;
}

/* The first of two wins; an id without room has no name. */
static void put(struct source *source, const void *id, size_t id_size, const char *name)
{
	char record[CONTAINER_ID_LENGTH + 3 * (NAME_MAX + 1)];

	if (intern_memory(&source->names) > NAMES_SIZE)
		return;
	memcpy(record, id, id_size);
	snprintf(record + id_size, sizeof(record) - id_size, "%s", name);
	intern_keyed(&source->names, record, id_size + strlen(record + id_size) + 1, id_size);
}

static bool is_due(uint64_t next_ns)
{
	return clock_mono_ns() >= next_ns;
}

/* When it may be read again, after a read that began at @since_ns. */
static uint64_t next_time(uint64_t since_ns)
{
	uint64_t now = clock_mono_ns(), rest = READ_SHARE * (now - since_ns);

	return now + (rest > READ_PERIOD ? rest : READ_PERIOD);
}

/* ---- Kubernetes: names of files ---- */

/* "POD_NAMESPACE_CONTAINER-ID.log" -> "NAMESPACE/POD/CONTAINER" */
static void put_log(struct source *source, const char *file)
{
	size_t len = strlen(file), behind = 1 + CONTAINER_ID_LENGTH + strlen(".log");
	char name[3 * (NAME_MAX + 1)];
	const char *id, *space, *container;

	if (len <= behind || strcmp(file + len - 4, ".log") != 0)
		return;
	id = file + len - behind + 1;
	space = strchr(file, '_');
	container = space ? strchr(space + 1, '_') : NULL;
	if (!container || container >= id || id[-1] != '-')
		return;
	snprintf(name, sizeof(name), "%.*s/%.*s/%.*s", (int)(container - space - 1), space + 1,
		 (int)(space - file), file, (int)(id - 1 - container - 1), container + 1);
	put(source, id, CONTAINER_ID_LENGTH, name);
}

static void pod_key(const char *uid, size_t len, char key[POD_UID])
{
	memset(key, 0, POD_UID);
	for (size_t i = 0; i < len && i < POD_UID; i++)
		key[i] = uid[i] == '_' ? '-' : uid[i];
}

/* "NAMESPACE_POD_UID" -> "NAMESPACE/POD" */
static void put_pod(struct source *source, const char *file)
{
	const char *pod = strchr(file, '_'), *uid = pod ? strchr(pod + 1, '_') : NULL;
	char name[2 * (NAME_MAX + 1)], key[POD_UID];

	if (!uid || strlen(uid + 1) > POD_UID)
		return;
	snprintf(name, sizeof(name), "%.*s/%.*s", (int)(pod - file), file, (int)(uid - pod - 1),
		 pod + 1);
	pod_key(uid + 1, strlen(uid + 1), key);
	put(source, key, POD_UID, name);
}

/* Present names; earlier names stay known. */
static void list(const struct containers *c, struct source *source, const char *folder,
		 void (*each)(struct source *source, const char *file))
{
	uint64_t since_ns = clock_mono_ns();
	DIR *dir CLOSEDIR_AT_END = NULL;
	char path[PATH_MAX];
	struct dirent *entry;

	if (!is_due(source->next_ns))
		return;
	snprintf(path, sizeof(path), "%s%s", c->path, folder);
	dir = opendir(path);
	for (size_t i = 0; dir && i < MAX_ENTRIES && (entry = readdir(dir)); i++)
		each(source, entry->d_name);
	source->next_ns = next_time(since_ns);
}

static bool kubernetes_name(struct containers *c, const char *id, char *name, size_t size)
{
	if (find(&c->logs, id, CONTAINER_ID_LENGTH, name, size))
		return true;
	list(c, &c->logs, "/var/log/containers", put_log);
	return find(&c->logs, id, CONTAINER_ID_LENGTH, name, size);
}

bool containers_pod(struct containers *c, const char *uid, size_t len, char *name, size_t size)
{
	char key[POD_UID];

	pod_key(uid, len, key);
	if (find(&c->pods, key, POD_UID, name, size))
		return true;
	list(c, &c->pods, "/var/log/pods", put_pod);
	return find(&c->pods, key, POD_UID, name, size);
}

/* ---- files ---- */

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* @path below the root: free it with bounded_text_free().  False if it cannot be read, or is longer
 * than the limit, or unchanged since @st. */
static bool read_file(const struct containers *c, const char *path, struct stat *st,
		      struct bounded_text *text)
{
	struct opened_file file;
	size_t most;
	bool is_new;
	int r = -EFBIG;

	if (open_regular(c->root, path, 0, &file))
		return false;
	most = file.st.st_uid ? USERS_FILE : FILE_SIZE;
	is_new = !st || !is_same(&file.st, st);
	if (is_new && (uint64_t)file.st.st_size <= most)
		r = bounded_read_fd(file.fd, most, text);
	if (!r && st)
		*st = file.st;
	opened_file_close(&file);
	return !r;
}

/* NULL: not JSON.  The library limits nesting. */
static json_t *read_json(const struct containers *c, const char *path, struct stat *st)
{
	struct bounded_text text;
	json_t *json;

	if (!read_file(c, path, st, &text))
		return NULL;
	json = json_loadb(text.text, text.len, 0, NULL);
	bounded_text_free(&text);
	return json;
}

/* docker's config.v2.json: {"Name": "/NAME", ...} */
static bool docker_name(const struct containers *c, struct source *source, const char *folder,
			const char *id, char *name, size_t size)
{
	char path[PATH_MAX];
	const char *text;
	json_t *json;

	if (find(source, id, CONTAINER_ID_LENGTH, name, size))
		return true;
	snprintf(path, sizeof(path), "%s/containers/%.*s/config.v2.json", folder,
		 CONTAINER_ID_LENGTH, id);
	json = read_json(c, path, NULL);
	text = json_string_value(json_object_get(json, "Name"));
	if (text && text[text[0] == '/']) {
		snprintf(name, size, "%s", text + (text[0] == '/'));
		put(source, id, CONTAINER_ID_LENGTH, name);
	} else {
		text = NULL;
	}
	json_decref(json);
	return text;
}

/* podman's: [{"id": "ID", "names": ["NAME", ...], ...}, ...] */
static void put_podman(struct source *source, const json_t *json)
{
	const char *id, *name;
	const json_t *entry;
	size_t i;

	json_array_foreach(json, i, entry)
	{
		id = json_string_value(json_object_get(entry, "id"));
		name = json_string_value(json_array_get(json_object_get(entry, "names"), 0));
		if (id && strlen(id) == CONTAINER_ID_LENGTH && name && *name)
			put(source, id, CONTAINER_ID_LENGTH, name);
	}
}

static bool podman_name(const struct containers *c, struct source *source, const char *path,
			const char *id, char *name, size_t size)
{
	uint64_t since_ns = clock_mono_ns();
	json_t *json;

	if (find(source, id, CONTAINER_ID_LENGTH, name, size))
		return true;
	if (!is_due(source->next_ns))
		return false;
	json = read_json(c, path, &source->st);
	put_podman(source, json);
	json_decref(json);
	source->next_ns = next_time(since_ns);
	return find(source, id, CONTAINER_ID_LENGTH, name, size);
}

/* ---- users ---- */

/* In /etc/passwd; users of a directory service are not there. */
static char *find_home(const struct containers *c, uint32_t uid)
{
	struct passwd entry, *found = NULL;
	struct bounded_text text;
	char buf[1024], *home = NULL;
	FILE *file;

	if (!read_file(c, "/etc/passwd", NULL, &text))
		return NULL;
	file = text.len ? fmemopen(text.text, text.len, "r") : NULL;
	while (file && !home && !fgetpwent_r(file, &entry, buf, sizeof(buf), &found))
		if (found->pw_uid == uid)
			home = strdup(found->pw_dir);
	if (file)
		fclose(file);
	bounded_text_free(&text);
	return home;
}

/* NULL: too many. */
static struct user *find_user(struct containers *c, uint32_t uid)
{
	struct user *user;

	for (size_t i = 0; i < c->n_users; i++)
		if (c->users[i].uid == uid)
			return &c->users[i];
	if (c->n_users == MAX_USERS)
		return NULL;
	user = &c->users[c->n_users++];
	user->uid = uid;
	user->home = find_home(c, uid);
	return user;
}

/* All files of a user, whatever they contain, get a share of the time. */
static bool has_time(struct user *user)
{
	uint64_t now = clock_mono_ns(), left;

	left = user->at_ns ? user->left_ns + (now - user->at_ns) / READ_SHARE : USER_TIME;
	user->left_ns = left < USER_TIME ? left : USER_TIME;
	user->at_ns = now;
	return user->left_ns;
}

static void take_time(struct user *user)
{
	uint64_t took = clock_mono_ns() - user->at_ns;

	user->left_ns -= took < user->left_ns ? took : user->left_ns;
	user->at_ns += took;
}

static bool user_name(struct containers *c, uint32_t uid, const char *id, char *name, size_t size)
{
	struct user *user = find_user(c, uid);
	char path[PATH_MAX];
	bool found;

	if (!user || !user->home || !has_time(user))
		return false;
	snprintf(path, sizeof(path),
		 "%s/.local/share/containers/storage/overlay-containers/containers.json",
		 user->home);
	found = podman_name(c, &user->podman, path, id, name, size);
	if (!found) {
		snprintf(path, sizeof(path), "%s/.local/share/docker", user->home);
		found = docker_name(c, &user->docker, path, id, name, size);
	}
	take_time(user);
	return found;
}

bool containers_name(struct containers *c, const char *id, uint32_t user, char *name, size_t size)
{
	if (user != CGROUP_NO_USER)
		return user_name(c, user, id, name, size);
	return kubernetes_name(c, id, name, size) ||
	       podman_name(c, &c->podman,
			   "/var/lib/containers/storage/overlay-containers/containers.json", id,
			   name, size) ||
	       podman_name(c, &c->podman_volatile,
			   "/run/containers/storage/overlay-containers/volatile-containers.json",
			   id, name, size) ||
	       docker_name(c, &c->docker, "/var/lib/docker", id, name, size); /* of each a file */
}
