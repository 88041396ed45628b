/* SPDX-License-Identifier: Apache-2.0
 * Frames (protocol.h has their layout) and their fields. No I/O: this is what is fuzzed. */
#include <arpa/inet.h>
#include "shim.h"

struct field text(const char *s)
{
	return (struct field){ (char *)s, strlen(s) };
}

struct field content(const struct buf *b)
{
	return (struct field){ b->data, b->len };
}

/* True when the field can be used as a C string: no NUL inside. */
bool is_text(struct field f)
{
	return strlen(f.data) == f.len;
}

/* True when the field is that text. */
bool field_is(struct field f, const char *s)
{
	return f.len == strlen(s) && (f.len == 0 || !memcmp(f.data, s, f.len));
}

/* The field's decimal number, at most nine digits; -1 when it is none. */
int field_number(struct field f)
{
	if (f.len == 0 || f.len > 9 || strspn(f.data, "0123456789") != f.len)
		return -1;
	return atoi(f.data);
}

bool is_exec(const struct frame *f)
{
	return f->type == FRAME_EXEC && f->count >= EXEC_ENV && field_number(f->fields[EXEC_TIMEOUT]) >= 0;
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
	f->count = 0;
	while (at < end) {
		if (end - at < 5 || f->count == FIELDS_MAX)
			return -1;
		size = get_be32(bytes + at);
		if (size > end - at - 5 || bytes[at + 4 + size])
			return -1;
		f->fields[f->count++] = (struct field){ (char *)bytes + at + 4, size };
		at += size + 5;
	}
	return (ssize_t)end;
}
