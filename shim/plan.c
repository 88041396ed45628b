/* SPDX-License-Identifier: Apache-2.0
 * Reading teardown plans (protocol.h has their layout). No I/O: this is what is fuzzed. */
#include "shim.h"

/* As zlib's: the polynomial of IEEE 802.3, reflected. */
static uint32_t crc32(const char *bytes, size_t len)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* Reads the first frame. Returns false when the plan is another's, or of a version not known here. */
static bool parse_head(struct plan *plan, const char *id, const char *ifname)
{
	struct frame f;
	ssize_t size = frame_parse(plan->bytes.data, plan->bytes.len, &f);

	if (size <= 0 || f.type != FRAME_PLAN || f.count < 3)
		return false;
	if (!field_is(f.fields[1], id) || !field_is(f.fields[2], ifname))
		return false;
	plan->first = (size_t)size;
	plan->attempted = INT_MAX;
	plan->boot_id = text("");
	if (f.count == 3)
		return field_is(f.fields[0], PLAN_VERSION_1);
	plan->boot_id = f.fields[3];
	plan->attempted = f.count == 5 ? field_number(f.fields[4]) : -1;
	return field_is(f.fields[0], PROTOCOL_VERSION) && plan->attempted >= 0;
}

/* Reads the step at `at`. Returns its size, 0 when there is none. */
size_t plan_step(const struct plan *plan, size_t at, struct frame *step)
{
	ssize_t size = frame_parse(plan->bytes.data + at, plan->bytes.len - at, step);

	if (size <= 0 || !is_exec(step))
		return 0;
	if (plan->attempted != INT_MAX && field_number(step->fields[EXEC_GROUP]) < 0)
		return 0;
	return (size_t)size;
}

/* Checks a whole plan, before any of it is carried out. Returns what is wrong with it, or NULL. Its end
 * has one spelling, so that is compared, not parsed. */
const char *plan_parse(struct plan *plan, const char *id, const char *ifname)
{
	char digits[NUMBER_SIZE], crc[9];
	struct buf end = { 0 };
	struct frame step;
	size_t at, size;
	bool is_whole;

	if (!parse_head(plan, id, ifname))
		return "it is no plan of a version known here for this attachment";
	plan->steps = 0;
	for (at = plan->first; (size = plan_step(plan, at, &step)); at += size)
		plan->steps++;
	snprintf(crc, sizeof crc, "%08x", crc32(plan->bytes.data, at));
	frame_write(&end, FRAME_PLAN_END, (struct field[]){ number(digits, plan->steps), text(crc) }, 2);
	is_whole = plan->bytes.len - at == end.len && !memcmp(plan->bytes.data + at, end.data, end.len);
	buf_free(&end);
	return is_whole ? NULL : "it is cut short or altered";
}
