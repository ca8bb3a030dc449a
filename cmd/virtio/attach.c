// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/virtio/attach.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <string.h>

#include "core/base/array.h"
#include "core/system/kallsyms.h"

#define COUNT(array) (ARRAY_SIZE(array))

/*
 * The functions that add buffers to a queue.  They are exported to drivers, so that none is
 * inlined, but each kernel has only some: the premapped ones since 6.13, _cache_clean since 7.1.
 * fexit, not fentry: whether the queue accepted the buffer is known only at the end.
 */
#define ENTRY(name, function, fexit, kprobe)                                                       \
	static const struct hook_alt name##_alts[] = {                                             \
		{ HOOK_FEXIT, function, 0, { fexit }, 0, "virtio_ring" },                          \
		{ HOOK_KPROBE, function, 0, { kprobe "_kp", kprobe "_kr" }, 0, "virtio_ring" },    \
	}

ENTRY(sgs, "virtqueue_add_sgs", "sgs_fx", "sgs");
ENTRY(out, "virtqueue_add_outbuf", "out_fx", "out");
ENTRY(in, "virtqueue_add_inbuf", "in_fx", "in");
ENTRY(in_ctx, "virtqueue_add_inbuf_ctx", "in_ctx_fx", "in_ctx");
ENTRY(out_pm, "virtqueue_add_outbuf_premapped", "out_pm_fx", "out_pm");
ENTRY(in_pm, "virtqueue_add_inbuf_premapped", "in_pm_fx", "in_pm");
ENTRY(in_cc, "virtqueue_add_inbuf_cache_clean", "in_cc_fx", "in_cc");
ENTRY(get, "virtqueue_get_buf", "get_fx", "get");
ENTRY(get_ctx, "virtqueue_get_buf_ctx", "get_ctx_fx", "get_ctx");
ENTRY(detach, "virtqueue_detach_unused_buf", "detach_fx", "detach");

static const struct hook_alt del_alts[] = {
	{ HOOK_FENTRY, "vring_del_virtqueue", 0, { "del_fe" }, 0, "virtio_ring" },
	{ HOOK_KPROBE, "vring_del_virtqueue", 0, { "del_kp" }, 0, "virtio_ring" },
};

static const struct hook_alt irq_alts[] = {
	{ HOOK_RAW_TP, "irq_handler_entry", 2, { "irq_raw" }, .helper = "bpf_loop" }, /* 5.17 */
};

static const struct hook_event adds[] = {
	{ "add_sgs", sgs_alts, COUNT(sgs_alts), true },
	{ "add_outbuf", out_alts, COUNT(out_alts), true },
	{ "add_inbuf", in_alts, COUNT(in_alts), true },
	{ "add_inbuf_ctx", in_ctx_alts, COUNT(in_ctx_alts), true },
	{ "add_outbuf_premapped", out_pm_alts, COUNT(out_pm_alts), true },
	{ "add_inbuf_premapped", in_pm_alts, COUNT(in_pm_alts), true },
	{ "add_inbuf_cache_clean", in_cc_alts, COUNT(in_cc_alts), true },
};

static const struct hook_event follows[] = {
	{ "get_buf", get_alts, COUNT(get_alts), true },
	{ "get_buf_ctx", get_ctx_alts, COUNT(get_ctx_alts), true },
	{ "detach", detach_alts, COUNT(detach_alts), true },
	{ "delete", del_alts, COUNT(del_alts), true },
};

static const struct hook_event irq = { "irq", irq_alts, COUNT(irq_alts), true };

_Static_assert(COUNT(adds) + COUNT(follows) <= VIRTIO_EVENTS_MAX, "room");

size_t virtio_events(enum attach_method method, bool follow, struct hook_event *events)
{
	size_t n = 0;

	if (method == ATTACH_IRQ) {
		events[n++] = irq;
		return n;
	}
	memcpy(events, adds, sizeof(adds));
	n = COUNT(adds);
	if (follow) {
		memcpy(events + n, follows, sizeof(follows));
		n += COUNT(follows);
	}
	return n;
}

/* How many events whose names begin with @prefix are in use. */
static size_t in_use(const struct hooks *hooks, const char *prefix)
{
	size_t n, used = 0;
	const struct hook_choice *choice = hooks_choices(hooks, &n);

	for (size_t i = 0; i < n; i++)
		used += choice[i].chosen && strncmp(choice[i].event, prefix, strlen(prefix)) == 0;
	return used;
}

bool virtio_sees_adds(const struct hooks *hooks)
{
	return in_use(hooks, "add_") > 0;
}

bool virtio_sees_gets(const struct hooks *hooks)
{
	return in_use(hooks, "get_") == 2;
}

/* For the first event, whose function all kernels have. */
void virtio_why_no_adds(const struct hooks *hooks, char *why, size_t size)
{
	size_t n;
	const struct hook_choice *told = hooks_telling(hooks_choices(hooks, &n), adds[0].n);

	snprintf(why, size, "%s:%s: %s", told->kind, told->target, told->reason);
}

/* ---- interrupts ---- */

int virtio_sees_irqs(enum attach_method method, const struct hooks *hooks, const char *why,
		     struct error *err)
{
	size_t n;
	const struct hook_choice *choice = hooks_choices(hooks, &n);

	if (method != ATTACH_IRQ || in_use(hooks, irq.name))
		return 0;
	error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
		  "no function hooks (%s), and no interrupts (%s)", why, choice->reason);
	error_hint(err, "run with -v to see every hook that was tried");
	return -ENOTSUP;
}

#define FEATURE_PACKED 34 /* VIRTIO_F_RING_PACKED */

/* "0110...": is bit @bit of the device's features set? */
static bool has_feature(const char *device, int bit)
{
	char path[PATH_MAX], text[129] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/features", device);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	return strlen(text) > (size_t)bit && text[bit] == '1';
}

/* How many devices match @o, and how many of them have packed rings. */
static void count_devices(const struct virtio_options *o, const char *root, size_t *all,
			  size_t *packed)
{
	char pattern[PATH_MAX];
	glob_t found = { 0 };

	*all = *packed = 0;
	snprintf(pattern, sizeof(pattern), "%s/sys/bus/virtio/devices/%s", root ? root : "",
		 o->device ? o->device : "*");
	if (glob(pattern, 0, NULL, &found))
		found.gl_pathc = 0;
	*all = found.gl_pathc;
	for (size_t i = 0; i < found.gl_pathc; i++)
		*packed += has_feature(found.gl_pathv[i], FEATURE_PACKED);
	globfree(&found);
}

int virtio_irq_check(const struct virtio_options *o, const char *root, const char *why,
		     uint64_t handlers[VIRTIO_HANDLERS], struct error *err)
{
	static const char *const names[VIRTIO_HANDLERS] = {
		[HANDLER_QUEUE] = "vring_interrupt",
		[HANDLER_PCI_QUEUES] = "vp_vring_interrupt",
		[HANDLER_PCI_SHARED] = "vp_interrupt",
		[HANDLER_MMIO_SHARED] = "vm_interrupt",
	};
	size_t all, packed;

	if (o->latency) {
		error_set(err, STATUS_UNSUPPORTED, -ENOTSUP,
			  "no latency: the functions that add buffers cannot be traced: %s", why);
		error_hint(err, "-x alone shows the bytes used");
		return -ENOTSUP;
	}
	if (kallsyms_find(NULL, names, handlers, VIRTIO_HANDLERS) <= 0) {
		error_set(err, STATUS_UNSUPPORTED, -ENOENT,
			  "cannot find the addresses of the virtio interrupt handlers");
		error_hint(err, "%s", kallsyms_hint());
		return -ENOENT;
	}
	count_devices(o, root, &all, &packed);
	if (all && packed == all) {
		error_set(
		    err, STATUS_UNSUPPORTED, -ENOTSUP,
		    "all queues have packed rings, whose interrupts do not show which buffers "
		    "were used");
		error_hint(err, "function hooks would show them: %s", why);
		return -ENOTSUP;
	}
	return 0;
}

/* ---- -D ---- */

int virtio_list_programs(const struct hooks *hooks, const struct hook_event *events, size_t n,
			 FILE *stream)
{
	size_t n_choices;
	/* In the order of the table. */
	const struct hook_choice *choice = hooks_choices(hooks, &n_choices);

	for (size_t e = 0; e < n; e++)
		for (size_t i = 0; i < events[e].n; i++, choice++)
			for (size_t p = 0; choice->chosen && p < HOOK_PROGS; p++) {
				const char *name = events[e].alts[i].progs[p];

				if (name && fprintf(stream, "%-12s %s:%s\n", name, choice->kind,
						    choice->target) < 0)
					return -errno;
			}
	return 0;
}
