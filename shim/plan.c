/* SPDX-License-Identifier: Apache-2.0
 * Reads teardown plans (protocol.h). No I/O, so that it can be fuzzed. */
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

static ssize_t frame_at(const struct plan *plan, size_t at, struct frame *f)
{
	return frame_parse(plan->bytes.data + at, plan->bytes.len - at, f);
}

/* Reads the PLAN frame at `at`. Returns its size, 0 if the plan is another attachment's or has an unknown version. */
static size_t parse_head(struct plan *plan, size_t at, const char *id, const char *ifname)
{
	struct frame f;
	ssize_t size = frame_at(plan, at, &f);
	if (size <= 0 || f.type != FRAME_PLAN || f.count != 5 || !field_is(f.fields[0], PLAN_VERSION))
		return 0;
	plan->boot_id = f.fields[3];
	plan->attempted = field_number(f.fields[4]);
	return field_is(f.fields[1], id) && field_is(f.fields[2], ifname) && plan->attempted >= 0 ? (size_t)size : 0;
}

/* Reads the step at `at`. Returns its size, or 0 if there is none. */
size_t plan_step(const struct plan *plan, size_t at, struct frame *step)
{
	ssize_t size = frame_at(plan, at, step);
	return size > 0 && is_exec(step) && field_number(step->fields[EXEC_GROUP]) >= 0 ? (size_t)size : 0;
}

/* Returns where the plan ends whose last step is before `at`, or 0 if its end is not valid. PLAN_END has one spelling,
 * so it is compared, not parsed. */
static size_t plan_end(const struct plan *plan, size_t start, size_t at)
{
	const struct buf *bytes = &plan->bytes;
	char digits[NUMBER_SIZE], crc[9] = "";
	struct buf end = { 0 };
	struct frame record;
	ssize_t size = frame_at(plan, at, &record);
	if (size > 0 && record.type == FRAME_RECORD)
		at += (size_t)size;
	uint32_t sum = crc32(bytes->data + start, at - start);
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

/* Checks the plan that begins at `at`. Returns where it ends, or 0 if it cannot be used. */
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

/* Finds the newest complete plan of a file, to which each update is appended. If incomplete bytes follow, it is unknown
 * what was attempted since, so the whole plan must run. Returns false if there is no complete plan. */
bool plan_parse(struct plan *plan, const char *id, const char *ifname)
{
	struct plan candidate = { .bytes = plan->bytes };
	bool found = false, last = false;
	struct frame f;
	ssize_t size;
	for (size_t at = 0, end; at < plan->bytes.len; at = end) {
		end = parse_at(&candidate, at, id, ifname);
		last = end;
		if (end) {
			*plan = candidate;
			found = true;
			continue;
		}
		size = frame_at(plan, at, &f);
		if (size <= 0)
			break;
		end = at + (size_t)size;
	}
	if (!last)
		plan->attempted = INT_MAX;
	return found;
}
