/* SPDX-License-Identifier: Apache-2.0
 * Growing buffers, and frames (protocol.h has their layout) in them. No I/O: this is what is fuzzed. */
#include <arpa/inet.h>
#include "shim.h"

/* Makes room for `more` bytes and a NUL. Out of memory ends the call: there is nothing to save. */
void buf_reserve(struct buf *b, size_t more)
{
	if (b->len + more < b->cap)
		return;
	b->cap = b->len + more + 1 + b->len / 2;
	b->data = realloc(b->data, b->cap);
	if (!b->data)
		fail(999, "out of memory");
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	buf_reserve(b, len);
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

/* Appends formatted text, cut where it is longer than any path can be. Returns the whole buffer. */
char *buf_print(struct buf *b, const char *format, ...)
{
	char line[2 * PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	buf_add(b, line, strlen(line));
	return b->data;
}

struct field text(const char *s)
{
	return (struct field){ (char *)s, strlen(s) };
}

struct field number(char digits[24], int64_t n)
{
	return (struct field){ digits, (size_t)sprintf(digits, "%lld", (long long)n) };
}

/* True when the field can be used as a C string: no NUL inside. */
int is_text(struct field f)
{
	return strlen(f.data) == f.len;
}

/* The field's decimal number, at most nine digits; -1 when it is none. */
int field_number(struct field f)
{
	return f.len && f.len < 10 && strspn(f.data, "0123456789") == f.len ? atoi(f.data) : -1;
}

static uint32_t get_be32(const char *at)
{
	uint32_t n;

	memcpy(&n, at, 4);
	return ntohl(n);
}

/* Appends a frame of these fields. */
void frame_write(struct buf *b, int type, const struct field *fields, int count)
{
	size_t start = b->len;
	uint32_t size;

	buf_add(b, (char[5]){ [4] = (char)type }, 5);
	for (int i = 0; i < count; i++) {
		size = htonl((uint32_t)fields[i].len);
		buf_add(b, &size, 4);
		buf_add(b, fields[i].data, fields[i].len);
		buf_add(b, "", 1);
	}
	size = htonl((uint32_t)(b->len - start - 4));
	memcpy(b->data + start, &size, 4);
}

/* Reads the frame at `bytes`, whose fields then point into it. Returns its whole size, 0 when `len`
 * bytes are not all of it, -1 when it is malformed. */
ssize_t frame_parse(const char *bytes, size_t len, struct frame *f)
{
	size_t at = 5, end, size;

	if (len < 4)
		return 0;
	end = (size_t)get_be32(bytes) + 4;
	if (end < at || end > FRAME_MAX + 4)
		return -1;
	if (len < end)
		return 0;
	f->type = (unsigned char)bytes[4];
	for (f->count = 0; at < end; at += size + 5) {
		if (end - at < 5 || f->count == FIELDS_MAX)
			return -1;
		size = get_be32(bytes + at);
		if (size > end - at - 5 || bytes[at + 4 + size])
			return -1;
		f->fields[f->count++] = (struct field){ (char *)bytes + at + 4, size };
	}
	return (ssize_t)end;
}
