/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "output/render_internal.h"

#include <inttypes.h>

#include "core/base/clock.h"

bool column_in_text(const struct column *column)
{
	return column->heading && column->role != ROLE_STATE && column->type != COLUMN_HIST &&
	       column->type != COLUMN_FRAMES;
}

bool column_in_json(const struct column *column)
{
	return column->key && column->role != ROLE_STATE;
}

bool column_in_csv(const struct column *column)
{
	return column_in_json(column) && column->type != COLUMN_HIST;
}

static const void *cell_at(const struct column *column, const void *row)
{
	return (const char *)row + column->offset;
}

uint64_t column_integer(const struct column *column, const void *row)
{
	const void *at = cell_at(column, row);

	switch (column->type) {
	case COLUMN_U64:
		return *(const uint64_t *)at;
	case COLUMN_U32:
		return *(const uint32_t *)at;
	case COLUMN_BOOL:
		return *(const bool *)at;
	case COLUMN_STR:
	case COLUMN_HIST:
	case COLUMN_FRAMES:
		break;
	}
	return 0;
}

const char *column_string(const struct column *column, const void *row)
{
	return *(const char *const *)cell_at(column, row);
}

const struct hist *column_hist(const struct column *column, const void *row)
{
	return *(const struct hist *const *)cell_at(column, row);
}

struct frames column_frames(const struct column *column, const void *row)
{
	return *(const struct frames *)cell_at(column, row);
}

const void *schema_row(const struct schema *schema, const void *rows, size_t i)
{
	return (const char *)rows + i * schema->row_size;
}

/* From integers: a double does not have enough digits for nanoseconds since the epoch. */
void put_seconds(struct sink *sink, uint64_t ns)
{
	sink_printf(sink, "%llu.%09llu", ns / NS_PER_SEC, ns % NS_PER_SEC);
}

size_t render_loss(char *out, size_t size, const struct loss *loss)
{
	char text[512];

	return (size_t)snprintf(out, size, "iotrace: lost: %" PRIu64 " %s", loss->count,
				render_escape(loss->text, text, sizeof(text)));
}

/* 1234567 as "1,234,567" */
static char *with_commas(uint64_t n, char buf[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), to = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[to++] = ',';
		buf[to++] = digits[i];
	}
	buf[to] = 0;
	return buf;
}

char *render_worry(uint64_t lost, uint64_t events, char buf[RENDER_WORRY_SIZE])
{
	const double share = lost < events ? 100.0 * (double)lost / (double)events : 100;
	char some[32], all[32], percent[32];

	snprintf(percent, sizeof(percent), share < 0.01 ? "less than 0.01%%" : "%.2f%%", share);
	snprintf(buf, RENDER_WORRY_SIZE, "%s of %s events (%s): %s", with_commas(lost, some),
		 with_commas(events, all), percent,
		 share < 0.1 ? "too few to matter"
		 : share < 1 ? "figures may be off by as much"
			     : "do not trust the figures");
	return buf;
}

int render_losses(FILE *stream, const struct interval *interval)
{
	struct sink sink = { .stream = stream };
	char text[600];

	for (size_t i = 0; i < interval->n_losses; i++) {
		const struct loss *loss = &interval->losses[i];

		if (!loss->count)
			continue;
		render_loss(text, sizeof(text), loss);
		sink_printf(&sink, "%s\n", text);
	}
	return sink_flush(&sink);
}

int render_losses_apart(struct renderer *r, const struct interval *interval, struct error *err)
{
	(void)r;
	(void)err;
	render_losses(stderr, interval); /* errors of standard error cannot be reported */
	return 0;
}

int render_table_heading(FILE *stream, const struct schema *schema)
{
	struct sink sink = { .stream = stream };

	text_heading(&sink, schema, NULL, 0);
	return sink_result(&sink);
}

int render_table_rows(FILE *stream, const struct schema *schema, const void *rows, size_t n)
{
	struct sink sink = { .stream = stream };

	text_rows(&sink, schema, rows, n);
	return sink_result(&sink);
}
