/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libbpf's macros, for cppcheck, which does not see the system's headers. */
#define LIBBPF_OPTS(type, name, ...) struct type name = { .sz = sizeof(struct type), __VA_ARGS__ }
#define DECLARE_LIBBPF_OPTS	     LIBBPF_OPTS
#define bpf_object__for_each_program(pos, obj)                                                     \
	for ((pos) = bpf_object__next_program(obj, NULL); (pos);                                   \
	     (pos) = bpf_object__next_program(obj, pos))
#define bpf_object__for_each_map(pos, obj)                                                         \
	for ((pos) = bpf_object__next_map(obj, NULL); (pos); (pos) = bpf_object__next_map(obj, pos))
