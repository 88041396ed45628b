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

/* Reads the first frame at `at`. Returns its size, 0 when the plan is another's, or of a version not known
 * here. */
static size_t parse_head(struct plan *plan, size_t at, const char *id, const char *ifname)
{
	struct frame f;
	ssize_t size = frame_parse(plan->bytes.data + at, plan->bytes.len - at, &f);

	if (size <= 0 || f.type != FRAME_PLAN || f.count < 3)
		return 0;
	if (!field_is(f.fields[1], id) || !field_is(f.fields[2], ifname))
		return 0;
	plan->attempted = INT_MAX;
	plan->boot_id = text("");
	if (f.count == 3)
		return field_is(f.fields[0], PLAN_VERSION_1) ? (size_t)size : 0;
	plan->boot_id = f.fields[3];
	plan->attempted = f.count == 5 ? field_number(f.fields[4]) : -1;
	if (!field_is(f.fields[0], PLAN_VERSION) && !field_is(f.fields[0], PLAN_VERSION_2))
		return 0;
	return plan->attempted < 0 ? 0 : (size_t)size;
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

/* Where the plan ends whose last step is before `at`, 0 when it does not end there as it has to. The end has
 * one spelling, so that it is compared, not parsed. */
static size_t plan_end(const struct plan *plan, size_t start, size_t at)
{
	const struct buf *bytes = &plan->bytes;
	char digits[NUMBER_SIZE], crc[9] = "";
	struct buf end = { 0 };
	uint32_t sum;
	struct frame record;
	ssize_t size = frame_parse(bytes->data + at, bytes->len - at, &record);

	if (size > 0 && record.type == FRAME_RECORD)
		at += (size_t)size;
	sum = crc32(bytes->data + start, at - start);
	for (int i = 7; i >= 0; i--, sum >>= 4)
		crc[i] = "0123456789abcdef"[sum & 15];
	frame_write(&end, FRAME_PLAN_END, (struct field[]){ number(digits, plan->steps), text(crc) }, 2);
	if (bytes->len - at < end.len || memcmp(bytes->data + at, end.data, end.len))
		at = 0;
	else
		at += end.len;
	buf_free(&end);
	return at;
}

/* Checks the plan that begins at `at`, before any of it is carried out. Returns where it ends, 0 when it
 * cannot be used. */
static size_t parse_at(struct plan *plan, size_t at, const char *id, const char *ifname)
{
	size_t start = at, size = parse_head(plan, at, id, ifname);
	struct frame step;

	if (!size)
		return 0;
	plan->first = at + size;
	plan->steps = 0;
	for (at = plan->first; (size = plan_step(plan, at, &step)); at += size)
		plan->steps++;
	return plan_end(plan, start, at);
}

/* Finds the newest plan of a file: each update is appended. What is not whole is passed over; when it is the
 * last that was written, nobody knows what was tried since, so that all of the plan is to be run. Returns
 * false when there is none. */
bool plan_parse(struct plan *plan, const char *id, const char *ifname)
{
	struct plan candidate = { .bytes = plan->bytes };
	bool found = false, last = false;
	struct frame f;
	ssize_t size;
	size_t end;

	for (size_t at = 0; at < plan->bytes.len; at = end) {
		end = parse_at(&candidate, at, id, ifname);
		last = end;
		if (end) {
			*plan = candidate;
			found = true;
			continue;
		}
		size = frame_parse(plan->bytes.data + at, plan->bytes.len - at, &f);
		if (size <= 0)
			break;
		end = at + (size_t)size;
	}
	if (!last)
		plan->attempted = INT_MAX;
	return found;
}
