/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CORE_NAMING_CONTAINERS_H
#define IOTRACE_CORE_NAMING_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Names of containers and pods, from the files that docker, podman and Kubernetes write; no runtime
 * is asked.  A user's container is looked up in his own files only: he could give one of his
 * cgroups the id of another's container.
 */
struct containers;

/* @root: below it are the files; NULL: "/".  0 or -ENOMEM. */
int containers_open(const char *root, struct containers **out);
void containers_free(struct containers *c);

/* The name of container @id (CONTAINER_ID_LENGTH digits) of user @user (CGROUP_NO_USER: the
 * system's), "NAMESPACE/POD/NAME" in Kubernetes: false, and @name unchanged, if no file has it
 * (yet).  A name once found stays, and its file is not read again. */
bool containers_name(struct containers *c, const char *id, uint32_t user, char *name, size_t size);

/* "NAMESPACE/POD" of the pod with this UID, whose dashes may be underscores. */
bool containers_pod(struct containers *c, const char *uid, size_t len, char *name, size_t size);

#endif
