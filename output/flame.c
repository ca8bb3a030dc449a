/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The flame graph, and the one of the difference between two recordings. */
#include "output/stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "core/base/intern.h"
#include "output/page_script.h"
#include "output/render_internal.h"

#define LEFT	     10.0
#define WIDTH	     1180.0 /* page_script.h has the same */
#define FRAME_HEIGHT 17
#define TOP	     60
#define BOTTOM	     44
#define CHAR_WIDTH   6.7
#define MAX_FRAMES   512
#define MAX_NODES    (1U << 19) /* in units of 100 bytes; more are merged into one */

enum kind { KIND_ALL, KIND_DISK, KIND_LABEL, KIND_PROCESS, KIND_USER, KIND_KERNEL, KIND_REST };

/* A node of the merged tree: the common part of all stacks that pass through it. */
struct node_key {
	uint32_t parent; /* number */
	uint32_t kind;
	uint32_t pid;
	uint32_t pad;
	const char *name;
};

/* The values that a row adds to the nodes on its path. */
struct amount {
	uint64_t sum;	   /* the width */
	uint64_t writes;   /* the written part of it */
	uint64_t sides[2]; /* of a difference, which has no writes: of A and of B */
};

struct tree {
	struct intern nodes;	/* struct node_key; node 0 is above all */
	struct amount *amounts; /* by node: of all stacks through it */
	uint32_t room;
	uint32_t *sorted; /* all nodes: children of one parent together, by name */
	uint32_t *first;  /* by node: index of its first child in sorted; [n] ends */
	uint64_t least;	  /* narrower nodes are merged, or left out */
	unsigned int depth;
	enum stack_unit unit;
	const struct stacks_sides *sides; /* of a difference; otherwise NULL */
	size_t cut;			  /* rows with incomplete frames, for want of room */
};

static const struct node_key *key_of(const struct tree *t, uint32_t node)
{
	return intern_key(&t->nodes, node);
}

/* ---- making the tree ---- */

/* Makes room for the amount of node @node.  0 or -ENOMEM. */
static int grow_amounts(struct tree *t, uint32_t node)
{
	const uint32_t room = t->room + t->room / 2 + 256;
	struct amount *grown;

	if (node < t->room)
		return 0;
	grown = realloc(t->amounts, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->amounts = grown;
	t->room = room;
	return 0;
}

static void add_amount(struct amount *to, const struct amount *more)
{
	to->sum += more->sum;
	to->writes += more->writes;
	to->sides[0] += more->sides[0];
	to->sides[1] += more->sides[1];
}

#define NO_ROOM (INTERN_NONE - 1)

/* The child of @parent, with @more; INTERN_NONE; NO_ROOM: the rest of the row is counted in
 * @parent. */
static uint32_t add_node(struct tree *t, const struct node_key *key, const struct amount *more)
{
	int is_new = 0;
	uint32_t node = t->nodes.n < MAX_NODES ? intern_bytes(&t->nodes, key, sizeof(*key), &is_new)
					       : intern_find(&t->nodes, key, sizeof(*key));

	if (node == INTERN_NONE && t->nodes.n == MAX_NODES)
		return NO_ROOM;
	if (node == INTERN_NONE || grow_amounts(t, node))
		return INTERN_NONE;
	if (is_new)
		t->amounts[node] = (struct amount){ 0 };
	add_amount(&t->amounts[node], more);
	return node;
}

static uint32_t add_frames(struct tree *t, uint32_t parent, struct frames frames, enum kind kind,
			   const struct amount *more)
{
	const char *names[MAX_FRAMES], *name;
	size_t n = 0;

	while (n < MAX_FRAMES && (name = frames_next(&frames)))
		names[n++] = name;
	while (n-- > 0 && parent < NO_ROOM)
		parent = add_node(t, &(struct node_key){ parent, kind, 0, 0, names[n] }, more);
	return parent;
}

/* The child @key of @parent, or @parent if it is not shown. */
static uint32_t add_label(struct tree *t, uint32_t parent, const struct node_key *label,
			  const struct amount *more)
{
	struct node_key key = *label;

	if (parent >= NO_ROOM || !key.name || !key.name[0])
		return parent;
	key.parent = parent;
	return add_node(t, &key, more);
}

static int add_row(struct tree *t, const struct stack_row *row, const struct amount *more)
{
	uint32_t node = 0;

	add_amount(&t->amounts[0], more);
	node = add_label(t, node, &(struct node_key){ 0, KIND_DISK, 0, 0, row->disk }, more);
	for (int label = 0; label < STACK_LABELS; label++)
		node = add_label(
		    t, node, &(struct node_key){ 0, KIND_LABEL, 0, 0, row->labels[label] }, more);
	node =
	    add_label(t, node, &(struct node_key){ 0, KIND_PROCESS, row->pid, 0, row->comm }, more);
	if (node < NO_ROOM)
		node = add_frames(t, node, row->user, KIND_USER, more);
	if (node < NO_ROOM)
		node = add_frames(t, node, row->kernel, KIND_KERNEL, more);
	t->cut += node == NO_ROOM;
	return node == INTERN_NONE ? -ENOMEM : 0;
}

static int by_parent(const void *a, const void *b, void *tree)
{
	const struct node_key *x = key_of(tree, *(const uint32_t *)a);
	const struct node_key *y = key_of(tree, *(const uint32_t *)b);
	int r;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	r = strcmp(x->name, y->name);
	if (r)
		return r;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int sort_nodes(struct tree *t)
{
	uint32_t n = t->nodes.n, at = 1;

	t->sorted = calloc(n, sizeof(*t->sorted));
	t->first = calloc((size_t)n + 1, sizeof(*t->first));
	if (!t->sorted || !t->first)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		t->sorted[i] = i;
	/* Node 0 stays in front: it is not a child of itself. */
	qsort_r(t->sorted + 1, n - 1, sizeof(*t->sorted), by_parent, t);
	for (uint32_t parent = 0; parent < n; parent++) {
		t->first[parent] = at;
		while (at < n && key_of(t, t->sorted[at])->parent == parent)
			at++;
	}
	t->first[n] = at;
	return 0;
}

static int add_rows(struct tree *t, const struct stack_row *rows, size_t n)
{
	int r = 0;

	/* The largest rows, which are last, get room first. */
	for (size_t i = n; !r && i > 0; i--)
		r = add_row(t, &rows[i - 1],
			    &(struct amount){ stack_row_sum(&rows[i - 1], t->unit),
					      stack_row_writes(&rows[i - 1], t->unit),
					      { 0 } });
	return r;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* A path is as wide as the larger of its rates, so that its frames have room for both. */
static int add_pairs(struct tree *t, const struct stack_pair *pairs, size_t n)
{
	const double *whole = t->sides->whole;
	double sums[2] = { 0 }, unit;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		for (int side = 0; side < 2; side++)
			sums[side] += (double)pairs[i].sums[side];
	unit = 0x1p52 / (sums[0] / whole[0] + sums[1] / whole[1]);
	for (size_t i = n; !r && i > 0; i--) {
		const uint64_t *of = pairs[i - 1].sums;
		const double width =
		    unit * larger((double)of[0] / whole[0], (double)of[1] / whole[1]);

		r = add_row(t, &pairs[i - 1].row,
			    &(struct amount){ (uint64_t)width, 0, { of[0], of[1] } });
	}
	return r;
}

/* 0 or -ENOMEM.  @pairs: of a difference; otherwise @rows. */
static int make_tree(struct tree *t, const struct stack_row *rows, const struct stack_pair *pairs,
		     size_t n)
{
	const struct node_key all = { 0, KIND_ALL, 0, 0, "all" };
	int r = add_node(t, &all, &(struct amount){ 0 }) == INTERN_NONE ? -ENOMEM : 0;

	if (!r && pairs)
		r = add_pairs(t, pairs, n);
	if (!r && rows)
		r = add_rows(t, rows, n);
	if (!r)
		r = sort_nodes(t);
	if (!r)
		t->least = (uint64_t)((double)t->amounts[0].sum * STACKS_SVG_LEAST);
	return r;
}

static void free_tree(struct tree *t)
{
	intern_free(&t->nodes);
	free(t->amounts);
	free(t->sorted);
	free(t->first);
}

/* The children of a node that are too narrow to draw: together they may be wide enough. */
struct rest {
	struct amount amount;
	uint32_t frames;
};

/* Is node @child too narrow?  If so, it is added to @rest. */
static bool is_rest(const struct tree *t, uint32_t child, struct rest *rest)
{
	if (t->amounts[child].sum >= t->least)
		return false;
	add_amount(&rest->amount, &t->amounts[child]);
	rest->frames++;
	return true;
}

static bool rest_is_drawn(const struct tree *t, const struct rest *rest)
{
	return rest->frames && rest->amount.sum >= t->least;
}

/* The depth of the drawing; a path has at most a disk, a process and two stacks. */
static unsigned int depth_of(const struct tree *t, uint32_t node)
{
	unsigned int deepest = 0;
	struct rest rest = { 0 };

	for (uint32_t i = t->first[node]; i < t->first[node + 1]; i++) {
		unsigned int depth;

		if (is_rest(t, t->sorted[i], &rest))
			continue;
		depth = depth_of(t, t->sorted[i]);
		if (depth > deepest)
			deepest = depth;
	}
	if (!deepest && rest_is_drawn(t, &rest))
		deepest = 1;
	return deepest + 1;
}

/* ---- drawing ---- */

static size_t shown_length(const char *name)
{
	struct name_walk walk = { name, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];
	size_t n = 0;

	while (name_next(&walk, unit))
		n += (unsigned char)unit[0] < 0x80 ? strlen(unit) : 1;
	return n;
}

#define HUE_READS  205
#define HUE_WRITES 20
#define HUE_MORE   4
#define HUE_LESS   215

/* The same name has the same shade everywhere; the kind determines its strength. */
static void put_colour(struct sink *sink, const struct node_key *key, unsigned int hue)
{
	static const struct {
		unsigned int saturation, light;
	} base[] = {
		[KIND_ALL] = { 12, 78 },     [KIND_DISK] = { 45, 56 }, [KIND_LABEL] = { 35, 66 },
		[KIND_PROCESS] = { 35, 76 }, [KIND_USER] = { 60, 72 }, [KIND_KERNEL] = { 80, 62 },
		[KIND_REST] = { 12, 78 },
	};
	unsigned int hash = 5381;

	for (const char *c = key->name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	sink_printf(sink, "hsl(%u,%u%%,%u%%)", hue + hash % 20, base[key->kind].saturation,
		    base[key->kind].light + hash / 20 % 12);
}

/* The rate of A and of B, or their shares of the whole. */
static double side_of(const struct tree *t, const struct amount *of, int side)
{
	return (double)of->sides[side] / t->sides->whole[side];
}

/* From -1 (only in A) to 1 (only in B). */
static double change_of(const struct tree *t, const struct amount *of)
{
	const double a = side_of(t, of, 0), b = side_of(t, of, 1), most = larger(a, b);

	return most > 0 ? (b - a) / most : 0;
}

/* The stronger, the larger the change is. */
static void put_change_colour(struct sink *sink, double change)
{
	const double by = fabs(change);

	if (by < STACKS_SVG_SAME)
		sink_puts(sink, "hsl(45,12%,85%)");
	else
		sink_printf(sink, "hsl(%u,%.0f%%,%.0f%%)", change > 0 ? HUE_MORE : HUE_LESS,
			    60 + 30 * by, 90 - 30 * by);
}

/* ", +12.3 %" behind a name; "" if it is no difference. */
#define CHANGE_SIZE 32
static const char *change_text(const struct tree *t, const struct amount *of, char to[CHANGE_SIZE])
{
	double a, b;

	to[0] = 0;
	if (!t->sides)
		return to;
	a = side_of(t, of, 0);
	b = side_of(t, of, 1);
	if (!of->sides[0] || !of->sides[1])
		snprintf(to, CHANGE_SIZE, ", %s", of->sides[0] ? "gone" : "new");
	else if (b >= 10 * a)
		snprintf(to, CHANGE_SIZE, ", x%.3g", b / a);
	else
		snprintf(to, CHANGE_SIZE, ", %+.1f %%", 100 * (b / a - 1));
	return to;
}

static void put_label(struct sink *sink, const struct node_key *key, const char *change, double x,
		      double y, double width)
{
	size_t most = width > 6 ? (size_t)((width - 6) / CHAR_WIDTH) : 0;
	const char *name = key->name;
	char process[64];

	if (most < 3)
		return;
	if (key->pid) {
		snprintf(process, sizeof(process), "%.32s [%" PRIu32 "]", name, key->pid);
		name = process;
	}
	sink_printf(sink, "<text x=\"%.2f\" y=\"%.0f\">", x + 3, y + 12);
	if (shown_length(name) + strlen(change) <= most) {
		put_xml(sink, name, most);
		sink_puts(sink, change);
	} else {
		put_xml(sink, name, most - 2);
		sink_puts(sink, "..");
	}
	sink_puts(sink, "</text>");
}

static void put_rect(struct sink *sink, const char *class, double x, double y, double width)
{
	sink_printf(sink, "<rect%s x=\"%.3f\" y=\"%.0f\" width=\"%.3f\" height=\"%d\" fill=\"",
		    class, x, y, width, FRAME_HEIGHT - 1);
}

static double width_of_all(const struct tree *t)
{
	return (double)(t->amounts[0].sum ? t->amounts[0].sum : 1);
}

/* "(40.1 MiB/s -> 45.0 MiB/s; 2,406,123 bytes -> 2,700,000 bytes)" */
static void put_sides(struct sink *sink, const struct tree *t, const struct amount *of)
{
	char sums[2][64], rates[2][64];

	for (int side = 0; side < 2; side++) {
		stacks_amount(of->sides[side], t->unit, sums[side], sizeof(sums[side]));
		if (t->sides->shares)
			snprintf(rates[side], sizeof(rates[side]), "%.2f %%",
				 100 * side_of(t, of, side));
		else
			stacks_rate(side_of(t, of, side), t->unit, rates[side],
				    sizeof(rates[side]));
	}
	sink_printf(sink, " (%s -> %s; %s -> %s)", rates[0], rates[1], sums[0], sums[1]);
}

/* "name (1,234 bytes, 5.60 %, R: 1,000 bytes, W: 234 bytes)", or "name, +12.3 % (...)". */
static void put_title(struct sink *sink, const struct tree *t, const struct node_key *key,
		      const struct amount *of)
{
	const double all = width_of_all(t);
	char sum[64], read[64], written[64], change[CHANGE_SIZE];

	sink_puts(sink, "<title>");
	put_xml(sink, key->name, SIZE_MAX);
	if (key->pid)
		sink_printf(sink, " [%" PRIu32 "]", key->pid);
	if (t->sides) {
		sink_puts(sink, change_text(t, of, change));
		put_sides(sink, t, of);
		sink_puts(sink, "</title>");
		return;
	}
	sink_printf(sink, " (%s, %.2f %%", stacks_amount(of->sum, t->unit, sum, sizeof(sum)),
		    100 * (double)of->sum / all);
	if (of->writes && of->writes < of->sum)
		sink_printf(sink, ", R: %s, W: %s",
			    stacks_amount(of->sum - of->writes, t->unit, read, sizeof(read)),
			    stacks_amount(of->writes, t->unit, written, sizeof(written)));
	sink_puts(sink, ")</title>");
}

static void put_frame(struct sink *sink, const struct tree *t, const struct node_key *key,
		      const struct amount *of, uint64_t from, unsigned int level)
{
	const double all = width_of_all(t);
	char change[CHANGE_SIZE];
	double x = LEFT + WIDTH * (double)from / all;
	double width = key->kind == KIND_ALL ? WIDTH : WIDTH * (double)of->sum / all;
	double y = TOP + (double)(t->depth - 1 - level) * FRAME_HEIGHT, written;

	sink_puts(sink, "<g class=\"f\">");
	put_title(sink, t, key, of);
	put_rect(sink, "", x, y, width);
	if (t->sides)
		put_change_colour(sink, change_of(t, of));
	else
		put_colour(sink, key, of->writes && of->writes == of->sum ? HUE_WRITES : HUE_READS);
	sink_puts(sink, "\"/>");
	if (of->writes && of->writes < of->sum) {
		written = width * (double)of->writes / (double)of->sum;
		put_rect(sink, " class=\"w\"", x + width - written, y, written);
		put_colour(sink, key, HUE_WRITES);
		sink_puts(sink, "\"/>");
	}
	put_label(sink, key, change_text(t, of, change), x, y, width);
	sink_puts(sink, "</g>\n");
}

static void put_rest(struct sink *sink, const struct tree *t, const struct rest *rest,
		     uint64_t from, unsigned int level)
{
	char name[48];
	const struct node_key key = { .kind = KIND_REST, .name = name };

	if (!rest_is_drawn(t, rest))
		return;
	snprintf(name, sizeof(name), "[rest] %" PRIu32 " frames", rest->frames);
	put_frame(sink, t, &key, &rest->amount, from, level);
}

/* The rest is to the right of its siblings. */
static void put_tree(struct sink *sink, const struct tree *t, uint32_t node, uint64_t from,
		     unsigned int level)
{
	struct rest rest = { 0 };

	put_frame(sink, t, key_of(t, node), &t->amounts[node], from, level);
	for (uint32_t i = t->first[node]; i < t->first[node + 1]; i++) {
		uint32_t child = t->sorted[i];

		if (is_rest(t, child, &rest))
			continue;
		put_tree(sink, t, child, from, level + 1);
		from += t->amounts[child].sum;
	}
	put_rest(sink, t, &rest, from, level + 1);
}

/* The legend of the hues, centered below the heading. */
static void put_legend(struct sink *sink, const struct tree *t)
{
	static const char *const names[][2] = { { "reads", "writes" },
						{ "reads, page faults", "writes, syncs" } };
	const bool has[] = { t->amounts[0].writes < t->amounts[0].sum, t->amounts[0].writes };
	const struct node_key key = { .kind = KIND_KERNEL, .name = "" };
	double x = WIDTH / 2 - 130;

	sink_puts(sink, "<g id=\"legend\">");
	for (int i = 0; i < 2; i++, x += 150) {
		if (!has[i])
			continue;
		sink_printf(sink, "<rect x=\"%.0f\" y=\"37\" width=\"12\" height=\"12\" fill=\"",
			    x);
		put_colour(sink, &key, i ? HUE_WRITES : HUE_READS);
		sink_printf(sink, "\"/><text x=\"%.0f\" y=\"47\">%s</text>", x + 17,
			    names[t->unit == STACK_WAIT][i]);
	}
	sink_puts(sink, "</g>\n");
}

static void put_legend_of_changes(struct sink *sink)
{
	static const struct {
		double change;
		const char *name;
	} shown[] = { { 1, "more in B" }, { -1, "less in B" }, { 0, "as in A" } };
	double x = WIDTH / 2 - 180;

	sink_puts(sink, "<g id=\"legend\">");
	for (int i = 0; i < 3; i++, x += 120) {
		sink_printf(sink, "<rect x=\"%.0f\" y=\"37\" width=\"12\" height=\"12\" fill=\"",
			    x);
		put_change_colour(sink, shown[i].change);
		sink_printf(sink, "\"/><text x=\"%.0f\" y=\"47\">%s</text>", x + 17, shown[i].name);
	}
	sink_puts(sink, "</g>\n");
}

static void put_head(struct sink *sink, const struct tree *t, const char *title,
		     const char *caption)
{
	unsigned int height = TOP + t->depth * FRAME_HEIGHT + BOTTOM;

	sink_printf(sink,
		    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"1200\" "
		    "height=\"%u\" viewBox=\"0 0 1200 %u\">\n",
		    height, height);
	sink_puts(sink, "<style>\n"
			"text { font: 11px monospace; fill: #111 }\n"
			".f { cursor: pointer }\n"
			".f text { pointer-events: none }\n"
			".f:hover rect { stroke: #111; stroke-width: 1 }\n"
			".w { pointer-events: none }\n"
			".hit, .hit + .w { fill: #e800e8 }\n"
			"#head { font-size: 16px; text-anchor: middle }\n"
			"#reset, #flip, #search { cursor: pointer; text-decoration: underline }\n"
			"#search, #matched { text-anchor: end }\n"
			"</style>\n"
			"<rect width=\"100%\" height=\"100%\" fill=\"#fbfaf7\"/>\n"
			"<text id=\"head\" x=\"600\" y=\"26\">");
	put_xml(sink, title, SIZE_MAX);
	if (t->cut)
		sink_printf(sink, " (%zu small rows without all frames)", t->cut);
	sink_puts(sink,
		  "</text>\n<text id=\"reset\" x=\"10\" y=\"46\" style=\"display:none\">"
		  "Reset zoom</text>\n<text id=\"flip\" x=\"110\" y=\"46\" "
		  "style=\"display:none\">Icicle</text>\n<text id=\"search\" x=\"1190\" y=\"46\" "
		  "style=\"display:none\">Search</text>\n");
	if (t->sides)
		put_legend_of_changes(sink);
	else
		put_legend(sink, t);
	put_caption(sink, caption, 10, height - BOTTOM + 14, WIDTH);
	sink_printf(sink,
		    "<text id=\"details\" x=\"10\" y=\"%u\"> </text>\n"
		    "<text id=\"matched\" x=\"1190\" y=\"%u\"> </text>\n",
		    height - 14, height - 14);
}

static int draw(FILE *stream, const char *title, const char *caption, struct tree *t)
{
	struct sink sink = { .stream = stream };

	t->depth = depth_of(t, 0);
	put_head(&sink, t, title, caption);
	put_tree(&sink, t, 0, 0, 0);
	sink_puts(&sink, "<script><![CDATA[\n");
	sink_puts(&sink, page_script);
	sink_puts(&sink, "]]></script>\n</svg>\n");
	return sink_flush(&sink);
}

int stacks_svg(FILE *stream, const char *title, const char *caption, enum stack_unit unit,
	       const struct stack_row *rows, size_t n)
{
	struct tree t = { .unit = unit };
	int r = make_tree(&t, rows, NULL, n) ?: draw(stream, title, caption, &t);

	free_tree(&t);
	return r;
}

int stacks_svg_difference(FILE *stream, const char *title, const char *caption,
			  enum stack_unit unit, const struct stack_pair *pairs, size_t n,
			  const struct stacks_sides *sides)
{
	struct tree t = { .unit = unit, .sides = sides };
	int r = make_tree(&t, NULL, pairs, n) ?: draw(stream, title, caption, &t);

	free_tree(&t);
	return r;
}
