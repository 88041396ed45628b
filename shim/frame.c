/* SPDX-License-Identifier: Apache-2.0
 * Frames, written and read in memory (protocol.h has their layout). No I/O: this is what is fuzzed. */
#include <stdlib.h>
#include <unistd.h>
#include "shim.h"

/* Makes room for `more` bytes and a NUL. Out of memory ends the call: there is nothing to save. */
void buf_reserve(struct buf *b, size_t more)
{
	static const char oom[] = "{\"cniVersion\":\"1.1.0\",\"code\":999,\"msg\":\"out of memory\"}\n";

	if (b->len + more + 1 <= b->cap)
		return;
	b->cap = b->len + more + 1 + b->len / 2;
	b->data = realloc(b->data, b->cap);
	if (!b->data)
		_exit(write(1, oom, sizeof oom - 1) < 0 ? 2 : 1);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	buf_reserve(b, len);
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

static void put_be32(char *at, uint32_t n)
{
	for (int i = 0; i < 4; i++)
		at[i] = (char)(n >> (24 - 8 * i));
}

static uint32_t get_be32(const char *at)
{
	const unsigned char *p = (const unsigned char *)at;

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Opens a frame at the end of the buffer; frame_end with the returned offset writes its length. */
size_t frame_begin(struct buf *b, int type)
{
	size_t start = b->len;

	buf_add(b, (char[5]){ 0, 0, 0, 0, (char)type }, 5);
	return start;
}

void frame_field(struct buf *b, const void *data, size_t len)
{
	char head[4];

	put_be32(head, (uint32_t)len);
	buf_add(b, head, 4);
	buf_add(b, data, len);
	buf_add(b, "", 1);
}

void frame_number(struct buf *b, int64_t number)
{
	char text[24];

	frame_field(b, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)number));
}

void frame_end(struct buf *b, size_t start)
{
	put_be32(b->data + start, (uint32_t)(b->len - start - 4));
}

/* Reads the frame at `bytes`, whose fields then point into it. Returns its whole size, 0 when `len`
 * bytes are not all of it, -1 when it is malformed. */
ssize_t frame_parse(const char *bytes, size_t len, struct frame *f)
{
	size_t at = 5, end, size;

	if (len < 4)
		return 0;
	if (!get_be32(bytes) || get_be32(bytes) > FRAME_MAX)
		return -1;
	end = get_be32(bytes) + 4;
	if (len < end)
		return 0;
	f->type = (unsigned char)bytes[4];
	for (f->count = 0; at < end; at += size + 5) {
		if (end - at < 5 || f->count == FIELDS_MAX)
			return -1;
		size = get_be32(bytes + at);
		if (size > end - at - 5 || bytes[at + 4 + size])
			return -1;
		f->fields[f->count++] = (struct field){ bytes + at + 4, size };
	}
	return (ssize_t)end;
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
