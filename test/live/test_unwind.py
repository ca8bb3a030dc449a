#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""User stacks of programs without frame pointers: each is exactly the calls that the program makes."""
import contextlib
import os
import platform
import shutil
import struct
import subprocess
import unittest

import iotest
from iotest import MIB, SCALE, LoopDisk, Tracer, iotrace, mounted, overlay, run, wait_until
from test_stack import Compiled, StackTest

PLAIN = ("-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-g0")

# If WAIT names a FIFO, the program waits after its first round until the test closes the FIFO.
WAIT_C = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void wait_for_test(void)
{
	const char *fifo = getenv("WAIT");
	char none;

	if (!fifo)
		return;
	if (read(open(fifo, O_RDONLY), &none, 1) != 0)
		exit(1);
	unsetenv("WAIT");
}
"""

# Each way writes 4 KiB per round, and begins with the function that has its name.
PROGRAM_C = r"""
#define _GNU_SOURCE
""" + WAIT_C + r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
static int fd;
static void *buf;
static volatile char *page;
#ifdef FILE_BYTES /* execve() itself writes behind the data, in their last page */
static __attribute__((used)) char data[FILE_BYTES] = { 1 };
#endif
int way_plain(int n);
int way_deep(int n);
int way_signal(int n);
int way_vfork(int n);
int way_thread(int n);
int way_coroutine(int n);
int way_library(int n);
/* Takes registers and stack, so that frames differ from each other. */
int NOINLINE put(int n)
{
	volatile char room[200];
	room[n % 200] = (char)n;
	return pwrite(fd, buf, 4096, 0) == 4096 ? n + room[n % 200] : -1;
}
int NOINLINE middle(int n) { int a = n * 3, b = n ^ 5, r = put(n); return r + a * b; }
int NOINLINE way_plain(int n) { volatile long room[n + 4]; room[n] = n; int r = middle(n); return r + (int)room[n]; }
int NOINLINE way_deep(int n) { int r = n ? way_deep(n - 1) : put(n); return r * 3 + n; }
static void NOINLINE on_fault(int signo)
{
	int r = put(signo);
	mprotect((void *)page, 4096, PROT_READ | PROT_WRITE);
	page[1] = (char)r;
}
int NOINLINE fault(int n) { page[0] = (char)n; return page[0] + 1; }
int NOINLINE way_signal(int n)
{
	page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r = fault(n);
	munmap((void *)page, 4096);
	return r + n;
}
int NOINLINE in_child(int n) { int r = put(n); return r + 1; }
int NOINLINE way_vfork(int n)
{
	int status;
	pid_t pid = vfork();
	if (!pid)
		_exit(in_child(n) & 1);
	return (int)waitpid(pid, &status, 0) + n;
}
static void *way_in_thread(void *n) { return (void *)(long)(put((int)(long)n) + 1); }
int NOINLINE way_thread(int n)
{
	pthread_t thread;
	void *r;
	pthread_create(&thread, 0, way_in_thread, (void *)(long)n);
	pthread_join(thread, &r);
	return (int)(long)r + n;
}
static ucontext_t outside, inside;
static void in_coroutine(int n) { volatile int r = put(n); (void)r; }
int NOINLINE way_coroutine(int n)
{
	static char stack[65536];
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = sizeof(stack);
	inside.uc_link = &outside;
	makecontext(&inside, (void (*)(void))in_coroutine, 1, n);
	return swapcontext(&outside, &inside) + n;
}
int NOINLINE way_library(int n)
{
	static int (*lib_call)(int (*)(int), int);
	if (!lib_call)
		lib_call = (int (*)(int (*)(int), int))dlsym(dlopen(getenv("LIBRARY"), RTLD_NOW), "lib_call");
	int r = lib_call(put, n);
	return r + n;
}
static void NOINLINE on_own_stack(int signo) { volatile int r = way_deep(20); (void)r; (void)signo; }
int NOINLINE way_altstack(int n)
{
	static char stack[65536];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_own_stack, .sa_flags = SA_ONSTACK };
	sigaltstack(&other, 0);
	sigaction(SIGUSR1, &action, 0);
	return kill(getpid(), SIGUSR1) + n;
}
int NOINLINE way_huge(int n) { volatile char room[3 << 20]; room[n] = 1; int r = put(n); return r + room[n]; }
int NOINLINE way_aligned(int n)
{
	volatile char room[256] __attribute__((aligned(128)));
	volatile char *more = __builtin_alloca(n * 64 + 64);
	room[n] = more[0] = 1;
	int r = put(n);
	return r + room[n] + more[0];
}
#if defined(__x86_64__)
/* Calls @call with another stack, whose end is @top. */
int switch_stack(int (*call)(int), int n, void *top);
asm(".globl switch_stack\n.type switch_stack, @function\nswitch_stack:\n"
    ".cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset %rbx, -16\n"
    "mov %rsp, %rbx\n.cfi_def_cfa_register %rbx\n"
    "mov %rdi, %rax\nmov %esi, %edi\nmov %rdx, %rsp\ncall *%rax\n"
    "mov %rbx, %rsp\n.cfi_def_cfa_register %rsp\npop %rbx\n.cfi_def_cfa_offset 8\nret\n"
    ".cfi_endproc\n.size switch_stack, .-switch_stack\n");
/* The same, and nothing says so. */
int switch_in_secret(int (*call)(int), int n, void *top);
asm(".globl switch_in_secret\n.type switch_in_secret, @function\nswitch_in_secret:\n"
    "push %rbx\nmov %rsp, %rbx\nmov %rdi, %rax\nmov %esi, %edi\nmov %rdx, %rsp\ncall *%rax\n"
    "mov %rbx, %rsp\npop %rbx\nret\n.size switch_in_secret, .-switch_in_secret\n");
static char own_stack[65536] __attribute__((aligned(16)));
static char *above;
int NOINLINE way_stack_below(int n) { int r = switch_stack(put, n, own_stack + sizeof(own_stack) - 64); return r + 1; }
int NOINLINE way_secret(int n) { int r = switch_in_secret(put, n, own_stack + sizeof(own_stack) - 64); return r + 1; }
static void *to_stack_above(void *n) { return (void *)(long)(switch_stack(put, (int)(long)n, above) + 1); }
/* A thread's stack lies below main()'s stack. */
int NOINLINE way_stack_above(int n)
{
	char room[65536] __attribute__((aligned(16)));
	pthread_t thread;
	void *r;
	above = room + sizeof(room) - 64;
	pthread_create(&thread, 0, to_stack_above, (void *)(long)n);
	pthread_join(thread, &r);
	return (int)(long)r + room[n];
}
#else
#define way_stack_below way_plain
#define way_stack_above way_plain
#define way_secret way_plain
#endif
int main(int argc, char **argv)
{
	static const struct { const char *name; int (*way)(int); int n; } ways[] = {
		{ "plain", way_plain, 3 }, { "deep", way_deep, 99 },
		{ "too_deep", way_deep, 199 }, { "signal", way_signal, 1 },
		{ "vfork", way_vfork, 2 }, { "thread", way_thread, 2 },
		{ "coroutine", way_coroutine, 2 }, { "library", way_library, 2 },
		{ "altstack", way_altstack, 2 }, { "huge", way_huge, 2 },
		{ "aligned", way_aligned, 2 }, { "stack_below", way_stack_below, 2 },
		{ "stack_above", way_stack_above, 2 }, { "secret", way_secret, 2 },
	};
	static const char *const at_once[] = { "plain", "deep", "thread" };
	const char *name = argv[2];
	int r = 0, rounds = atoi(argv[3]);
	fd = open(argv[1], O_RDWR | O_DIRECT);
	buf = aligned_alloc(4096, 4096);
	signal(SIGSEGV, on_fault);
	for (int i = 0; i < 12 && !strcmp(name, "at_once"); i++)
		if (!fork())
			name = at_once[i % 3];
	while (!strcmp(name, "at_once"))
		if (wait(0) < 0)
			return 0;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, name))
			for (int k = 0; k < rounds; k++) {
				r |= ways[i].way(ways[i].n);
				wait_for_test();
			}
	return fd < 0 || argc < 2 ? 1 : r == 12345;
}
"""

LIBRARY_C = r"""
int lib_call(int (*back)(int), int n);
static __attribute__((noinline, noclone)) int lib_inner(int (*back)(int), int n)
{
	volatile long room[40];
	room[n] = n;
	int r = back(n);
	return r + (int)room[n];
}
int lib_call(int (*back)(int), int n) { int r = lib_inner(back, n); return r * 2; }
"""

PROGRAM_CPP = r"""
#include <fcntl.h>
#include <stdexcept>
#include <stdlib.h>
#include <unistd.h>
static int fd;
static void *buf;
extern "C" __attribute__((noinline, noclone)) int put(int n)
{
	return pwrite(fd, buf, 4096, 0) == 4096 ? n + 1 : -1;
}
struct Guard {
	int n;
	__attribute__((noinline)) ~Guard() { n = put(n); }
};
__attribute__((noinline, noclone)) int thrower(int n)
{
	Guard guard = { n };
	if (n < 1000)
		throw std::runtime_error("n");
	return n;
}
__attribute__((noinline, noclone)) int catcher(int n)
{
	try {
		return thrower(n);
	} catch (const std::exception &) {
		int r = put(n);
		return r + 1;
	}
}
int main(int argc, char **argv)
{
	int r = 0, rounds = atoi(argv[2]);
	fd = open(argv[1], O_RDWR | O_DIRECT);
	buf = aligned_alloc(4096, 4096);
	for (int i = 0; i < rounds; i++)
		r |= catcher(i);
	return argc < 2 || r == 12345;
}
"""

PROGRAM_RUST = r"""
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

#[repr(align(4096))]
struct Block([u8; 4096]);

#[no_mangle]
#[inline(never)]
fn put(file: &File, block: &Block) -> usize {
    file.write_at(&block.0, 0).unwrap() + 1
}

#[no_mangle]
#[inline(never)]
fn middle(file: &File, n: usize) -> usize {
    let block = Block([n as u8; 4096]);
    put(file, &block) * 3 + block.0[n] as usize
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let file = OpenOptions::new().write(true).custom_flags(args[3].parse().unwrap()).open(&args[1]).unwrap();
    let rounds: usize = args[2].parse().unwrap();
    println!("{}", (0..rounds).map(|n| middle(&file, n % 9)).sum::<usize>());
}
"""

PROGRAM_GO = r"""
package main

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

//go:noinline
func put(fd int, block []byte) int {
	n, err := syscall.Pwrite(fd, block, 0)
	if err != nil {
		os.Exit(1)
	}
	return n + 1
}

//go:noinline
func middle(fd int, block []byte, n int) int {
	var room [64]int
	room[n] = put(fd, block)
	return room[n] * 3
}

//go:noinline
func grown(fd int, block []byte, depth int) int {
	var room [256]int // so that the goroutine's stack is moved
	if depth > 0 {
		room[depth] = grown(fd, block, depth-1)
		return room[depth] + 1
	}
	return middle(fd, block, 3)
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[2])
	flag, _ := strconv.Atoi(os.Args[3])
	fd, err := syscall.Open(os.Args[1], syscall.O_RDWR|flag, 0)
	if err != nil {
		os.Exit(1)
	}
	room := make([]byte, 8192)
	at := 4096 - int(uintptr(unsafe.Pointer(&room[0]))&4095)
	done := make(chan int)
	go func() {
		sum := 0
		for i := 0; i < rounds; i++ {
			sum += grown(fd, room[at:at+4096], 9)
		}
		done <- sum
	}()
	<-done
}
"""

# Calls a library, and then maps another file in its place.
PROGRAM_SWAP_C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static int fd;
static void *buf;
static int put(int n) { return pwrite(fd, buf, 4096, 0) == 4096 ? n : -1; }
int main(int argc, char **argv)
{
	int (*call)(int (*)(int), int), other = open(argv[3], O_RDONLY);
	unsigned long start, end, offset, at;
	char line[4096];
	FILE *maps;
	fd = open(argv[1], O_RDWR | O_DIRECT);
	buf = aligned_alloc(4096, 4096);
	if (fd < 0 || other < 0 || setuid(65534) || put(1) < 0)
		return 1;
	puts("begun");
	fflush(stdout);
	getchar(); /* the tables of all but the library are there */
	at = (unsigned long)(call = (int (*)(int (*)(int), int))dlsym(dlopen(argv[2], RTLD_NOW), "lib_call"));
	maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && at >= start && at < end)
			break;
	if (call(put, 2) < 0 ||
	    mmap((void *)start, end - start, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, other, (long)offset) == MAP_FAILED)
		return 1;
	puts("swapped");
	fflush(stdout);
	pause();
	return argc < 3;
}
"""

# As glibc's dynamic loader begins: no rules, and nothing that marks the outermost frame.
PROGRAM_ENTRY_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__x86_64__)
asm(".globl _start\n.type _start, @function\n_start: mov %rsp, %rdi; mov $77, %ebp; call entry; hlt\n");
#else
asm(".globl _start\n.type _start, %function\n_start: mov x0, sp; mov x29, 77; bl entry; brk 1\n");
#endif
void entry(long *args)
{
	int fd = open((char *)args[2], O_RDWR | O_DIRECT);
	static char room[8192];
	void *buf = (void *)(((unsigned long)room + 4095) & ~4095UL);
	for (int i = 0; i < 50; i++)
		if (pwrite(fd, buf, 4096, 0) != 4096)
			_exit(1);
	_exit(0);
}
"""

# The mapping at an address has changed since. With LIBRARIES, from which COMMAND's tables come, the
# program executes itself again without them: the files are known, and no process maps them.
PROGRAM_ODD_C = r"""
#define _GNU_SOURCE
""" + WAIT_C + r"""
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
typedef int call_t(int (*)(int), int);
static int fd, rounds, number = 2;
static void *buf;
static char **args;
int NOINLINE put(int n)
{
	volatile char room[200];
	room[n % 200] = (char)n;
	return pwrite(fd, buf, 4096, 0) == 4096 ? n + room[n % 200] : -1;
}
static void fail(const char *what) { perror(what); exit(1); }
int NOINLINE again(call_t *call)
{
	int r = 0;
	for (int i = 0; i < rounds; i++) {
		r |= call(put, number);
		wait_for_test();
	}
	return r;
}
/* ---- a library by its first mapping ---- */
static char *base_of(void *symbol)
{
	Dl_info info;
	if (!symbol || !dladdr(symbol, &info))
		fail("dladdr");
	return info.dli_fbase;
}
static void *opened(const char *path, const char *name, void **symbol)
{
	void *handle = dlopen(path, RTLD_NOW);
	if (!handle || !(*symbol = dlsym(handle, name)))
		fail(dlerror());
	return handle;
}
/* Its code: address and size in memory, and where it is in the file. */
static void text_of(const char *base, size_t *start, size_t *size, off_t *offset)
{
	const ElfW(Ehdr) *head = (const void *)base;
	const ElfW(Phdr) *p = (const void *)(base + head->e_phoff);
	for (int i = 0; i < head->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X) {
			*start = p[i].p_vaddr & ~4095UL;
			*size = (p[i].p_vaddr - *start + p[i].p_memsz + 4095) & ~4095UL;
			*offset = p[i].p_offset & ~4095UL;
		}
}
/* Another library's code over the first one's. */
int NOINLINE way_map_fixed(void)
{
	void *first, *second;
	size_t at, size, at2, size2;
	off_t offset;
	opened(args[0], "lib_call", &first);
	opened(args[1], "other_call", &second);
	text_of(base_of(first), &at, &size, &offset);
	text_of(base_of(second), &at2, &size2, &offset);
	int r = again(first), other = open(args[1], O_RDONLY);
	if (mmap(base_of(first) + at, size2, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, other, offset) == MAP_FAILED)
		fail("mmap");
	r |= again((call_t *)(base_of(first) + at + ((char *)second - base_of(second) - at2)));
	return r;
}
int NOINLINE way_reopened(void)
{
	void *first, *second, *handle = opened(args[0], "lib_call", &first);
	char *base = base_of(first);
	int r = again(first);
	dlclose(handle);
	opened(args[1], "other_call", &second);
	if (base_of(second) != base)
		fail("the second library is elsewhere");
	return r | again(second);
}
static int in_memory(const char *path, unsigned flags)
{
	int from = open(path, O_RDONLY), to = memfd_create("odd", flags);
	char block[65536];
	ssize_t n;
	while ((n = read(from, block, sizeof(block))) > 0)
		if (write(to, block, n) != n)
			fail("write");
	return to;
}
int NOINLINE way_memfd_library(void)
{
	char path[64];
	void *first;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", in_memory(args[0], 0));
	opened(path, "lib_call", &first);
	return again(first);
}
int NOINLINE way_library(void)
{
	void *first;
	opened(args[0], "lib_call", &first);
	return again(first);
}
static int call_put(int (*call)(int), int n) { int r = call(n); return r + 1; }
int NOINLINE way_plain(void) { return again(call_put); }
/* What those do that want their code on huge pages. */
static void NOINLINE own_text_to_memory(void)
{
	char *base = base_of((void *)own_text_to_memory), *copy;
	size_t at, size;
	off_t offset;
	text_of(base, &at, &size, &offset);
	copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, base + at, size);
	if (mprotect(copy, size, PROT_READ | PROT_EXEC) ||
	    mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, base + at) == MAP_FAILED)
		fail("mremap");
}
int NOINLINE way_in_memory(void) { own_text_to_memory(); return again(call_put); }
/* Where the frame pointer may be 0, as in an outermost function. */
int NOINLINE way_in_memory_zero(void) { number = 0; return way_in_memory(); }
/* Where the frame pointer's register is used for something else, and points to zeros. */
#ifdef __x86_64__
long zeros[8];
int zeros_call(int (*call)(int), int n);
asm(".text\n.globl zeros_call\n"
    "zeros_call:\n push %rbp\n lea zeros(%rip), %rbp\n mov %rdi, %rax\n mov %esi, %edi\n call *%rax\n"
    " pop %rbp\n ret\n");
#else
#define zeros_call call_put
#endif
int NOINLINE way_in_memory_zeros(void) { own_text_to_memory(); return again(zeros_call); }
static int known_only(char **argv, char **without)
{
	if (!getenv("LIBRARIES"))
		return 0;
	unsetenv("LIBRARIES");
	unsetenv("LD_PRELOAD");
	if (!strcmp(argv[2], "memfd"))
		fexecve(in_memory("/proc/self/exe", MFD_CLOEXEC), argv, environ);
	else
		execv("/proc/self/exe", without);
	fail("execv");
	return 1;
}
static void *in_thread(void *argv) { known_only(argv, argv); return NULL; }
int main(int argc, char **argv)
{
	static const struct { const char *name; int (*way)(void); } ways[] = {
		{ "plain", way_plain }, { "thread", way_plain }, { "memfd", way_plain },
		{ "map_fixed", way_map_fixed }, { "reopened", way_reopened },
		{ "memfd_library", way_memfd_library }, { "library", way_library },
		{ "in_memory", way_in_memory },
		{ "in_memory_zero", way_in_memory_zero },
		{ "in_memory_zeros", way_in_memory_zeros },
	};
	int r = 0;
	pthread_t thread;
	if (!strcmp(argv[2], "thread") && getenv("LIBRARIES")) {
		pthread_create(&thread, NULL, in_thread, argv);
		pause();
	}
	known_only(argv, argv);
	fd = open(argv[1], O_RDWR | O_DIRECT);
	buf = aligned_alloc(4096, 4096);
	rounds = atoi(argv[3]);
	args = argv + 4;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, argv[2]))
			r |= ways[i].way();
	_exit(fd < 0 || argc < 2 ? 1 : r == 12345); /* the libraries' own ends may be mapped over */
}
"""
OTHER_LIBRARY_C = LIBRARY_C.replace("lib_", "other_").replace("room[40]", "room[90]").replace(
    "back(n);", "back(n) + (int)(room[n + 1] = n);")

# The C library calls the kernel by way of the vdso.
PROGRAM_32_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_DIRECT);
	void *buf = aligned_alloc(4096, 4096);
	for (int i = 0; i < 50; i++)
		if (argc < 2 || pwrite(fd, buf, 4096, 0) != 4096)
			return 1;
	return 0;
}
"""

# Code made at run time that makes the system call; its caller chooses rbp.
JIT_C = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
	/* push %rbp; mov %r8,%rbp; mov %rcx,%r10; mov $18,%eax; syscall; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x4c, 0x89, 0xc5, 0x49, 0x89, 0xca, 0xb8, 18, 0, 0, 0,
					      0x0f, 0x05, 0x5d, 0xc3 };
	static unsigned long zeros[2], text[2] = { 0x4141414141414140, 0x4141414141414141 };
	static unsigned long loop[2] = { (unsigned long)loop, (unsigned long)loop }, low[2] = { 0, 1 };
	const unsigned long rbp[] = { 0, (unsigned long)zeros, (unsigned long)zeros + 1, /* no rule */
				      0xdeadbeefdeadbee8, /* not in memory */
				      (unsigned long)text, (unsigned long)loop, (unsigned long)low }; /* no code */
	void *buf = aligned_alloc(4096, 4096);
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long (*call)(int, void *, size_t, off_t, unsigned long) = (void *)page;
	int fd = open(argv[1], O_RDWR | O_DIRECT);
	memcpy(page, code, sizeof(code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	for (unsigned i = 0; i < sizeof(rbp) / sizeof(rbp[0]); i++)
		for (int n = argc < 3 ? 0 : atoi(argv[2]); n > 0; n--)
			if (call(fd, buf, 4096, 0, rbp[i]) != 4096)
				return 1;
	return 0;
}
"""

ROUNDS = 50
BELOW_MAIN = ("main", "__libc_start_call_main", "__libc_start_main", "_start")
START_CONTEXT = "__start_context" if platform.machine() == "x86_64" else "__startcontext"
# Functions that arm64's C library does not name, but in a static program.
IN_LIBC = ("__libc_start_call_main", "start_thread", "thread_start", "clone3", "__startcontext")
WRITE = ("pwrite64", "__libc_pwrite64", "pwrite", "__pwrite64")
# What a signal handler returns to: on arm64 in the vdso.
SIGNAL = "__restore_rt" if platform.machine() == "x86_64" else "[vdso]"
def plain_name(frame):
    """Without the version that a symbol of a library has, and what the linker adds."""
    if frame.startswith("[vdso]"):
        return "[vdso]"
    if platform.machine() == "aarch64" and (frame.startswith("libc.so.6+0x") or frame in IN_LIBC):
        return "libc.so.6"
    return frame.split("@")[0].replace("_nocancel", "").removesuffix("_impl")


def without_rules(path):
    """The file without its PT_GNU_EH_FRAME, and its .eh_frame by another name: it has no table."""
    with open(path, "rb") as file:
        data = bytearray(file.read().replace(b"\0.eh_frame\0", b"\0.eh_none.\0"))
    head, = struct.unpack_from("<Q", data, 32)
    size, n = struct.unpack_from("<HH", data, 54)
    for at in range(head, head + n * size, size):
        if struct.unpack_from("<I", data, at)[0] == 0x6474e550:
            struct.pack_into("<I", data, at, 0)
    return bytes(data)


def moved(path, out, by):
    """The same library, with all that is in it @by bytes further on in its file, behind a hole."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    heads, sections = struct.unpack_from("<QQ", data, 32)
    head_size, n_heads, section_size, n_sections = struct.unpack_from("<4H", data, 54)
    places = [heads + i * head_size + 8 for i in range(n_heads)]
    places += [40, *(sections + i * section_size + 24 for i in range(1, n_sections))]
    for at in places:
        struct.pack_into("<Q", data, at, struct.unpack_from("<Q", data, at)[0] + by)
    with open(out, "wb") as file:
        file.write(data[:heads + n_heads * head_size])
        file.seek(by)
        file.write(data)
    return out


@unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "tables of this processor are not read")
class ChainTest(StackTest):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.disk = cls.stack.enter_context(LoopDisk())
        cls.made = cls.stack.enter_context(Compiled())

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def rows(self, result):
        self.assertEqual(result.status, 0, f"{result}")
        return [row for row in result.rows if row["disk"] == self.disk.name]

    def rows_of(self, *command, **options):
        # Not the disks from which the program's own code is read: there is code without rules.
        result = iotrace("stack", "--json", "-U", "-d", self.disk.name, "--", *command, **options)
        return result, self.rows(result)

    def rows_with_tables(self, *command, **env):
        """The same of a program that waits after its first round until what it has mapped was read."""
        given = [f"{name}={value}" for name, value in env.items()]
        with self.fifo() as fifo, Tracer("stack", "--json", "-U", "-d", self.disk.name, "--", *command,
                                         prefix=("env", f"WAIT={fifo}", *given)) as tracer:
            self.let_go_on(fifo, tracer)
            result = tracer.wait()
        return result, self.rows(result)

    @contextlib.contextmanager
    def fifo(self):
        path = f"{self.made.folder}/wait"
        os.mkfifo(path)
        try:
            yield path
        finally:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))  # lets go on what waits still
            os.unlink(path)

    def let_go_on(self, fifo, tracer):
        """A program that waits, once iotrace has read what it asked for in its first round."""
        opened = []

        def is_waiting():
            with contextlib.suppress(OSError):
                opened.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
            return opened
        self.assertTrue(wait_until(is_waiting), "no first round")
        try:
            tracer.wait_for_round()
        finally:
            os.close(opened[0])

    def assert_chain(self, row, *chain):
        frames = [plain_name(frame) for frame in row["user"]]
        self.assertIn(frames[0], WRITE, frames)
        self.assertEqual(frames[1:], [plain_name(frame) for frame in chain])


class TestChains(ChainTest):
    def way(self, program, name, *chain, **options):
        """All rounds have one stack: the chain."""
        result, rows = self.rows_of(program, self.disk.path, name, ROUNDS, **options)
        self.assertEqual(result.early_ends, {}, f"{result}")
        self.assertEqual([row["write_bytes"] for row in rows], [ROUNDS * 4096], f"{rows}")
        self.assert_chain(rows[0], *chain)

    def check_ways(self, *flags):
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, *flags, "-pthread", "-ldl")
        self.way(program, "plain", "put", "middle", "way_plain", *BELOW_MAIN)
        self.way(program, "deep", "put", *["way_deep"] * 100, *BELOW_MAIN)
        # 127 frames
        self.way(program, "too_deep", "put", *["way_deep"] * 125, "[cut off]")
        self.way(program, "signal", "put", "on_fault", SIGNAL, "fault", "way_signal", *BELOW_MAIN)
        self.way(program, "vfork", "put", "in_child", "way_vfork", *BELOW_MAIN)
        self.way(program, "thread", "put", "way_in_thread", "start_thread", "clone3")
        self.way(program, "coroutine", "put", "in_coroutine", START_CONTEXT)

    def test_other_stacks(self):
        """Stacks of signal handlers, large and aligned frames, and stacks that the program switches to, at higher
        and lower addresses."""
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl")
        self.way(program, "altstack", "put", *["way_deep"] * 21, "on_own_stack", SIGNAL,
                 "kill", "way_altstack", *BELOW_MAIN)
        self.way(program, "aligned", "put", "way_aligned", *BELOW_MAIN)
        if platform.machine() != "x86_64":
            # Registers are saved at the other end of the frame, farther away than a rule can say.
            result, rows = self.rows_of(program, self.disk.path, "huge", ROUNDS)
            self.assertEqual(result.early_ends, {"unwind_expression": ROUNDS}, f"{result}")
            self.assert_chain(rows[0], "put", "way_huge", "[expression]")
            return
        self.way(program, "huge", "put", "way_huge", *BELOW_MAIN)
        self.way(program, "stack_below", "put", "switch_stack", "way_stack_below", *BELOW_MAIN)
        self.way(program, "stack_above", "put", "switch_stack", "to_stack_above", "start_thread",
                 "clone3")

    @unittest.skipUnless(platform.machine() == "x86_64", "the assembly is x86-64's")
    def test_stack_that_is_switched_without_rules(self):
        """The caller cannot be determined: the stack ends with [no rule]."""
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl")
        result, rows = self.rows_of(program, self.disk.path, "secret", ROUNDS)
        self.assertEqual(result.early_ends, {"unwind_no_rule": ROUNDS}, f"{result}")
        self.assertEqual([row["write_bytes"] for row in rows], [ROUNDS * 4096], f"{rows}")
        self.assert_chain(rows[0], "put", "switch_in_secret", "[no rule]")

    def test_ways_to_link(self):
        """Static; code and data in one segment."""
        for flags in ("-static-pie",), ("-Wl,-z,noseparate-code",):
            with self.subTest(flags=flags):
                program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-w", "-pthread",
                                          "-ldl", *flags)
                self.way(program, "plain", "put", "middle", "way_plain", *BELOW_MAIN)

    def test_o2(self):
        self.check_ways("-O2")

    def test_o3_not_position_independent(self):
        self.check_ways("-O3", "-no-pie", "-fno-pie")

    def test_static(self):
        """No index of rules: they are found by the section .eh_frame."""
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-static", "-no-pie",
                                  "-Wl,--no-eh-frame-hdr", "-pthread")
        self.way(program, "plain", "put", "middle", "way_plain", *BELOW_MAIN)
        self.way(program, "signal", "put", "on_fault", SIGNAL, "fault", "way_signal", *BELOW_MAIN)
        self.way(program, "thread", "put", "way_in_thread", "start_thread", "clone3")

    def test_lto(self):
        self.check_ways("-O2", "-flto")

    def test_library_that_is_opened_late(self):
        """Its table is not loaded yet for the first write: that is counted, and marked in the stack."""
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl")
        library = self.made.build("libuw.so", LIBRARY_C, *PLAIN, "-O2", "-shared", "-fPIC")
        result, rows = self.rows_with_tables(program, self.disk.path, "library", ROUNDS, LIBRARY=library)
        whole = [row for row in rows if row["user"][-1] == "_start"]
        early = [row for row in rows if row["user"][-1] != "_start"]
        self.assertEqual(len(whole), 1, f"{rows}")
        self.assert_chain(whole[0], "put", "lib_inner", "lib_call", "way_library", *BELOW_MAIN)
        self.assertEqual(result.early_ends, {"unwind_no_table": 1}, f"{result}")
        self.assertEqual([row["write_bytes"] for row in whole + early], [(ROUNDS - 1) * 4096, 4096])
        self.assertEqual(early[0]["user"][-1], "[no table yet]")

    def test_file_that_is_swapped(self):
        """Two files with one build id have separate tables: a file that a process maps in the place of another
        does not change another user's stacks."""
        swap = self.made.build("uwswap", PROGRAM_SWAP_C, "-ldl")
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl")
        library = self.made.build("libuw.so", LIBRARY_C, *PLAIN, "-O2", "-shared", "-fPIC",
                                  "-Wl,--build-id=0x0123456789abcdef")
        os.chmod(self.made.folder, 0o755)
        other = f"{self.made.folder}/other.so"
        with open(other, "wb") as file:
            file.write(without_rules(library))
        os.chown(other, 65534, 65534)
        with Tracer("stack", "--json", "-U", "-d", self.disk.name) as tracer:
            self.let_it_read(program, tracer)
            with subprocess.Popen([swap, self.disk.path, library, other], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as process:
                self.assertEqual(process.stdout.readline(), b"begun\n")
                tracer.wait_for_round()
                process.stdin.write(b"\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), b"swapped\n")
                tracer.wait_for_round()
                run(program, self.disk.path, "library", ROUNDS,
                    env={**os.environ, "LIBRARY": library})
                process.kill()
            result = tracer.stop()
        self.assert_whole(result, "uwways", "lib_inner", "lib_call", "way_library")

    def let_it_read(self, program, tracer, writes=3):
        """Its tables are there afterwards. Under another name it writes, again when what that asked for
        was read: the walker asks for the C library, then for the program."""
        link = f"{self.made.folder}/uwread"
        os.symlink(program, link)
        for _ in range(writes):
            with self.fifo() as fifo, subprocess.Popen([link, self.disk.path, "plain", "1"],
                                                       env={**os.environ, "WAIT": fifo}) as process:
                try:
                    self.let_go_on(fifo, tracer)
                except BaseException:
                    process.kill()
                    raise
        os.unlink(link)

    def assert_whole(self, result, comm, *calls):
        """ROUNDS writes have put() and these calls."""
        stacks = [(row["write_bytes"] // 4096, [plain_name(frame) for frame in row["user"]])
                  for row in result.rows if row["comm"] == comm and row["disk"] == self.disk.name]
        self.assertEqual([n for n, _ in stacks], [ROUNDS], f"{stacks}")
        self.assertEqual(stacks[0][1][1:], [plain_name(frame) for frame in ("put", *calls, *BELOW_MAIN)])

    def test_overlay(self):
        """stat() does not tell the inode by which the kernel knows what is mapped from there."""
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl")
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as folder, overlay(folder) as merged:
            copy = shutil.copy(program, f"{merged}/uwways")
            inode = os.stat(copy)
            below = os.stat(f"{folder}/upper/uwways")
            self.assertNotEqual((inode.st_dev, inode.st_ino), (below.st_dev, below.st_ino))
            self.way(copy, "plain", "put", "middle", "way_plain", *BELOW_MAIN)

    def test_overlay_of_others(self):
        """The same of a file that is not root's own."""
        program = self.made.build("uwother", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl")
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as folder, overlay(folder) as merged:
            copy = shutil.copy(program, f"{merged}/uwother")
            os.chown(copy, 65534, 65534)
            with Tracer("stack", "--json", "-U", "-d", self.disk.name) as tracer:
                self.let_it_read(copy, tracer, writes=4)  # which inode it is of is asked for later
                run(copy, self.disk.path, "plain", ROUNDS)
                result = tracer.stop()
        self.assert_whole(result, "uwother", "middle", "way_plain")

    def test_entry_without_rules(self):
        """Behind the procedure linkage table, which has rules, and as the first code there is."""
        for flags in (), ("-fno-plt", "-Wl,-z,now"):
            with self.subTest(flags=flags):
                program = self.made.build("uwentry", PROGRAM_ENTRY_C, *PLAIN, "-O2", "-nostartfiles", *flags)
                result, rows = self.rows_of(program, self.disk.path)
                self.assertEqual(result.early_ends, {}, f"{result}")
                self.assertEqual([row["write_bytes"] for row in rows], [ROUNDS * 4096], f"{rows}")
                self.assert_chain(rows[0], "entry", "_start")

    def test_code_without_rules(self):
        """Frame pointers are used if most of a file's code has no rules, as in chromium."""
        program = self.made.build("uwbare", PROGRAM_C + 'asm(".text\\n.skip 32768\\n");', "-O2", "-pthread", "-ldl",
                                  "-fno-asynchronous-unwind-tables", "-fno-unwind-tables",
                                  "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
        self.way(program, "plain", "put", "middle", "way_plain", *BELOW_MAIN)

    def test_many(self):
        """Each is in the one row, or counted."""
        rounds = int(30000 * SCALE)
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl")
        result, rows = self.rows_of(program, self.disk.path, "plain", rounds)
        self.assertEqual(sum(row["write_bytes"] for row in rows), rounds * 4096)
        whole = [row for row in rows if row["user"][-1] == "_start"]
        self.assertEqual(len(whole), 1, f"{rows}")
        self.assert_chain(whole[0], "put", "middle", "way_plain", *BELOW_MAIN)
        self.assertEqual(rounds * 4096 - whole[0]["write_bytes"],
                         4096 * sum(result.early_ends.values()), f"{result}")

    def test_execve(self):
        """Reads in execve() after the old program is gone have no user stack."""
        program = self.made.build("uwways", PROGRAM_C, *PLAIN, "-O2", "-pthread", "-ldl",
                                  f"-DFILE_BYTES={4 * MIB}")
        with LoopDisk(64 * MIB) as disk, mounted(disk.path) as folder:
            copy = shutil.copy(program, folder)
            with open(copy, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            result = iotrace("stack", "--json", "-U", "-d", f"{disk.name},{self.disk.name}", "--", copy,
                             self.disk.path, "plain", 1)
            self.assertEqual(result.status, 0, f"{result}")
        self.assertNotIn("unwind_unmapped", result.early_ends)
        bare = [row for row in result.rows if row["disk"] == disk.name and not row["user"]]
        self.assertGreater(sum(row["read_bytes"] for row in bare), 0, f"{result}")

    def test_rust(self):
        program = self.made.build("uwrust", PROGRAM_RUST, compiler="rustc")
        result, rows = self.rows_of(program, self.disk.path, ROUNDS, os.O_DIRECT)
        self.assertEqual(result.early_ends, {}, f"{result}")
        self.assertEqual([row["write_bytes"] for row in rows], [ROUNDS * 4096], f"{rows}")
        frames = [plain_name(frame) for frame in rows[0]["user"]]
        self.assertIn("put", frames)
        self.assertEqual(frames[frames.index("put"):][:2], ["put", "middle"])
        self.assertEqual(frames[-len(BELOW_MAIN):], [plain_name(frame) for frame in BELOW_MAIN])

    def test_go(self):
        """A goroutine, whose stack grows; Go has frame pointers, and no rules."""
        program = self.made.build("uwgo", PROGRAM_GO, compiler="go")
        result, rows = self.rows_of(program, self.disk.path, ROUNDS, os.O_DIRECT)
        self.assertEqual(result.early_ends, {}, f"{result}")
        self.assertEqual([row["write_bytes"] for row in rows], [ROUNDS * 4096], f"{rows}")
        frames = rows[0]["user"]
        self.assertIn("main.put", frames)
        self.assertEqual([name.removesuffix(".abi0") for name in frames[frames.index("main.put"):]],
                         ["main.put", "main.middle", *["main.grown"] * 10, "main.main.func1",
                          "runtime.goexit"])

    def test_exceptions(self):
        program = self.made.build("uwcpp", PROGRAM_CPP, *PLAIN, "-O2", compiler="g++")
        result, rows = self.rows_of(program, self.disk.path, ROUNDS)
        self.assertEqual(result.early_ends, {}, f"{result}")
        self.assertEqual([row["write_bytes"] for row in rows], 2 * [ROUNDS * 4096], f"{rows}")
        handler, guard = sorted(rows, key=lambda row: len(row["user"]))
        self.assert_chain(handler, "put", "catcher", *BELOW_MAIN)
        self.assertIn("Guard::~Guard", guard["user"])
        self.assertEqual(tuple(plain_name(f) for f in guard["user"][-6:]),
                         tuple(map(plain_name, ("thrower", "catcher", *BELOW_MAIN))))


class TestOdd(ChainTest):
    """The mapping at an address has changed since."""

    def setUp(self):
        super().setUp()
        self.program = self.made.build("uwodd", PROGRAM_ODD_C, *PLAIN, "-O2", "-w", "-pthread",
                                       "-ldl")
        self.lib = self.made.build("libuw.so", LIBRARY_C, *PLAIN, "-O2", "-shared", "-fPIC")
        other = self.made.build("libother.so", OTHER_LIBRARY_C, *PLAIN, "-O2", "-shared", "-fPIC")
        self.libraries = self.lib, other

    def odd(self, name, *libraries):
        """(result, rows); the tables of the program and of the libraries are there before."""
        return self.rows_of(*self.command(name, *libraries), env={**os.environ, **self.environment(*libraries)})

    def command(self, name, *libraries):
        return self.program, self.disk.path, name, ROUNDS, *(libraries or self.libraries)

    def environment(self, *libraries):
        return {"LIBRARIES": "1", "LD_PRELOAD": ":".join(libraries or self.libraries)}

    def assert_odd(self, name, *chains, libraries=()):
        """All rounds of each chain, and nothing else."""
        result, rows = self.odd(name, *libraries)
        self.assertEqual(result.early_ends, {}, f"{result}")
        found = sorted([row["write_bytes"], *map(plain_name, row["user"][1:])] for row in rows)
        self.assertEqual(found, sorted([ROUNDS * 4096, *map(plain_name, ("put", *chain, *BELOW_MAIN))]
                                       for chain in chains))
        for row in rows:
            self.assertIn(plain_name(row["user"][0]), WRITE)

    def assert_ends(self, name, loss, *chain, libraries=()):
        """All rounds have this chain, whose last frame says why it ends."""
        result, rows = self.odd(name, *libraries)
        self.assertEqual(result.early_ends, {loss: ROUNDS}, f"{result}")
        self.assertEqual([row["write_bytes"] for row in rows], [ROUNDS * 4096], f"{rows}")
        self.assert_chain(rows[0], *chain)

    def test_execve(self):
        self.assert_odd("plain", ("call_put", "again", "way_plain"))

    def test_execve_by_another_thread(self):
        self.assert_odd("thread", ("call_put", "again", "way_plain"))

    def test_another_files_code_over_it(self):
        self.assert_odd("map_fixed", ("lib_inner", "lib_call", "again", "way_map_fixed"),
                        ("other_inner", "other_call", "again", "way_map_fixed"))

    def test_another_library_at_its_address(self):
        self.assert_odd("reopened", ("lib_inner", "lib_call", "again", "way_reopened"),
                        ("other_inner", "other_call", "again", "way_reopened"))

    def test_far_in_its_file(self):
        far = moved(self.lib, f"{self.made.folder}/libfar.so", 9 << 28)
        self.assert_odd("library", ("lib_inner", "lib_call", "again", "way_library"),
                        libraries=(far,))

    def test_too_far_in_its_file(self):
        """Beyond 4 GiB a table has no rows."""
        far = moved(self.lib, f"{self.made.folder}/libfar.so", 17 << 28)
        self.assert_ends("library", "unwind_no_rule", "put", "lib_inner", "[no rule]",
                         libraries=(far,))

    @unittest.skipUnless(platform.machine() == "x86_64", "frame pointers are kept elsewhere")
    def test_code_in_memory(self):
        """The code is in no file, as with huge pages. The register of the frame pointer has another value, or 0,
        or points to zeros: the function does not count as the outermost one."""
        for name in "in_memory", "in_memory_zero", "in_memory_zeros":
            with self.subTest(name=name):
                result, rows = self.odd(name)
                self.assertEqual(result.early_ends, {"unwind_no_rule": ROUNDS}, f"{result}")
                self.assertEqual([row["write_bytes"] for row in rows], [ROUNDS * 4096], f"{rows}")
                _, leaf, end = rows[0]["user"]
                self.assertRegex(leaf, r"^\[anon\]\+0x")
                self.assertEqual(end, "[no rule]")

    def in_memfd(self, name, *frames, libraries=()):
        """The program has a table, but no names: complete stacks are `frames`, with [anon] for its functions."""
        result, rows = self.rows_with_tables(*self.command(name, *libraries), **self.environment(*libraries))
        self.assertEqual(result.early_ends, {"unwind_no_table": 1}, f"{result}")
        self.assertEqual(sum(row["write_bytes"] for row in rows), ROUNDS * 4096)
        whole = [row for row in rows if row["user"][-1] != "[no table yet]"]
        self.assertEqual([row["write_bytes"] for row in whole], [(ROUNDS - 1) * 4096], f"{result}")
        self.assertEqual([[frame if not frame.startswith("[anon]+") else "[anon]"
                           for frame in map(plain_name, row["user"][1:])] for row in whole],
                         [[plain_name(frame) for frame in frames]])

    def test_program_in_memory(self):
        """fexecve() of a memfd: put(), call_put(), again(), way_plain(), main(), and _start."""
        self.in_memfd("memfd", *["[anon]"] * 5, *BELOW_MAIN[1:3], "[anon]")

    def test_library_in_memory(self):
        """A library in a memfd, also one whose first segment is its code."""
        whole = self.made.build("libwhole.so", LIBRARY_C, *PLAIN, "-O2", "-shared", "-fPIC",
                                "-Wl,-z,noseparate-code")
        for libraries in (), (whole,):
            with self.subTest(libraries=libraries):
                self.in_memfd("memfd_library", "put", "[anon]", "[anon]", "again", "way_memfd_library",
                              *BELOW_MAIN, libraries=libraries)

    @unittest.skipUnless(platform.machine() == "x86_64", "its instructions are of this processor")
    def test_code_made_at_run_time(self):
        """The code makes the system call itself, and uses the frame pointer's register otherwise. The caller is
        unknown: the stack ends there, with the reason, and without invented frames."""
        program = self.made.build("uwjit", JIT_C, *PLAIN, "-O2")
        result, rows = self.rows_of(program, self.disk.path, ROUNDS)
        self.assertEqual(result.early_ends, {"unwind_no_rule": 3 * ROUNDS, "unwind_unread": ROUNDS,
                                             "unwind_unmapped": 3 * ROUNDS}, f"{result}")
        leaf = "[anon]+0xe"
        self.assertEqual(sorted((row["write_bytes"], *row["user"]) for row in rows),
                         [(ROUNDS * 4096, leaf, "[stack not in memory]"), (3 * ROUNDS * 4096, leaf, "[no rule]"),
                          (3 * ROUNDS * 4096, leaf, "[unknown mapping]")])

    @unittest.skipUnless(platform.machine() == "x86_64", "i386 programs")
    def test_i386(self):
        """32-bit programs have no tables. Here the frame pointer's register has an argument: the address of the
        data to write."""
        for flags in (), ("-static",):
            with self.subTest(flags=flags):
                try:
                    program = self.made.build("uw32", PROGRAM_32_C, "-m32", *flags)
                except subprocess.CalledProcessError:
                    self.skipTest("no libraries for -m32")
                _, rows = self.rows_of(program, self.disk.path)
                self.assertEqual([row["write_bytes"] for row in rows], [ROUNDS * 4096], f"{rows}")
                self.assertEqual([plain_name(frame) for frame in rows[0]["user"]],
                                 ["[vdso]", "[no frame pointer]"])


if __name__ == "__main__":
    iotest.main()
