// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/exit_reasons.h"

#include <errno.h>
#include <sys/utsname.h>

#include <linux/kvm.h>
#if __has_include(<asm/vmx.h>)
#include <asm/svm.h>
#include <asm/vmx.h>
#endif

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "cmd/kvm/event_format.h"
#include "cmd/kvm/tracefs.h"

struct reasons {
	struct event_format formats[REASON_EVENTS];
	struct reason_fields fields;
	bool arm; /* the record has arm64's format */
	struct reason *list;
	size_t n;
};

/* ---- the processor ---- */

enum cpu_virt cpus_virt(const char *path, const char *machine)
{
	enum cpu_virt cpu = strcmp(machine, "aarch64") == 0 ? CPU_ARM64 : CPU_UNKNOWN;
	FILE *file FCLOSE_AT_END = fopen(path, "re");
	char *line = NULL, *rest, *word;
	size_t size = 0;

	/* One processor's flags apply to all. */
	while (file && cpu == CPU_UNKNOWN && getline(&line, &size, file) >= 0) {
		if (strncmp(line, "flags", 5) != 0)
			continue;
		for (rest = line; cpu == CPU_UNKNOWN && (word = strsep(&rest, " \t\n"));)
			cpu = strcmp(word, "vmx") == 0	 ? CPU_VMX
			      : strcmp(word, "svm") == 0 ? CPU_SVM
							 : CPU_UNKNOWN;
		break;
	}
	free(line);
	return cpu;
}

/* ---- tables ---- */

#define TABLE(a)                                                                                   \
	{                                                                                          \
		.symbols = (a), .n = sizeof(a) / sizeof((a)[0])                                    \
	}

/* Names of the uapi headers that this was built with, for what the running kernel does not name:
 * the macros are what its tracepoints' texts are made of, too.  arm64 has no such header. */
#ifdef VMX_EXIT_REASONS
static struct event_symbol vmx_symbols[] = { VMX_EXIT_REASONS };
static struct event_symbol vmx_flag_symbols[] = { VMX_EXIT_REASON_FLAGS };
static struct event_symbol svm_symbols[] = { SVM_EXIT_REASONS, { 0x08c, "mwait_cond" } };
static const struct event_table vmx = TABLE(vmx_symbols);
static const struct event_table vmx_flags = TABLE(vmx_flag_symbols);
static const struct event_table svm = TABLE(svm_symbols);
#else
static const struct event_table vmx, vmx_flags, svm;
#endif

/* Exception classes of ESR_EL2.EC, as the Arm architecture numbers and arm64 kernels call them:
 * their tables have only the classes that this version's KVM handles. */
static struct event_symbol arm_symbols[] = {
	{ 0x00, "UNKNOWN" },	 { 0x01, "WFx" },	  { 0x03, "CP15_32" },
	{ 0x04, "CP15_64" },	 { 0x05, "CP14_MR" },	  { 0x06, "CP14_LS" },
	{ 0x07, "FP_ASIMD" },	 { 0x08, "CP10_ID" },	  { 0x09, "PAC" },
	{ 0x0c, "CP14_64" },	 { 0x0d, "BTI" },	  { 0x0e, "ILL" },
	{ 0x11, "SVC32" },	 { 0x12, "HVC32" },	  { 0x13, "SMC32" },
	{ 0x15, "SVC64" },	 { 0x16, "HVC64" },	  { 0x17, "SMC64" },
	{ 0x18, "SYS64" },	 { 0x19, "SVE" },	  { 0x1a, "ERET" },
	{ 0x1c, "FPAC" },	 { 0x1d, "SME" },	  { 0x1f, "IMP_DEF" },
	{ 0x20, "IABT_LOW" },	 { 0x21, "IABT_CUR" },	  { 0x22, "PC_ALIGN" },
	{ 0x24, "DABT_LOW" },	 { 0x25, "DABT_CUR" },	  { 0x26, "SP_ALIGN" },
	{ 0x27, "MOPS" },	 { 0x28, "FP_EXC32" },	  { 0x2c, "FP_EXC64" },
	{ 0x2f, "SERROR" },	 { 0x30, "BREAKPT_LOW" }, { 0x31, "BREAKPT_CUR" },
	{ 0x32, "SOFTSTP_LOW" }, { 0x33, "SOFTSTP_CUR" }, { 0x34, "WATCHPT_LOW" },
	{ 0x35, "WATCHPT_CUR" }, { 0x38, "BKPT32" },	  { 0x3a, "VECTOR32" },
	{ 0x3c, "BRK64" },
};
static const struct event_table arm = TABLE(arm_symbols);

static struct event_symbol uexit_symbols[] = {
#include "kvm_exits.inc"
};
static const struct event_table uexit = TABLE(uexit_symbols), none;

/* What the numbers of one class mean. */
struct meaning {
	/* names of the kernel, or NULL, and of the headers */
	const struct event_table *kernel, *headers;
	/* the same of the bits outside of the mask */
	const struct event_table *kernel_flags, *headers_flags;
	uint32_t mask;
};

static struct meaning meaning_of(const struct reasons *r, enum reason_event event, uint32_t class)
{
	const struct event_format *format = &r->formats[event];
	struct meaning m = { NULL, &none, NULL, &none, UINT32_MAX };

	if (event == REASON_UEXIT) {
		m.kernel = event_format_table(format, "reason", false, 0);
		m.headers = &uexit;
	} else if (r->arm) {
		/* What the world switch returned, and if that was a trap, its exception class. */
		if (class == CLASS_ARM_TRAP) {
			m.kernel = event_format_table(format, "esr_ec", false, 0);
			m.headers = &arm;
		}
	} else if (class == CLASS_VMX) {
		/* "(REC->isa == 1) ? VMX's table : SVM's"; the low half is the basic reason. */
		m = (struct meaning){ event_format_table(format, "exit_reason", false, class), &vmx,
				      event_format_table(format, "exit_reason", true, class),
				      &vmx_flags, 0xffff };
	} else {
		m.kernel = event_format_table(format, "exit_reason", false, 0);
		m.headers = class == CLASS_SVM ? &svm : &none;
	}
	return m;
}

static const char *name_of(const struct event_table *kernel, const struct event_table *headers,
			   uint32_t value)
{
	const char *name = kernel ? event_table_name(kernel, value) : NULL;

	return name ? name : event_table_name(headers, value);
}

/* ---- names ---- */

/* As one word; the kernel's "KVM_EXIT_" says no more than the event does. */
static void copy_name(char name[REASON_NAME_SIZE], const char *from)
{
	static const char prefix[] = "KVM_EXIT_";

	if (strncmp(from, prefix, sizeof(prefix) - 1) == 0)
		from += sizeof(prefix) - 1;
	snprintf(name, REASON_NAME_SIZE, "%s", from);
	for (char *c = name; *c; c++)
		if (*c == ' ' || *c == '(' || *c == ')')
			*c = '_';
}

/* What the world switch of arm64 returned. */
static const struct event_table *arm_returns(const struct reasons *r)
{
	const struct event_table *kernel =
	    event_format_table(&r->formats[REASON_EXIT], "ret", false, 0);

	return kernel ? kernel : &none;
}

char *reason_name(const struct reasons *r, enum reason_event event, uint32_t class, uint32_t reason,
		  char name[REASON_NAME_SIZE])
{
	struct meaning m = meaning_of(r, event, class);
	const uint32_t flags = reason & ~m.mask;
	const char *text = name_of(m.kernel, m.headers, reason & m.mask);
	size_t len;

	/* KVM_RUN failed: except after a signal, the page still has an earlier reason. */
	if (event == REASON_UEXIT && class != CLASS_RETURNED && reason != KVM_EXIT_INTR)
		text = class == CLASS_EINTR ? "restart" : "error";
	if (event == REASON_EXIT && r->arm && class != CLASS_ARM_TRAP)
		text = event_table_name(arm_returns(r), class);
	if (text)
		copy_name(name, text);
	else
		snprintf(name, REASON_NAME_SIZE, "0x%x", reason & m.mask);
	text = name_of(m.kernel_flags, m.headers_flags, flags);
	len = strlen(name);
	if (flags && text)
		snprintf(name + len, REASON_NAME_SIZE - len, "|%s", text);
	else if (flags)
		snprintf(name + len, REASON_NAME_SIZE - len, "|0x%x", flags);
	return name;
}

/* ---- the list ---- */

static int add(struct reasons *r, enum reason_event event, uint32_t class, uint32_t reason,
	       bool listed)
{
	struct reason *made;

	for (size_t i = 0; i < r->n; i++)
		if (r->list[i].event == event && r->list[i].class == class &&
		    r->list[i].reason == reason)
			return 0;
	made = ARRAY_ADD(r->list, r->n);
	if (!made)
		return -ENOMEM;
	*made = (struct reason){ event, class, reason, "", listed };
	reason_name(r, event, class, reason, made->name);
	return 0;
}

/* Adds all reasons with a name in @class.  If the kernel's names can be read, reasons of the
 * headers are not listed; they are known if asked for. */
static int add_class(struct reasons *r, enum reason_event event, uint32_t class, bool listed)
{
	struct meaning m = meaning_of(r, event, class);
	int err = 0;

	for (size_t i = 0; !err && m.kernel && i < m.kernel->n; i++)
		err = add(r, event, class, (uint32_t)m.kernel->symbols[i].value, listed);
	for (size_t i = 0; !err && i < m.headers->n; i++)
		err = add(r, event, class, (uint32_t)m.headers->symbols[i].value,
			  listed && !m.kernel);
	return err;
}

static int make_list(struct reasons *r, enum cpu_virt cpu)
{
	const struct {
		enum reason_event event;
		uint32_t class;
		bool there, listed;
	} classes[] = {
		{ REASON_EXIT, CLASS_VMX, !r->arm, cpu == CPU_VMX },
		{ REASON_EXIT, CLASS_SVM, !r->arm, cpu == CPU_SVM },
		{ REASON_EXIT, CLASS_ARM_TRAP, r->arm, cpu == CPU_ARM64 },
		{ REASON_UEXIT, CLASS_RETURNED, true, true },
		/* What a call that failed left in the page can be any of them. */
		{ REASON_UEXIT, CLASS_EINTR, true, true },
		{ REASON_UEXIT, CLASS_ERRNO, true, true },
	};
	const struct event_table *returns = arm_returns(r);
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(classes); i++)
		if (classes[i].there)
			err = add_class(r, classes[i].event, classes[i].class, classes[i].listed);
	for (size_t i = 0; !err && i < returns->n; i++)
		if (returns->symbols[i].value != CLASS_ARM_TRAP)
			err = add(r, REASON_EXIT, (uint32_t)returns->symbols[i].value, 0,
				  cpu == CPU_ARM64);
	return err;
}

/* ---- open ---- */

/* "esr_ec" and "ret" are arm64's, the others x86's. */
static void find_fields(struct reasons *r, const struct event_format *entries)
{
	const struct event_format *exits = &r->formats[REASON_EXIT];
	struct reason_fields *f = &r->fields;

	f->exit_reason = event_format_offset(exits, "exit_reason");
	f->exit_class = event_format_offset(exits, "isa");
	f->exit_vcpu = event_format_offset(exits, "vcpu_id");
	if (!f->exit_reason && event_format_offset(exits, "esr_ec")) {
		f->exit_reason = event_format_offset(exits, "esr_ec");
		f->exit_class = event_format_offset(exits, "ret");
		r->arm = true;
	}
	f->entry_vcpu = event_format_offset(entries, "vcpu_id");
	f->uexit_reason = event_format_offset(&r->formats[REASON_UEXIT], "reason");
	f->uexit_errno = event_format_offset(&r->formats[REASON_UEXIT], "errno");
}

int reasons_open(const struct reason_formats *formats, enum cpu_virt cpu, struct reasons **out)
{
	struct reasons *r = calloc(1, sizeof(*r));
	struct event_format entries = { 0 };
	int err;

	if (!r)
		return -ENOMEM;
	err = event_format_parse(formats->exit ?: "", &r->formats[REASON_EXIT]);
	if (!err)
		err = event_format_parse(formats->uexit ?: "", &r->formats[REASON_UEXIT]);
	if (!err)
		err = event_format_parse(formats->entry ?: "", &entries);
	find_fields(r, &entries);
	event_format_free(&entries);
	if (!err)
		err = make_list(r, cpu);
	if (err)
		reasons_free(r);
	else
		*out = r;
	return err;
}

int reasons_open_running(struct reasons **out)
{
	const struct reason_formats formats = {
		.exit = tracefs_format(NULL, "kvm", "kvm_exit"),
		.uexit = tracefs_format(NULL, "kvm", "kvm_userspace_exit"),
		.entry = tracefs_format(NULL, "kvm", "kvm_entry"),
	};
	struct utsname uts;
	int r;

	uname(&uts);
	r = reasons_open(&formats, cpus_virt("/proc/cpuinfo", uts.machine), out);
	free(formats.exit);
	free(formats.uexit);
	free(formats.entry);
	return r;
}

void reasons_free(struct reasons *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < REASON_EVENTS; i++)
		event_format_free(&r->formats[i]);
	free(r->list);
	free(r);
}

struct reason_fields reasons_fields(const struct reasons *r)
{
	return r->fields;
}

const struct reason *reasons_list(const struct reasons *r, size_t *n)
{
	*n = r->n;
	return r->list;
}
