/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the counters of kvm's programs are read while they count. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/kvm/banks.h"
#include "cmd/kvm/latency.h"

#define CPUS   2
#define SLOTS  3
#define STRIDE 8
#define KEYS   2

struct programs {
	uint32_t counting;
	uint64_t counts[CPUS][KVM_BANKS][STRIDE];
	struct kvm_key_row keys[KEYS];
	struct bank_arrays arrays;
};

static struct banks *open_banks(struct programs *p)
{
	struct banks *b;

	memset(p, 0, sizeof(*p));
	p->counting = KVM_BANKS;
	p->arrays =
	    (struct bank_arrays){ &p->counting, &p->counts[0][0][0], CPUS, SLOTS, STRIDE, p->keys,
				  KEYS };
	assert_int_equal(banks_open(&p->arrays, &b), 0);
	return b;
}

/* What a program does that has seen bank @bank active. */
static void count(struct programs *p, uint32_t bank, size_t cpu, size_t slot)
{
	if (bank >= KVM_BANKS)
		return;
	p->counts[cpu][bank][slot]++;
	p->keys[1].key.tgid = 77;
	p->keys[1].counts[bank]++;
}

static void test_intervals(void **state)
{
	struct programs p;
	struct banks *b = open_banks(&p);
	struct kvm_key key;
	uint32_t before;

	(void)state;
	banks_swap(b);
	assert_int_equal(banks_active(b), KVM_BANKS); /* not before the start */
	banks_start(b);
	count(&p, banks_active(b), 0, 1);
	count(&p, banks_active(b), 1, 1);
	before = banks_active(b);
	banks_swap(b);
	assert_int_not_equal(banks_active(b), before);
	assert_int_equal(banks_slot(b, 0), 0);
	assert_int_equal(banks_slot(b, 1), 2);
	assert_int_equal(banks_key(b, 0, &key), 0);
	assert_int_equal(banks_key(b, 1, &key), 2);
	assert_int_equal(key.tgid, 77);
	/* of the next interval */
	count(&p, banks_active(b), 1, 1);
	assert_int_equal(banks_slot(b, 1), 2);
	/* one that was held up for a whole interval */
	count(&p, before, 0, 2);
	banks_swap(b);
	assert_int_equal(banks_slot(b, 1), 3);
	assert_int_equal(banks_slot(b, 2), 0);
	banks_stop(b);
	assert_int_equal(banks_slot(b, 2), 1);
	assert_int_equal(banks_key(b, 1, &key), 4);
	assert_int_equal(banks_active(b), KVM_BANKS);
	banks_swap(b);
	assert_int_equal(banks_active(b), KVM_BANKS); /* for good */
	assert_int_equal(banks_slot(b, 1), 3);
	banks_close(b);
}

/* ---- rounds ---- */

static uint64_t rounds[KVM_ROUNDS];

static uint64_t round_of(uint32_t tid, uint32_t bank)
{
	return (uint64_t)tid << 32 | KVM_ROUND_OPEN | bank;
}

/* A thread that is in the middle of a round when the interval is to end. */
static void *end_late(void *arg)
{
	struct programs *p = arg;
	uint32_t tid = (uint32_t)gettid();

	__atomic_store_n(&rounds[7], round_of(tid, 0), __ATOMIC_SEQ_CST);
	while (!(__atomic_load_n(&p->counting, __ATOMIC_SEQ_CST) & KVM_CHANGING))
		;
	for (volatile unsigned int i = 0; i < 20000000; i++)
		;
	count(p, 0, 0, 1);
	__atomic_store_n(&rounds[7], (uint64_t)tid << 32, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A thread's counts until the end of its round belong to the interval. */
static void test_round_ends(void **state)
{
	struct programs p;
	struct banks *b = open_banks(&p);
	pthread_t thread;

	(void)state;
	banks_close(b);
	p.arrays.rounds = rounds;
	assert_int_equal(banks_open(&p.arrays, &b), 0);
	banks_start(b);
	assert_int_equal(pthread_create(&thread, NULL, end_late, &p), 0);
	while (!__atomic_load_n(&rounds[7], __ATOMIC_SEQ_CST))
		;
	banks_swap(b);
	assert_false(p.counting & KVM_CHANGING);
	assert_int_equal(KVM_BANK_BEFORE(p.counting), 0);
	assert_int_equal(banks_slot(b, 1), 1);
	pthread_join(thread, NULL);
	/* Rounds of ended threads, and of the other bank, are not waited for. */
	rounds[8] = round_of(0x7fffffff, 1);
	rounds[9] = round_of((uint32_t)gettid(), 0);
	banks_stop(b);
	assert_int_equal(banks_active(b), KVM_BANKS);
	assert_int_equal(banks_slot(b, 1), 1);
	banks_close(b);
}

static void test_reset(void **state)
{
	struct programs p;
	struct banks *b = open_banks(&p);
	struct kvm_key key;

	(void)state;
	banks_start(b);
	for (size_t i = 0; i < 3; i++) {
		count(&p, banks_active(b), 0, 0);
		banks_swap(b);
	}
	banks_reset(b);
	assert_int_equal(banks_slot(b, 0), 0);
	assert_int_equal(banks_key(b, 1, &key), 0);
	count(&p, banks_active(b), 1, 0);
	banks_stop(b);
	assert_int_equal(banks_slot(b, 0), 1);
	assert_int_equal(banks_key(b, 1, &key), 1);
	banks_close(b);
	banks_swap(NULL);
	banks_stop(NULL);
	banks_close(NULL);
}

/* ---- a row that a program begins to use while it is read ---- */

#define TRAP_PAGES 4

static char *pages;
static size_t page_size;
static void (*publish)(void);

static struct kvm_key_row *key_row(void)
{
	return (struct kvm_key_row *)(void *)(pages + page_size -
					      offsetof(struct kvm_key_row, counts));
}

static struct kvm_latency_row *latency_row(void)
{
	return (struct kvm_latency_row *)(void *)(pages + page_size -
						  offsetof(struct kvm_latency_row, latency));
}

static void publish_key(void)
{
	key_row()->key = (struct kvm_key){ 5, 1, 12, 34 };
	key_row()->counts[0] = 1;
}

static void publish_latency(void)
{
	latency_row()->key = (struct kvm_latency_key){ 1, 12, 34, 0 };
	latency_row()->latency.exits = 1;
}

static void on_touch(int signo)
{
	(void)signo;
	mprotect(pages + page_size, page_size, PROT_READ | PROT_WRITE);
	publish();
}

/* The key of the row is at the end of one page, its counts are on the next, and when those are
 * touched for the first time both are written. */
static void lay_trap(void (*with)(void))
{
	struct sigaction action = { .sa_handler = on_touch, .sa_flags = (int)SA_RESETHAND };

	publish = with;
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	pages = mmap(NULL, TRAP_PAGES * page_size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + page_size, page_size, PROT_NONE), 0);
	assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
}

static void test_key_in_the_making(void **state)
{
	struct programs p;
	struct banks *b = open_banks(&p);
	struct kvm_key key;

	(void)state;
	banks_close(b);
	lay_trap(publish_key);
	p.arrays.keys = key_row();
	p.arrays.n_keys = 1;
	assert_int_equal(banks_open(&p.arrays, &b), 0);
	banks_start(b);
	banks_swap(b);
	assert_int_equal(banks_key(b, 0, &key), 1);
	assert_int_equal(key.event, 5);
	assert_int_equal(key.reason, 12);
	banks_close(b);
	munmap(pages, TRAP_PAGES * page_size);
}

static void test_latency_in_the_making(void **state)
{
	struct latency l = { NULL };

	(void)state;
	_Static_assert(2 * sizeof(struct kvm_latency_row) > 4096, "on another page");
	lay_trap(publish_latency);
	/* The last row that is in use is found before. */
	latency_row()[2] = (struct kvm_latency_row){ .key.tgid = 35, .latency.exits = 1 };
	assert_int_equal(latency_read(&l, latency_row(), 3, KVM_BANKS, NULL), 0);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.rows[0].key.tgid, 34);
	assert_int_equal(l.rows[0].key.reason, 12);
	latency_free(&l);
	munmap(pages, TRAP_PAGES * page_size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_round_ends),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_key_in_the_making),
		cmocka_unit_test(test_latency_in_the_making),
	};

	return cmocka_run_group_tests_name("kvm_banks", tests, NULL, NULL);
}
