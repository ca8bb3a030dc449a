/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMING_CGROUP_NAMES_H
#define IOTRACE_CORE_NAMING_CGROUP_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Information in the path of a cgroup: systemd's unit, the container, the pod.  The user to whom a
 * cgroup is delegated chooses the names below it freely.  So the container is the outermost one;
 * cgroups below a service or a scope belong to that unit, except for users' service managers, which
 * have units of their own; and names made by other users begin with their owner (cgroup_label()).
 */

struct text_part {
	const char *at; /* in the path; NULL: none */
	size_t len;
};

#define CONTAINER_ID_LENGTH 64 /* hexadecimal digits */
#define CGROUP_NO_USER	    UINT32_MAX

struct cgroup_parts {
	struct text_part unit;	    /* in systemd's spelling, "x\x2dy.service" */
	struct text_part container; /* its id or name */
	struct text_part pod;	    /* UID of a Kubernetes pod, id of a podman pod */
	bool has_container_id;
	bool container_in_unit, pod_in_unit; /* below the unit, which is not a slice */
	uint32_t user;		  /* the service manager that this is below: user@UID.service */
	struct text_part manager; /* that unit */
};

enum cgroup_part { CGROUP_PART_UNIT, CGROUP_PART_CONTAINER, CGROUP_PART_POD };

/* Parses @path below the root of the hierarchy ("/system.slice/x.service"). */
void cgroup_parts(const char *path, struct cgroup_parts *out);

/* Does @part, with systemd's escapes ("\x2d") or literally, equal @text? */
bool cgroup_part_is(const struct text_part *part, const char *text);

/* The owner of @what: a user's service manager, or the unit that a container or pod is below.  NULL
 * in the result: it is the system's own. */
struct text_part cgroup_owner(const struct cgroup_parts *parts, enum cgroup_part what);

/* Writes the displayed form of @name: after its owner and a slash, which no other user can put
 * there ("user@1000.service/x.service").  At most @size bytes with the NUL. */
void cgroup_label(const struct text_part *owner, const char *name, char *buf, size_t size);

/* Writes @part without systemd's escapes: at most @size bytes with the NUL. */
void cgroup_unescape(const struct text_part *part, char *buf, size_t size);

#endif
