/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef IOTRACE_CMD_STACK_STACK_H
#define IOTRACE_CMD_STACK_STACK_H

/* One run of iotrace stack, shared by its parts: the BPF object (object.c), what is taken out of
 * it (collect.c), and what is shown (show.c). */

#include "cmd/run.h"
#include "cmd/session.h"
#include "cmd/show.h"
#include "cmd/stack/frames.h"
#include "cmd/stack/options.h"
#include "cmd/stack/table.h"
#include "core/bpf/double_buffer.h"
#include "core/system/process_names.h"
#include "core/system/outfile.h"
#include "output/stacks.h"

/* Losses of its own, beside those that all block subcommands have. */
enum {
	STACK_LOSS_FOLDED = STACK_LOSSES,
	STACK_LOSS_RECORDS,
	STACK_LOSS_SYMBOLS,
	STACK_LOSS_MAPPINGS,
	STACK_LOSS_NAMES,
	STACK_LOSS_ROWS_ALL
};

#define STACK_NOTES 4 /* one for each of the stack_..._error() below */

struct stack {
	struct stack_options o;
	struct session session;
	struct stack_bpf *skel;
	struct flip *flip;
	struct names *names;
	struct table table;
	struct naming naming;
	/* Rows that have been drained; their stacks are numbers of naming.now and naming.next. */
	struct table now, next;
	struct run *run;
	bool is_last;	      /* nothing is counted any more */
	int failed;	      /* -errno of what was done while files were read */
	uint32_t names_taken; /* from the maps, last */
	struct outfile svg;
	uint64_t begin_ns, turned_ns; /* CLOCK_MONOTONIC */
	uint64_t begin_epoch_ns, end_epoch_ns;
	uint64_t bytes;	      /* so far */
	uint64_t progress_ns; /* when progress was shown last; 0: never */
	struct blk_loss_state blk_losses;
	struct loss losses[BLK_LOSS_ROWS + STACK_LOSS_ROWS_ALL];
	struct show_setting settings[3];
	const char *notes[STACK_NOTES]; /* what has no names, and why */
	char note_texts[STACK_NOTES][sizeof(struct error)];
	size_t n_notes;
	struct show show;
};

/* object.c: loads and attaches.  -errno with @err. */
int stack_attach(struct stack *s, struct error *err);
void stack_close(struct stack *s);

/* collect.c: drains the maps, names what was drained now, or while files were read the last time,
 * and adds it to the table.  What is drained while files are read waits for the next call; the
 * @last one leaves nothing.  -errno with @err. */
int stack_collect(struct stack *s, bool last, struct error *err);

/* Opens what names are looked up in. */
int stack_open_naming(struct stack *s, struct error *err);

/* Why kernel frames have no names, though they can be had: kallsyms_hidden(). */
void stack_hidden_error(struct error *err);

/* The same of user frames: perf_event_open() failed with @why. */
void stack_unfollowed_error(int why, struct error *err);

/* The same of all user frames: there is no helper process, symbol_client_open() failed with @why.
 */
void stack_helper_error(int why, struct error *err);

/* The same of other users' processes: true, with @err, if this one may not look at them. */
bool stack_others_error(struct error *err);

/* show.c: what s->show needs. */
void stack_prepare_show(struct stack *s);

/* Shows, and records, all of the table.  As show_output(). */
int stack_show(struct stack *s, const struct loss *losses, size_t n, struct error *err);

/* Progress, on standard error if that is a terminal; and wiped off again. */
void stack_show_progress(struct stack *s);
void stack_wipe_progress(struct stack *s);

/* Says which files of symbols were not read, on standard error. */
void stack_show_unread(const struct stack *s);

/* Opens the flame graph's file, if there is to be one.  -errno with @err. */
int stack_open_svg(struct stack *s, struct error *err);

#endif
