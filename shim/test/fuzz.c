/* SPDX-License-Identifier: Apache-2.0
 * Feeds bytes to everything that parses what others wrote. Built twice: FUZZ_PLAN wraps the bytes
 * as the steps of a plan whose checksum is right, so that the fuzzer gets past it. */
#include <assert.h>
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct buf b;
	struct field name[] = { text(PROTOCOL_VERSION), text("c1"), text("eth0") };
	struct frame f;
	size_t at = 0, end, first, count = 0;
	char *exact = malloc(len + 1), sum[9], digits[NUMBER_SIZE];

	memcpy(exact, data, len);
	plan_problem((struct field){ exact, len }, "c1", "eth0", &first);
	for (ssize_t n; (n = frame_parse(exact + at, len - at, &f)) > 0; at += (size_t)n)
		count++;
	free(exact);
	b.len = 0;
	frame_write(&b, FRAME_PLAN, name, 3);
	buf_add(&b, data, len);
	end = b.len;
	snprintf(sum, sizeof sum, "%08x", crc(b.data, b.len));
	frame_write(&b, FRAME_PLAN_END, (struct field[]){ number(digits, (int64_t)count), text(sum) }, 2);
	if (!plan_problem((struct field){ b.data, b.len }, "c1", "eth0", &first))
		for (at = first; at < end; count--) {
			ssize_t n = frame_parse(b.data + at, end - at, &f);

			assert(n > 0 && is_exec(&f) && count);
			touch(&f);
			at += (size_t)n;
		}
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct call call;
	struct frame f;
	struct nlmsghdr last;
	char *exact = malloc(len + 1);
	ssize_t n;

	memcpy(exact, data, len);
	exact[len] = '\0';
	call_find_version(&call, exact);
	assert(call.cni_version[strspn(call.cni_version, "0123456789.")] == '\0');
	walk_utf8(exact);
	exact = realloc(exact, len ? len : 1);
	netlink_last(exact, len, &last);
	for (size_t at = 0; (n = frame_parse(exact + at, len - at, &f)) > 0; at += (size_t)n) {
		touch(&f);
		assert(!is_exec(&f) || f.count >= EXEC_ENV);
	}
	free(exact);
	return 0;
}
#endif
