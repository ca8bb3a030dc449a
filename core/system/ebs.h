/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long Amazon EBS volumes were over their limits, by their own account. */
#ifndef IOTRACE_CORE_SYSTEM_EBS_H
#define IOTRACE_CORE_SYSTEM_EBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * On Nitro instances an EBS volume is an NVMe disk whose log page 0xD0 has counters ("detailed
 * performance statistics").  The layout is from ebsnvme in amazon-ec2-utils, and the plugin
 * amzn in nvme-cli: little-endian, a magic number at 0, ten counters of 64 bits from 8 on, the
 * length of the volume's queue at 88, and two histograms from 512 on.
 */
#define EBS_PAGE_SIZE 4096

/* Both kinds of limits, of the volume and of the instance for all its volumes. */
enum ebs_limit {
	EBS_VOLUME_IOPS,
	EBS_VOLUME_THROUGHPUT,
	EBS_INSTANCE_IOPS,
	EBS_INSTANCE_THROUGHPUT,
	EBS_LIMITS,
};

/* Operations, bytes and times of reads and writes, then for each limit the us over it. */
#define EBS_COUNTERS 10

struct ebs_counters {
	uint64_t at[EBS_COUNTERS];
};

/* Reads the page, of @size bytes.  False: it is not this page. */
bool ebs_parse(const void *page, size_t size, struct ebs_counters *out);

/* Fills @over_ns with the time over each limit between two pages, which were read @elapsed_ns
 * apart. False: these are pages of two volumes, since a counter went back, or has more time than
 * passed. */
bool ebs_over(const struct ebs_counters *before, const struct ebs_counters *now,
	      uint64_t elapsed_ns, uint64_t over_ns[EBS_LIMITS]);

struct ebs_volume {
	char disk[32];	     /* nvme1n1 */
	char controller[32]; /* nvme1, a character device */
	dev_t dev;	     /* of the controller */
};

/* Calls @each with each NVMe disk whose model, in @sys ("/sys"), is EBS's.  The disk is not opened.
 * (A disk with several paths has no controller here.  EBS volumes have one path.) */
void ebs_each(const char *sys, void (*each)(void *ctx, const struct ebs_volume *volume), void *ctx);

/*
 * Reads the page of the struct ebs_volume @volume to @page, of EBS_PAGE_SIZE bytes.  Returns the
 * descriptor of the controller, or -errno.  It needs CAP_SYS_ADMIN.  It may wait for a controller
 * that does not answer, and cannot be killed then: it is for bounded_open().
 */
int ebs_ask(void *volume, void *page);

#endif
