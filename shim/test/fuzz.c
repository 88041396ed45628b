/* SPDX-License-Identifier: Apache-2.0
 * Feeds bytes to everything that parses what others wrote. Built twice: FUZZ_PLAN wraps the bytes
 * as the steps of a plan whose checksum is right, so that the fuzzer gets past it. */
#include <assert.h>
#include <stdlib.h>
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct plan p;
	static struct buf b;
	struct field id = { "c1", 2 }, ifname = { "eth0", 4 };
	struct frame f;
	size_t start, count = 0;
	char *exact = malloc(len + 1), sum[9];

	memcpy(exact, data, len);
	plan_parse((struct field){ exact, len }, id, ifname, &p);
	for (ssize_t at = 0, n; (n = frame_parse(exact + at, len - (size_t)at, &f)) > 0; at += n)
		count++;
	free(exact);
	b.len = 0;
	start = frame_begin(&b, FRAME_PLAN);
	frame_field(&b, PROTOCOL_VERSION, 1);
	frame_field(&b, id.data, id.len);
	frame_field(&b, ifname.data, ifname.len);
	frame_end(&b, start);
	buf_add(&b, data, len);
	snprintf(sum, sizeof sum, "%08x", crc(b.data, b.len));
	start = frame_begin(&b, FRAME_PLAN_END);
	frame_number(&b, (int64_t)count);
	frame_field(&b, sum, 8);
	frame_end(&b, start);
	if (!plan_parse((struct field){ b.data, b.len }, id, ifname, &p)) {
		assert(p.count == count);
		for (size_t i = 0; i < p.count; i++) {
			assert(frame_parse(b.data + p.step[i].at, p.step[i].len, &f) == (ssize_t)p.step[i].len);
			touch(&f);
		}
	}
	return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct frame f;
	struct order o;
	uint32_t seq;
	char *exact = malloc(len + 1);
	ssize_t n;

	memcpy(exact, data, len);
	exact[len] = '\0';
	find_version(exact);
	assert(cni_version[strspn(cni_version, "0123456789.")] == '\0');
	exact = realloc(exact, len ? len : 1);
	netlink_last_seq(exact, len, &seq);
	for (size_t at = 0; (n = frame_parse(exact + at, len - at, &f)) > 0; at += (size_t)n) {
		touch(&f);
		if (!order_parse(&f, &o))
			assert(o.env_count >= 0 && o.env_count <= FIELDS_MAX - 5 && o.timeout_ms >= 0);
	}
	free(exact);
	return 0;
}
#endif
