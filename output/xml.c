/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "output/render_internal.h"

static const char *xml_unit(const char *unit)
{
	static const struct {
		char c;
		const char *entity;
	} entities[] = {
		{ '&', "&amp;" },  { '<', "&lt;" },   { '>', "&gt;" },
		{ '"', "&quot;" }, { '\'', "&#39;" },
	};

	for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++)
		if (unit[0] == entities[i].c)
			return entities[i].entity;
	/* U+FFFE and U+FFFF are no characters in XML. */
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
