/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The flame graph. */
#include "output/stacks.h"

#include <errno.h>
#include <inttypes.h>
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

struct tree {
	struct intern nodes; /* struct node_key; node 0 is above all */
	uint64_t *sums;	     /* by node: total of all stacks through it */
	uint64_t *writes;    /* the written part of it */
	uint32_t room;
	uint32_t *sorted; /* all nodes: children of one parent together, by name */
	uint32_t *first;  /* by node: index of its first child in sorted; [n] ends */
	uint64_t least;	  /* narrower nodes are merged, or left out */
	unsigned int depth;
	enum stack_unit unit;
	size_t cut; /* rows with incomplete frames, for want of room */
};

static const struct node_key *key_of(const struct tree *t, uint32_t node)
{
	return intern_key(&t->nodes, node);
}

/* ---- making the tree ---- */

/* Both arrays of sums, with room for node @node.  0 or -ENOMEM. */
static int grow_sums(struct tree *t, uint32_t node)
{
	uint32_t room = t->room + t->room / 2 + 256;
	uint64_t *grown;

	if (node < t->room)
		return 0;
	grown = realloc(t->sums, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->sums = grown;
	grown = realloc(t->writes, room * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->writes = grown;
	t->room = room;
	return 0;
}

/* The values that a row adds to the nodes on its path. */
struct amount {
	uint64_t sum, writes;
};

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
	if (node == INTERN_NONE || grow_sums(t, node))
		return INTERN_NONE;
	if (is_new)
		t->sums[node] = t->writes[node] = 0;
	t->sums[node] += more->sum;
	t->writes[node] += more->writes;
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

static int add_row(struct tree *t, const struct stack_row *row)
{
	const struct amount more = { stack_row_sum(row, t->unit), stack_row_writes(row, t->unit) };
	uint32_t node = 0;

	t->sums[0] += more.sum;
	t->writes[0] += more.writes;
	node = add_label(t, node, &(struct node_key){ 0, KIND_DISK, 0, 0, row->disk }, &more);
	for (int label = 0; label < STACK_LABELS; label++)
		node = add_label(
		    t, node, &(struct node_key){ 0, KIND_LABEL, 0, 0, row->labels[label] }, &more);
	node = add_label(t, node, &(struct node_key){ 0, KIND_PROCESS, row->pid, 0, row->comm },
			 &more);
	if (node < NO_ROOM)
		node = add_frames(t, node, row->user, KIND_USER, &more);
	if (node < NO_ROOM)
		node = add_frames(t, node, row->kernel, KIND_KERNEL, &more);
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

static int make_tree(struct tree *t, const struct stack_row *rows, size_t n)
{
	const struct node_key all = { 0, KIND_ALL, 0, 0, "all" };
	int r = add_node(t, &all, &(struct amount){ 0 }) == INTERN_NONE ? -ENOMEM : 0;

	/* The largest rows, which are last, get room first. */
	for (size_t i = n; !r && i > 0; i--)
		r = add_row(t, &rows[i - 1]);
	if (!r)
		r = sort_nodes(t);
	if (!r)
		t->least = (uint64_t)((double)t->sums[0] * STACKS_SVG_LEAST);
	return r;
}

static void free_tree(struct tree *t)
{
	intern_free(&t->nodes);
	free(t->sums);
	free(t->writes);
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
	if (t->sums[child] >= t->least)
		return false;
	rest->amount.sum += t->sums[child];
	rest->amount.writes += t->writes[child];
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

static void put_label(struct sink *sink, const struct node_key *key, double x, double y,
		      double width)
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
	if (shown_length(name) <= most) {
		put_xml(sink, name, most);
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

/* "name (1,234 bytes, 5.60 %, R: 1,000 bytes, W: 234 bytes)" */
static void put_title(struct sink *sink, const struct tree *t, const struct node_key *key,
		      const struct amount *of)
{
	double all = (double)(t->sums[0] ? t->sums[0] : 1);
	char sum[64], read[64], written[64];

	sink_puts(sink, "<title>");
	put_xml(sink, key->name, SIZE_MAX);
	if (key->pid)
		sink_printf(sink, " [%" PRIu32 "]", key->pid);
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
	double all = (double)(t->sums[0] ? t->sums[0] : 1);
	double x = LEFT + WIDTH * (double)from / all;
	double width = key->kind == KIND_ALL ? WIDTH : WIDTH * (double)of->sum / all;
	double y = TOP + (double)(t->depth - 1 - level) * FRAME_HEIGHT, written;

	sink_puts(sink, "<g class=\"f\">");
	put_title(sink, t, key, of);
	put_rect(sink, "", x, y, width);
	put_colour(sink, key, of->writes && of->writes == of->sum ? HUE_WRITES : HUE_READS);
	sink_puts(sink, "\"/>");
	if (of->writes && of->writes < of->sum) {
		written = width * (double)of->writes / (double)of->sum;
		put_rect(sink, " class=\"w\"", x + width - written, y, written);
		put_colour(sink, key, HUE_WRITES);
		sink_puts(sink, "\"/>");
	}
	put_label(sink, key, x, y, width);
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

	put_frame(sink, t, key_of(t, node), &(struct amount){ t->sums[node], t->writes[node] },
		  from, level);
	for (uint32_t i = t->first[node]; i < t->first[node + 1]; i++) {
		uint32_t child = t->sorted[i];

		if (is_rest(t, child, &rest))
			continue;
		put_tree(sink, t, child, from, level + 1);
		from += t->sums[child];
	}
	put_rest(sink, t, &rest, from, level + 1);
}

/* The legend of the hues, centered below the heading. */
static void put_legend(struct sink *sink, const struct tree *t)
{
	static const char *const names[][2] = { { "reads", "writes" },
						{ "reads, page faults", "writes, syncs" } };
	const bool has[] = { t->writes[0] < t->sums[0], t->writes[0] };
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
	put_legend(sink, t);
	put_caption(sink, caption, 10, height - BOTTOM + 14, WIDTH);
	sink_printf(sink,
		    "<text id=\"details\" x=\"10\" y=\"%u\"> </text>\n"
		    "<text id=\"matched\" x=\"1190\" y=\"%u\"> </text>\n",
		    height - 14, height - 14);
}

int stacks_svg(FILE *stream, const char *title, const char *caption, enum stack_unit unit,
	       const struct stack_row *rows, size_t n)
{
	struct sink sink = { .stream = stream };
	struct tree t = { .unit = unit };
	int r = make_tree(&t, rows, n);

	if (!r) {
		t.depth = depth_of(&t, 0);
		put_head(&sink, &t, title, caption);
		put_tree(&sink, &t, 0, 0, 0);
		sink_puts(&sink, "<script><![CDATA[\n");
		sink_puts(&sink, page_script);
		sink_puts(&sink, "]]></script>\n</svg>\n");
		r = sink_flush(&sink);
	}
	free_tree(&t);
	return r;
}
