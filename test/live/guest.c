// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest whose exits are known: each vCPU writes N times to a device that does not exist (x86: a
 * port, in real mode; arm64: an address), and then halts (arm64: switches itself off). That is N
 * times KVM_EXIT_IO (KVM_EXIT_MMIO) and once KVM_EXIT_HLT (KVM_EXIT_SYSTEM_EVENT).
 *
 *   guest [-w] [-k] [-q] [-v VCPUS] [-c CPU] [-name NAME] N
 *
 * -w waits for a line of standard input before the first exit, -k keeps the machine until standard
 * input ends, -c pins it to a CPU.  -name is only there to be found in the command line.  One line
 * of JSON at the end: {"writes":...,"ends":...,"other":...,"ns":...}, of all vCPUs together; with
 * -q none.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_VCPUS 16

struct vcpu {
	pthread_t thread;
	int fd;
	struct kvm_run *run;
	unsigned long writes, ends, other;
};

static void die(const char *what)
{
	fprintf(stderr, "guest: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- the processor's: where its code begins, the code, and the registers that it begins with ----
 */

#ifdef __x86_64__

#define CODE_AT	   0x1000
#define PORT	   0x80
#define EXIT_WRITE KVM_EXIT_IO
#define EXIT_END   KVM_EXIT_HLT

/* mov ecx, N; jecxz end; again: out PORT, al; dec ecx; jnz again; end: hlt */
static void write_code(uint8_t *to, uint32_t n)
{
	const uint8_t code[] = {
		0x66,
		0xb9,
		(uint8_t)n,
		(uint8_t)(n >> 8),
		(uint8_t)(n >> 16),
		(uint8_t)(n >> 24),
		0x67,
		0xe3,
		0x06, /* jecxz end */
		0xe6,
		PORT,
		0x66,
		0x49, /* dec ecx */
		0x75,
		0xfa,
		0xf4,
	};

	memcpy(to, code, sizeof(code));
}

static void set_registers(int vm, int vcpu, uint32_t n)
{
	struct kvm_regs regs = { .rip = CODE_AT, .rflags = 2 };
	struct kvm_sregs sregs;

	(void)vm;
	(void)n;
	if (ioctl(vcpu, KVM_GET_SREGS, &sregs))
		die("KVM_GET_SREGS");
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs) || ioctl(vcpu, KVM_SET_REGS, &regs))
		die("KVM_SET_REGS");
}

#else

#define CODE_AT	   0x40000000
#define DEVICE	   0x10000000
#define SYSTEM_OFF 0x84000008 /* of PSCI */
#define EXIT_WRITE KVM_EXIT_MMIO
#define EXIT_END   KVM_EXIT_SYSTEM_EVENT

/* cbz x1, end; again: str w3, [x2]; subs x1, x1, #1; b.ne again; end: hvc #0; b . */
static void write_code(uint8_t *to, uint32_t n)
{
	static const uint32_t code[] = { 0xb4000081, 0xb9000043, 0xf1000421,
					 0x54ffffc1, 0xd4000002, 0x14000000 };

	(void)n;
	memcpy(to, code, sizeof(code));
}

static void set_register(int vcpu, unsigned int number, uint64_t value)
{
	const struct kvm_one_reg reg = {
		.id = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | 2 * number,
		.addr = (uintptr_t)&value,
	};

	if (ioctl(vcpu, KVM_SET_ONE_REG, &reg))
		die("KVM_SET_ONE_REG");
}

static void set_registers(int vm, int vcpu, uint32_t n)
{
	struct kvm_vcpu_init init;

	if (ioctl(vm, KVM_ARM_PREFERRED_TARGET, &init))
		die("KVM_ARM_PREFERRED_TARGET");
	init.features[0] |= 1U << KVM_ARM_VCPU_PSCI_0_2;
	if (ioctl(vcpu, KVM_ARM_VCPU_INIT, &init))
		die("KVM_ARM_VCPU_INIT");
	set_register(vcpu, 0, SYSTEM_OFF);
	set_register(vcpu, 1, n);
	set_register(vcpu, 2, DEVICE);
	set_register(vcpu, 32, CODE_AT); /* the program counter */
}

#endif

/* ---- the machine ---- */

static void add_memory(int vm, uint32_t n)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = CODE_AT,
		.memory_size = size,
		.userspace_addr = (uintptr_t)memory,
	};

	if (memory == MAP_FAILED)
		die("mmap");
	write_code(memory, n);
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		die("KVM_SET_USER_MEMORY_REGION");
}

static void add_vcpu(int kvm, int vm, unsigned int number, struct vcpu *v)
{
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	v->fd = ioctl(vm, KVM_CREATE_VCPU, number);
	if (v->fd < 0)
		die("KVM_CREATE_VCPU");
	v->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (v->run == MAP_FAILED)
		die("mmap");
}

static void *run_vcpu(void *arg)
{
	struct vcpu *v = arg;

	for (;;) {
		if (ioctl(v->fd, KVM_RUN, 0)) {
			if (errno == EINTR)
				continue;
			die("KVM_RUN");
		}
		if (v->run->exit_reason == EXIT_WRITE)
			v->writes++;
		else
			break;
	}
	if (v->run->exit_reason == EXIT_END)
		v->ends++;
	else
		v->other++;
	return NULL;
}

static void run_all(int vm, struct vcpu *vcpus, unsigned int n, uint32_t n_writes, bool quiet)
{
	unsigned long writes = 0, ends = 0, other = 0;
	uint64_t begin = now_ns(CLOCK_MONOTONIC), begin_cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);

	/* One after the other: two at once hang a kernel whose SVM is emulated (QEMU 7.2, 2 CPUs).
	 */
	for (unsigned int i = 0; i < n; i++) {
		/* Not before: arm64's SYSTEM_OFF stops all vCPUs. */
		set_registers(vm, vcpus[i].fd, n_writes);
		if (pthread_create(&vcpus[i].thread, NULL, run_vcpu, &vcpus[i]))
			die("pthread_create");
		pthread_join(vcpus[i].thread, NULL);
		writes += vcpus[i].writes;
		ends += vcpus[i].ends;
		other += vcpus[i].other;
	}
	if (quiet)
		return;
	printf("{\"writes\":%lu,\"ends\":%lu,\"other\":%lu,\"ns\":%llu,\"cpu_ns\":%llu}\n", writes,
	       ends, other, (unsigned long long)(now_ns(CLOCK_MONOTONIC) - begin),
	       (unsigned long long)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu));
	fflush(stdout);
}

static void pin(unsigned long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static void wait_for_line(void)
{
	for (int c = getchar(); c != '\n' && c != EOF;)
		c = getchar();
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = text ? strtoul(text, &end, 10) : 0;
	if (!text || !*text || *end || errno || n > UINT32_MAX) {
		fprintf(stderr, "guest [-w] [-k] [-q] [-v VCPUS] [-c CPU] [-name NAME] N\n");
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	bool wait = false, keep = false, quiet = false;
	struct vcpu vcpus[MAX_VCPUS] = { 0 };
	unsigned long n_vcpus = 1;
	uint32_t n;
	int i, kvm, vm;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "-w") == 0)
			wait = true;
		else if (strcmp(argv[i], "-k") == 0)
			keep = true;
		else if (strcmp(argv[i], "-q") == 0)
			quiet = true;
		else if (strcmp(argv[i], "-name") == 0)
			i++;
		else if (strcmp(argv[i], "-c") == 0)
			pin(number(argv[++i]));
		else if (strcmp(argv[i], "-v") == 0)
			n_vcpus = number(argv[++i]);
		else
			number(NULL);
	}
	if (i != argc - 1 || !n_vcpus || n_vcpus > MAX_VCPUS)
		number(NULL);
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		die("/dev/kvm");
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0)
		die("KVM_CREATE_VM");
	n = (uint32_t)number(argv[i]);
	add_memory(vm, n);
	for (unsigned int v = 0; v < n_vcpus; v++)
		add_vcpu(kvm, vm, v, &vcpus[v]);
	if (wait) {
		puts("ready");
		fflush(stdout);
		wait_for_line();
	}
	run_all(vm, vcpus, (unsigned int)n_vcpus, n, quiet);
	while (keep && getchar() != EOF)
		;
	return 0;
}
