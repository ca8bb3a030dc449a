// SPDX-License-Identifier: GPL-2.0-or-later
#include "cmd/kvm/reasons.h"

#include <errno.h>

#include "cmd/kvm/reason_tables.h"
#include "core/system/event_format.h"
#include "probes/kvm.h"

struct reasons {
	struct event_format formats[REASON_EVENTS];
	struct reason_fields fields;
	bool arm; /* the record is that of arm64 */
	struct reason *list;
	size_t n;
};

/* What the numbers of one class mean. */
struct meaning {
	const struct event_table *kernel; /* the kernel's own names, or NULL */
	const struct event_table *flags;  /* names of the bits outside of the mask, or NULL */
	const struct known_table *known;  /* ours, or NULL */
	uint32_t mask;
};

/* ---- tables ---- */

static const struct event_table *find_table(const struct event_format *format, const char *field,
					    bool flags, bool conditional, uint32_t when)
{
	for (size_t i = 0; i < format->n_tables; i++) {
		const struct event_table *t = &format->tables[i];

		if (strcmp(t->field, field) == 0 && t->flags == flags &&
		    t->conditional == conditional && (!conditional || t->when == when))
			return t;
	}
	return NULL;
}

static struct meaning meaning_x86(const struct reasons *r, uint32_t class)
{
	const struct event_format *format = &r->formats[REASON_EXIT];
	struct meaning m = { .mask = UINT32_MAX };

	/* "(REC->isa == 1) ? VMX's table : SVM's" */
	m.kernel = find_table(format, "exit_reason", false, class == CLASS_VMX, CLASS_VMX);
	if (class == CLASS_VMX) {
		m.known = &reasons_vmx;
		m.flags = find_table(format, "exit_reason", true, true, CLASS_VMX);
		/* The low half is the basic reason, what is above it says more of it. */
		m.mask = 0xffff;
	} else if (class == CLASS_SVM) {
		m.known = &reasons_svm;
	}
	return m;
}

/* What the world switch returned, and if that was a trap, which class of exception. */
static struct meaning meaning_arm(const struct reasons *r, uint32_t class)
{
	const struct event_format *format = &r->formats[REASON_EXIT];
	struct meaning m = { .mask = UINT32_MAX };

	if (class != CLASS_ARM_TRAP)
		return m;
	m.kernel = find_table(format, "esr_ec", false, false, 0);
	m.known = &reasons_arm_traps;
	return m;
}

static struct meaning meaning_of(const struct reasons *r, enum reason_event event, uint32_t class)
{
	if (event == REASON_EXIT)
		return r->arm ? meaning_arm(r, class) : meaning_x86(r, class);
	return (struct meaning){
		.kernel = find_table(&r->formats[REASON_UEXIT], "reason", false, false, 0),
		.known = &reasons_uexit,
		.mask = UINT32_MAX,
	};
}

static const char *known_name(const struct known_table *table, uint32_t value)
{
	for (size_t i = 0; table && i < table->n; i++)
		if (table->known[i].value == value)
			return table->known[i].name;
	return NULL;
}

static const char *plain_name(const struct meaning *m, uint32_t value)
{
	const char *name = m->kernel ? event_table_name(m->kernel, value) : NULL;

	return name ? name : known_name(m->known, value);
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

static const char *exit_class_name(const struct reasons *r, uint32_t class)
{
	const struct event_table *kernel =
	    find_table(&r->formats[REASON_EXIT], "ret", false, false, 0);
	const char *name = kernel ? event_table_name(kernel, class) : NULL;

	return name ? name : known_name(&reasons_arm_returns, class);
}

#define FAILED_VMENTRY 0x80000000U /* bit 31 of VMX's exit reason */

static void append_flags(const struct meaning *m, uint32_t flags, char name[REASON_NAME_SIZE])
{
	const char *text = m->flags ? event_table_name(m->flags, flags) : NULL;
	size_t len = strlen(name);

	if (!flags)
		return;
	if (!text && flags == FAILED_VMENTRY)
		text = "FAILED_VMENTRY";
	if (text)
		snprintf(name + len, REASON_NAME_SIZE - len, "|%s", text);
	else
		snprintf(name + len, REASON_NAME_SIZE - len, "|0x%x", flags);
}

char *reason_name(const struct reasons *r, enum reason_event event, uint32_t class, uint32_t reason,
		  char name[REASON_NAME_SIZE])
{
	struct meaning m = meaning_of(r, event, class);
	const char *text = plain_name(&m, reason & m.mask);

	/* KVM_RUN failed: the reason is what was left in the page before, but for a signal's. */
	if (event == REASON_UEXIT && class != KVM_UEXIT_OK && reason != KVM_UEXIT_INTR)
		text = class == KVM_UEXIT_EINTR ? "restart" : "error";
	if (event == REASON_EXIT && r->arm && class != CLASS_ARM_TRAP)
		text = exit_class_name(r, class);
	if (text)
		copy_name(name, text);
	else
		snprintf(name, REASON_NAME_SIZE, "0x%x", reason & m.mask);
	append_flags(&m, reason & ~m.mask, name);
	return name;
}

/* ---- the list ---- */

static int add(struct reasons *r, enum reason_event event, uint32_t class, uint32_t reason,
	       bool listed)
{
	struct reason *more;

	for (size_t i = 0; i < r->n; i++)
		if (r->list[i].event == event && r->list[i].class == class &&
		    r->list[i].reason == reason)
			return 0;
	more = reallocarray(r->list, r->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	r->list = more;
	more[r->n] = (struct reason){ event, class, reason, "", listed };
	reason_name(r, event, class, reason, more[r->n].name);
	r->n++;
	return 0;
}

/* All that have a name in @class. */
static int add_class(struct reasons *r, enum reason_event event, uint32_t class, bool listed)
{
	struct meaning m = meaning_of(r, event, class);
	int err = 0;

	for (size_t i = 0; !err && m.kernel && i < m.kernel->n; i++)
		err = add(r, event, class, (uint32_t)m.kernel->symbols[i].value, listed);
	/* Ours are for where the kernel's cannot be read. */
	for (size_t i = 0; !err && !m.kernel && m.known && i < m.known->n; i++)
		err = add(r, event, class, m.known->known[i].value, listed);
	return err;
}

static int add_arm_returns(struct reasons *r, bool listed)
{
	int err = 0;

	for (size_t i = 0; !err && i < reasons_arm_returns.n; i++)
		if (reasons_arm_returns.known[i].value != CLASS_ARM_TRAP)
			err = add(r, REASON_EXIT, reasons_arm_returns.known[i].value, 0, listed);
	return err;
}

static int make_list(struct reasons *r, enum reason_cpu cpu)
{
	size_t named;
	int err;

	if (r->arm) {
		err = add_class(r, REASON_EXIT, CLASS_ARM_TRAP, cpu == CPU_ARM64);
		if (!err)
			err = add_arm_returns(r, cpu == CPU_ARM64);
	} else {
		err = add_class(r, REASON_EXIT, CLASS_VMX, cpu == CPU_VMX);
		if (!err)
			err = add_class(r, REASON_EXIT, CLASS_SVM, cpu == CPU_SVM);
	}
	if (!err)
		err = add_class(r, REASON_UEXIT, KVM_UEXIT_OK, true);
	/* What a call that failed left in the page can be any of them. */
	named = r->n;
	for (size_t i = 0; !err && i < named; i++) {
		if (r->list[i].event != REASON_UEXIT)
			continue;
		err = add(r, REASON_UEXIT, KVM_UEXIT_EINTR, r->list[i].reason, true);
		if (!err)
			err = add(r, REASON_UEXIT, KVM_UEXIT_ERRNO, r->list[i].reason, true);
	}
	return err;
}

/* ---- open ---- */

/* The offset of a field of 32 bits, 0: there is none. */
static uint32_t offset_of(const struct event_format *format, const char *name)
{
	const struct event_field *field = event_format_field(format, name);

	return field && field->size == 4 ? field->offset : 0;
}

/* "esr_ec" and "ret" are arm64's, the others x86's. */
static void find_fields(struct reasons *r)
{
	const struct event_format *exits = &r->formats[REASON_EXIT];
	struct reason_fields *f = &r->fields;

	f->exit_reason = offset_of(exits, "exit_reason");
	f->exit_class = offset_of(exits, "isa");
	f->exit_vcpu = offset_of(exits, "vcpu_id");
	if (!f->exit_reason && offset_of(exits, "esr_ec")) {
		f->exit_reason = offset_of(exits, "esr_ec");
		f->exit_class = offset_of(exits, "ret");
		r->arm = true;
	}
	f->uexit_reason = offset_of(&r->formats[REASON_UEXIT], "reason");
	f->uexit_errno = offset_of(&r->formats[REASON_UEXIT], "errno");
}

int reasons_open(const char *exit_format, const char *uexit_format, enum reason_cpu cpu,
		 struct reasons **out)
{
	struct reasons *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	err = event_format_parse(exit_format ? exit_format : "", &r->formats[REASON_EXIT]);
	if (!err)
		err =
		    event_format_parse(uexit_format ? uexit_format : "", &r->formats[REASON_UEXIT]);
	if (!err) {
		find_fields(r);
		r->arm = r->arm || (cpu == CPU_ARM64 && !r->fields.exit_reason);
		err = make_list(r, cpu);
	}
	if (err) {
		reasons_free(r);
		return err;
	}
	*out = r;
	return 0;
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

enum reason_cpu reasons_cpu(const char *cpuinfo_path, const char *machine)
{
	enum reason_cpu cpu = strcmp(machine, "aarch64") == 0 ? CPU_ARM64 : CPU_UNKNOWN;
	FILE *file = fopen(cpuinfo_path, "re");
	char *line = NULL, *rest, *word;
	size_t size = 0;

	/* One processor's flags speak for all. */
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
	if (file)
		fclose(file);
	return cpu;
}
