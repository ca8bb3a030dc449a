/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For XML. */
#include <string.h>

#include "output/render_internal.h"
#include "core/base/array.h"

static const char *xml_unit(const char *unit)
{
	static const struct {
		char c;
		const char *entity;
	} entities[] = {
		{ '&', "&amp;" },  { '<', "&lt;" },   { '>', "&gt;" },
		{ '"', "&quot;" }, { '\'', "&#39;" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(entities); i++)
		if (unit[0] == entities[i].c)
			return entities[i].entity;
	/* U+FFFE and U+FFFF are invalid in XML. */
	if (memcmp(unit, "\xef\xbf\xbe", 3) == 0 || memcmp(unit, "\xef\xbf\xbf", 3) == 0)
		return "?";
	return unit;
}

size_t put_xml(struct sink *sink, const char *name, size_t most)
{
	struct name_walk walk = { name, NAME_SHOWN };
	char unit[ESCAPE_UNIT_SIZE];
	size_t n = 0;

	for (; n < most && name_next(&walk, unit);
	     n += (unsigned char)unit[0] < 0x80 ? strlen(unit) : 1)
		sink_puts(sink, xml_unit(unit));
	return n;
}

void put_caption(struct sink *sink, const char *caption, double x, double y, double width)
{
	const double character = 6.7; /* in the font of the pictures, 11px monospace */

	sink_printf(sink, "<text id=\"caption\" x=\"%.0f\" y=\"%.0f\"", x, y);
	if ((double)strlen(caption) * character > width)
		sink_printf(sink, " textLength=\"%.0f\" lengthAdjust=\"spacingAndGlyphs\"", width);
	sink_puts(sink, ">");
	put_xml(sink, caption, SIZE_MAX);
	sink_puts(sink, "</text>\n");
}
