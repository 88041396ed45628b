/* SPDX-License-Identifier: Apache-2.0
 * Feeds bytes to everything that parses what others wrote. Built twice: FUZZ_PLAN wraps the bytes
 * as the steps of a plan whose checksum is right, so that the fuzzer gets past it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/netlink.h>
#include "../shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Copies every field with its NUL, so that the sanitizer sees a wrong one. */
static void touch(const struct frame *f)
{
	static struct buf copy;

	for (int i = 0; i < f->count; i++) {
		copy.len = 0;
		buf_add(&copy, f->fields[i].data, f->fields[i].len + 1);
		assert(copy.data[f->fields[i].len] == '\0');
		assert(is_text(f->fields[i]) || f->fields[i].len);
		assert(field_number(f->fields[i]) >= -1);
	}
}

#ifdef FUZZ_PLAN
/* The checksum, by itself: the shim's is not exported. */
static uint32_t crc(const char *bytes, size_t len)
{
	uint32_t c = ~0u;

	while (len--) {
		c ^= (unsigned char)*bytes++;
		for (int i = 0; i < 8; i++)
			c = (c & 1) ? c >> 1 ^ 0xedb88320u : c >> 1;
	}
	return ~c;
}

/* Walks through the steps of a plan that was found to be whole. */
static void walk(const struct plan *plan)
{
	struct frame f;
	size_t at = plan->first, size;

	for (int i = 0; i < plan->steps; i++, at += size) {
		size = plan_step(plan, at, &f);
		assert(size && is_exec(&f));
		assert(field_number(f.fields[EXEC_GROUP]) >= 0);
		touch(&f);
	}
	assert(plan->attempted >= 0 && is_text(plan->boot_id));
}

/* Appends a plan with these steps. */
static void wrap(struct buf *b, const uint8_t *data, size_t len, int64_t count)
{
	struct field head[] = { text(PLAN_VERSION), text("c1"), text("eth0"), text("boot"), text("3") };
	char sum[9], digits[NUMBER_SIZE];
	size_t start = b->len;

	frame_write(b, FRAME_PLAN, head, 5);
	buf_add(b, data, len);
	frame_write(b, FRAME_RECORD, (struct field[]){ text("2"), text("{}") }, 2);
	snprintf(sum, sizeof sum, "%08x", crc(b->data + start, b->len - start));
	frame_write(b, FRAME_PLAN_END, (struct field[]){ number(digits, count), text(sum) }, 2);
}

/* Wraps the steps in a plan and parses it: alone, with bytes and an update after it, and with that update truncated. A
 * whole plan stays usable. */
static void parse_wrapped(const uint8_t *data, size_t len, int64_t count)
{
	static struct plan plan;
	bool is_plan;

	plan.bytes.len = 0;
	wrap(&plan.bytes, data, len, count);
	is_plan = plan_parse(&plan, "c1", "eth0");
	if (is_plan)
		walk(&plan);
	buf_add(&plan.bytes, data, len);
	wrap(&plan.bytes, NULL, 0, 0);
	if (plan_parse(&plan, "c1", "eth0"))
		walk(&plan);
	else
		assert(!is_plan);
	plan.bytes.len--;
	if (plan_parse(&plan, "c1", "eth0"))
		assert(plan.attempted == INT_MAX);
	else
		assert(!is_plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct plan raw = { .bytes = { malloc(len + 1), len, len } };
	struct frame f;
	int64_t count = 0;
	size_t at = 0;

	memcpy(raw.bytes.data, data, len);
	if (plan_parse(&raw, "c1", "eth0"))
		walk(&raw);
	if (plan_parse(&raw, "", ""))
		walk(&raw);
	for (ssize_t n; (n = frame_parse(raw.bytes.data + at, len - at, &f)) > 0; at += (size_t)n)
		count++;
	free(raw.bytes.data);
	parse_wrapped(data, len, count);
	return 0;
}
#else
/* Steps through the text as fail does: never past its end. */
static void walk_utf8(const char *text)
{
	const char *end = text + strlen(text);
	size_t len;

	while (text < end) {
		len = utf8_length(text);
		assert(len <= 4);
		text += len ? len : 1;
	}
	assert(text == end);
}

/* The rules of each kind of call see every order; what they refuse has a reason. */
static void check_order(const struct frame *f)
{
	static const char *const commands[] = { "ADD", "CHECK", "DEL", "GC", "STATUS", "AGENT" };
	static struct call call = { .container_id = "c1", .netns = "/nonexistent", .path = "/nonexistent:rel" };
	static struct buf message;
	char path[PATH_SIZE];

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		call.command = commands[i];
		call.is_agent = i % 2 == 0;
		message.len = 0;
		assert(order_allowed(&call, f, &message) == !message.len);
	}
	if (is_text(f->fields[EXEC_PATH]))
		plugin_find(&call, f->fields[EXEC_TYPE], f->fields[EXEC_PATH].data, path, &message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct call call;
	struct frame f;
	struct nlmsghdr last;
	char *exact = malloc(len + 1);
	bool only_reads;
	ssize_t n;

	memcpy(exact, data, len);
	exact[len] = '\0';
	call_find_version(&call, exact);
	assert(call.cni_version[strspn(call.cni_version, "0123456789.")] == '\0');
	walk_utf8(exact);
	exact = realloc(exact, len ? len : 1);
	if (!netlink_last(exact, len, &last))
		netlink_allowed(exact, len, &only_reads);
	for (size_t at = 0; (n = frame_parse(exact + at, len - at, &f)) > 0; at += (size_t)n) {
		touch(&f);
		if (is_exec(&f))
			check_order(&f);
	}
	free(exact);
	return 0;
}
#endif
