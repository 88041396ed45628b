/* SPDX-License-Identifier: Apache-2.0
 * Reads teardown plans (protocol.h). No I/O, so that it can be fuzzed. */
#include "shim.h"

/* As zlib's: the polynomial of IEEE 802.3, reflected, four bits at a time. */
uint32_t crc32(const char *bytes, size_t len)
{
	static const uint32_t of_bits[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
		0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	uint32_t crc = ~0u;
	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned char)bytes[i];
		crc = crc >> 4 ^ of_bits[crc & 15];
		crc = crc >> 4 ^ of_bits[crc & 15];
	}
	return ~crc;
}

static ssize_t frame_at(const struct plan *plan, size_t at, struct frame *f)
{
	return frame_parse(plan->bytes.data + at, plan->bytes.len - at, f);
}

static bool is_step(const struct frame *f)
{
	return is_exec(f) && field_number(f->fields[EXEC_GROUP]) >= 0;
}

/* Reads the step at `at`. Returns its size, or 0 if there is none. */
size_t plan_step(const struct plan *plan, size_t at, struct frame *step)
{
	ssize_t size = frame_at(plan, at, step);
	return size > 0 && is_step(step) ? (size_t)size : 0;
}

/* Returns false if the PLAN frame is another attachment's or has an unknown version. */
static bool read_head(struct plan *plan, const struct frame *f, const char *id, const char *ifname)
{
	plan->steps = 0;
	if (f->count != 5 || !field_is(f->fields[0], PLAN_VERSION))
		return false;
	plan->boot_id = f->fields[3];
	plan->attempted = field_number(f->fields[4]);
	return field_is(f->fields[1], id) && field_is(f->fields[2], ifname) && plan->attempted >= 0;
}

/* True if the PLAN_END frame from `at` to `end` belongs to the plan. It has one spelling, so it is compared. */
static bool is_end(const struct plan *plan, size_t start, size_t at, size_t end)
{
	const char *bytes = plan->bytes.data;
	char digits[NUMBER_SIZE], crc[9] = "";
	struct buf frame = { 0 };
	uint32_t sum = crc32(bytes + start, at - start);
	for (int i = 7; i >= 0; i--, sum >>= 4)
		crc[i] = "0123456789abcdef"[sum & 15];
	frame_write(&frame, FRAME_PLAN_END, (struct field[]){ number(digits, plan->steps), text(crc) }, 2);
	bool is_equal = frame.len == end - at && !memcmp(bytes + at, frame.data, frame.len);
	buf_free(&frame);
	return is_equal;
}

/* Finds the newest complete plan of a file, to which each update is appended. If incomplete bytes follow, it is unknown
 * what was attempted since, so all of it must run. Returns false if there is none, or its version is another one. */
bool plan_parse(struct plan *plan, const char *id, const char *ifname)
{
	struct plan next = { .bytes = plan->bytes };
	enum { NONE, STEPS, RECORD, FOREIGN } part = NONE;
	bool found = false, is_last = false;
	size_t at = 0, start = 0;
	struct frame f;
	for (ssize_t size; (size = frame_at(&next, at, &f)) > 0; at += (size_t)size) {
		size_t end = at + (size_t)size;
		is_last = f.type == FRAME_PLAN_END && part != NONE && is_end(&next, start, at, end);
		if (is_last) {
			*plan = next;
			found = part != FOREIGN;
		}
		if (f.type == FRAME_PLAN) {
			part = read_head(&next, &f, id, ifname) ? STEPS
				: f.count && !field_is(f.fields[0], PLAN_VERSION) ? FOREIGN : NONE;
			start = at;
			next.first = end;
		} else if (part == FOREIGN ? f.type != FRAME_PLAN_END : part == STEPS && is_step(&f)) {
			next.steps += f.type == FRAME_EXEC;
		} else {
			part = part == STEPS && f.type == FRAME_RECORD ? RECORD : NONE;
		}
	}
	if (!is_last || at < plan->bytes.len)
		plan->attempted = INT_MAX;
	return found;
}
