// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/naming/cgroup_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

#define PART(text) ((struct text_part){ (text), sizeof(text) - 1 })

static bool starts_with(const struct text_part *part, const char *prefix)
{
	size_t len = strlen(prefix);

	return part->len > len && memcmp(part->at, prefix, len) == 0;
}

static bool ends_with(const struct text_part *part, const char *suffix)
{
	size_t len = strlen(suffix);

	return part->len > len && memcmp(part->at + part->len - len, suffix, len) == 0;
}

static bool equals(const struct text_part *part, const char *text)
{
	return part->len == strlen(text) && memcmp(part->at, text, part->len) == 0;
}

/* @part between @prefix and @suffix, if it has both; otherwise none. */
static struct text_part between(const struct text_part *part, const char *prefix,
				const char *suffix)
{
	size_t before = strlen(prefix), behind = strlen(suffix);
	struct text_part inner = { part->at + before, part->len - before };

	if (!starts_with(part, prefix) || (behind && !ends_with(&inner, suffix)))
		return (struct text_part){ 0 };
	inner.len -= behind;
	return inner;
}

/* ---- units ---- */

/* The types of units that have cgroups. */
static bool is_unit(const struct text_part *part)
{
	static const char *const types[] = { ".service", ".scope", ".slice",
					     ".socket",	 ".mount", ".swap" };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (ends_with(part, types[i]))
			return true;
	return false;
}

static uint32_t user_of(const struct text_part *part)
{
	struct text_part digits = between(part, "user@", ".service");
	unsigned long long uid = 0;

	if (!digits.at || digits.len > 10)
		return CGROUP_NO_USER;
	for (size_t i = 0; i < digits.len; i++) {
		if (!isdigit((unsigned char)digits.at[i]))
			return CGROUP_NO_USER;
		uid = uid * 10 + (unsigned int)(digits.at[i] - '0');
	}
	return uid < CGROUP_NO_USER ? (uint32_t)uid : CGROUP_NO_USER;
}

/* ---- containers ---- */

static bool is_hex(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)text[i]) && (text[i] < 'a' || text[i] > 'f'))
			return false;
	return true;
}

/*
 * An id at the end: "ID", "docker-ID.scope", "cri-containerd-ID.scope", "crio-ID.scope",
 * "libpod-ID.scope", "libpod-ID", and containerd's version of systemd's form if it does not use
 * systemd, "SLICE:cri-containerd:ID". conmon is CRI-O's and podman's monitor of a container.
 */
static struct text_part id_of(const struct text_part *part)
{
	struct text_part scope = between(part, "", ".scope"), id, none = { 0 };
	size_t before;

	id = scope.at ? scope : *part;
	if (id.len < CONTAINER_ID_LENGTH)
		return none;
	before = id.len - CONTAINER_ID_LENGTH;
	if (before && id.at[before - 1] != '-' && id.at[before - 1] != ':')
		return none;
	if (starts_with(&id, "crio-conmon-") || starts_with(&id, "libpod-conmon-"))
		return none;
	id.at += before;
	id.len = CONTAINER_ID_LENGTH;
	return is_hex(id.at, id.len) ? id : none;
}

/* LXC ("lxc.payload.NAME", before 4.0 "/lxc/NAME"), systemd-nspawn, and machines registered with
 * systemd-machined or made by libvirt without it. */
static struct text_part name_of(const struct text_part *part, const struct text_part *parent)
{
	static const struct {
		const char *prefix, *suffix;
	} forms[] = {
		{ "lxc.payload.", "" },
		{ "machine-", ".scope" },
		{ "systemd-nspawn@", ".service" },
		{ "", ".libvirt-qemu" },
		{ "", ".libvirt-lxc" },
	};
	struct text_part name = { 0 };

	for (size_t i = 0; !name.at && i < ARRAY_SIZE(forms); i++)
		name = between(part, forms[i].prefix, forms[i].suffix);
	if (!name.at && parent->at && (equals(parent, "lxc") || equals(parent, "lxc.payload")))
		name = *part;
	return name;
}

/* ---- pods ---- */

#define POD_UID_LENGTH 36 /* of static pods 32 */

/* "podUID", "kubepods[-QOS]-podUID.slice". */
static struct text_part kubernetes_pod(const struct text_part *part)
{
	struct text_part pod = between(part, "pod", "");
	const char *found = NULL;

	if (!pod.at && starts_with(part, "kubepods-") && ends_with(part, ".slice"))
		found = memmem(part->at, part->len, "-pod", 4);
	if (found) {
		pod.at = found + 4;
		pod.len = part->len - (size_t)(pod.at - part->at) - strlen(".slice");
	}
	if (pod.len != POD_UID_LENGTH && pod.len != POD_UID_LENGTH - 4)
		pod.at = NULL;
	return pod;
}

/* Without systemd "/libpod_parent/ID". */
static struct text_part podman_pod(const struct text_part *part, const struct text_part *parent)
{
	struct text_part pod = between(part, "machine-libpod_pod_", ".slice");

	if (!pod.at)
		pod = between(part, "user-libpod_pod_", ".slice");
	if (!pod.at && parent->at && equals(parent, "libpod_parent"))
		pod = *part;
	if (pod.len != CONTAINER_ID_LENGTH || !is_hex(pod.at, pod.len))
		pod.at = NULL;
	return pod;
}

static struct text_part pod_of(const struct text_part *part, const struct text_part *parent)
{
	const char *colon = memchr(part->at, ':', part->len);
	struct text_part name = *part, pod;

	if (colon)
		name.len = (size_t)(colon - part->at);
	pod = kubernetes_pod(&name);
	return pod.at ? pod : podman_pod(&name, parent);
}

/* ---- paths ---- */

static bool next_part(const char **path, struct text_part *part)
{
	*path += strspn(*path, "/");
	*part = (struct text_part){ *path, strcspn(*path, "/") };
	*path += part->len;
	return part->len > 0;
}

/* A cgroup below a slice, or below a user's service manager, may be a unit. */
enum place { IN_SLICES, IN_UNIT, IN_OTHER };

static void take_unit(struct cgroup_parts *out, const struct text_part *part, enum place *place)
{
	uint32_t user = user_of(part);

	if (*place != IN_SLICES)
		return;
	if (!is_unit(part)) {
		*place = IN_OTHER;
		return;
	}
	out->unit = *part;
	if (user != CGROUP_NO_USER && out->user == CGROUP_NO_USER) {
		out->user = user;
		out->manager = *part;
	} else if (!ends_with(part, ".slice")) {
		*place = IN_UNIT;
	}
}

static void take_part(struct cgroup_parts *out, const struct text_part *part,
		      const struct text_part *parent, enum place *place)
{
	struct text_part pod = pod_of(part, parent);
	bool in_unit = *place == IN_UNIT;

	take_unit(out, part, place);
	if (pod.at && !out->pod.at) {
		out->pod = pod;
		out->pod_in_unit = in_unit;
	}
	if (pod.at == part->at) /* an id that is a pod's */
		return;
	out->container = id_of(part);
	out->has_container_id = out->container.at;
	if (!out->container.at)
		out->container = name_of(part, parent);
	out->container_in_unit = in_unit;
}

void cgroup_parts(const char *path, struct cgroup_parts *out)
{
	struct text_part part, parent = { 0 };
	enum place place = IN_SLICES;

	*out = (struct cgroup_parts){ .user = CGROUP_NO_USER };
	for (; !out->container.at && next_part(&path, &part); parent = part)
		take_part(out, &part, &parent, &place);
}

struct text_part cgroup_owner(const struct cgroup_parts *parts, enum cgroup_part what)
{
	bool in_unit = (what == CGROUP_PART_CONTAINER && parts->container_in_unit) ||
		       (what == CGROUP_PART_POD && parts->pod_in_unit);

	if (parts->manager.at && (what != CGROUP_PART_UNIT || parts->unit.at != parts->manager.at))
		return parts->manager;
	return in_unit ? parts->unit : (struct text_part){ 0 };
}

/* ---- escapes ---- */

/* The next byte of @part from *@i on; "\x00" stays as it is. */
static char next_byte(const struct text_part *part, size_t *i)
{
	const char *at = part->at + *i;
	char digits[3] = "";
	char byte;

	if (part->len - *i < 4 || at[0] != '\\' || at[1] != 'x' ||
	    !isxdigit((unsigned char)at[2]) || !isxdigit((unsigned char)at[3])) {
		++*i;
		return at[0];
	}
	digits[0] = at[2];
	digits[1] = at[3];
	byte = (char)strtoul(digits, NULL, 16);
	*i += byte ? 4 : 1;
	return byte ? byte : at[0];
}

/* systemd writes "_" before names reserved by the kernel ("_cgroup.x.service"). */
static struct text_part without_mark(const struct text_part *part)
{
	struct text_part inner = *part;

	if (inner.len > 1 && inner.at[0] == '_') {
		inner.at++;
		inner.len--;
	}
	return inner;
}

bool cgroup_part_is(const struct text_part *part, const char *text)
{
	struct text_part inner = without_mark(part);
	const char *rest = text;
	size_t i = 0;

	if (equals(part, text))
		return true;
	while (i < inner.len && *rest)
		if (next_byte(&inner, &i) != *rest++)
			return false;
	return i == inner.len && !*rest;
}

void cgroup_unescape(const struct text_part *part, char *buf, size_t size)
{
	struct text_part inner = without_mark(part);
	size_t i = 0, n = 0;

	while (i < inner.len && n + 1 < size)
		buf[n++] = next_byte(&inner, &i);
	buf[n] = 0;
}

void cgroup_label(const struct text_part *owner, const char *name, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = 0;
	if (owner->at) {
		cgroup_unescape(owner, buf, size);
		n = strlen(buf);
	}
	snprintf(buf + n, size - n, "%s%s", n ? "/" : "", name);
}
