/* SPDX-License-Identifier: Apache-2.0
 * Bytes in memory: buffers that grow, text, and frames (protocol.h). No I/O, so that it can be fuzzed. */
#include <arpa/inet.h>
#include "shim.h"

/* Ends the call without using memory. The unlocked lock file remains, and the next call removes it. */
static _Noreturn void out_of_memory(void)
{
	static const char error[] = "{\"cniVersion\":\"1.1.0\",\"code\":999,\"msg\":\"out of memory\"}\n";
	(void)!write(1, error, sizeof error - 1);
	_exit(1);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (b->len + len >= b->cap) {
		b->cap = b->len + len + 1 + b->len / 2;
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			out_of_memory();
	}
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}

/* The field points into `digits` and ends with a NUL. */
struct field number(char digits[NUMBER_SIZE], int64_t n)
{
	uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
	size_t at = NUMBER_SIZE - 1;
	digits[at] = '\0';
	do
		digits[--at] = (char)('0' + rest % 10);
	while (rest /= 10);
	if (n < 0)
		digits[--at] = '-';
	return (struct field){ digits + at, NUMBER_SIZE - 1 - at };
}

/* Appends text as vprintf does, with only %s, %.*s and %d, which `make lint` checks. The libc's would add 12 KB. */
void buf_vprint(struct buf *b, const char *format, va_list *args)
{
	char digits[NUMBER_SIZE];
	struct field piece;
	for (; *format; buf_add(b, piece.data, piece.len)) {
		piece = (struct field){ (char *)format, strcspn(format, "%") };
		format += piece.len;
		if (piece.len)
			continue;
		if (format[1] == '.') {
			piece.len = (size_t)va_arg(*args, int);
			piece.data = va_arg(*args, char *);
			piece.len = strnlen(piece.data, piece.len);
			format += 4;
			continue;
		}
		piece = format[1] == 'd' ? number(digits, va_arg(*args, int)) : text(va_arg(*args, char *));
		format += 2;
	}
	buf_add(b, "", 0);
}

void buf_print(struct buf *b, const char *format, ...)
{
	BUF_VPRINT(b, format);
}

/* As snprintf: truncates text that does not fit. Returns `to`. */
char *print(char *to, size_t size, const char *format, ...)
{
	struct buf b = { 0 };
	BUF_VPRINT(&b, format);
	b.len = b.len < size ? b.len : size - 1;
	memcpy(to, b.data, b.len);
	to[b.len] = '\0';
	buf_free(&b);
	return to;
}

/* The length of the UTF-8 character at `s`, or 0 (RFC 3629, section 4). The range of the second byte excludes overlong
 * forms (after E0, F0), surrogates (ED) and code points beyond U+10FFFF (F4). The libc would need a locale for this. */
size_t utf8_length(const char *s)
{
	const unsigned char *byte = (const unsigned char *)s, first = *byte;
	unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	size_t len = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if (len > 1 && (first < 0xc2 || first > 0xf4 || byte[1] < least || byte[1] > most))
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* Whether the UTF-8 character at `s` does something to a terminal or to the order of its text: a control character, a
 * separator of lines, a mark of direction or of no width (U+200B to 200F, 2028 to 202E, 2060 to 206F, FEFF). */
static bool is_hidden(const char *s)
{
	const unsigned char *byte = (const unsigned char *)s;
	if (*byte == 0xe2 && byte[1] == 0x80)
		return (byte[2] >= 0x8b && byte[2] <= 0x8f) || (byte[2] >= 0xa8 && byte[2] <= 0xae);
	return *byte < ' ' || *byte == 0x7f || (*byte == 0xc2 && byte[1] < 0xa0) ||
		(*byte == 0xe2 && byte[1] == 0x81 && byte[2] >= 0xa0 && byte[2] <= 0xaf) || !strncmp(s, "\xef\xbb\xbf", 3);
}

/* Appends text as the inside of a JSON string. Hidden characters become spaces, as a message is one line. */
void buf_json(struct buf *b, const char *text)
{
	for (size_t len; *text; text += len ? len : 1) {
		len = utf8_length(text);
		if (len == 0)
			buf_print(b, "\\ufffd");
		else if (is_hidden(text))
			buf_add(b, " ", 1);
		else
			buf_print(b, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)len, text);
	}
}

/* The field's decimal number of at most nine digits, or -1. */
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

/* Reads the frame at `bytes`; its fields then point into it. Returns its size, 0: incomplete, -1: malformed. */
ssize_t frame_parse(const char *bytes, size_t len, struct frame *f)
{
	size_t at = 5, end, size;
	uint32_t be32;
	if (len < 4)
		return 0;
	memcpy(&be32, bytes, 4);
	end = (size_t)ntohl(be32) + 4;
	if (end < at || end > FRAME_MAX + 4)
		return -1;
	if (len < end)
		return 0;
	f->type = (unsigned char)bytes[4];
	f->count = 0;
	while (at < end) {
		if (end - at < 5 || f->count == FIELDS_MAX)
			return -1;
		memcpy(&be32, bytes + at, 4);
		size = ntohl(be32);
		if (size > end - at - 5 || bytes[at + 4 + size])
			return -1;
		f->fields[f->count++] = (struct field){ (char *)bytes + at + 4, size };
		at += size + 5;
	}
	return (ssize_t)end;
}
