/* SPDX-License-Identifier: Apache-2.0
 * Text without stdio, which would be a fifth of the executable. */
#include "shim.h"

/* A number in decimal. The field is a part of `digits`, and ends with a NUL. */
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

/* Takes the next piece of a format, and its arguments: text as it is, or a conversion. */
static struct field next_piece(const char **format, char digits[NUMBER_SIZE], va_list *args)
{
	const char *at = *format;
	size_t len = strcspn(at, "%");

	*format += len ? len : 2;
	if (len)
		return (struct field){ (char *)at, len };
	if (at[1] == 'd')
		return number(digits, va_arg(*args, int));
	if (at[1] == 's')
		return text(va_arg(*args, const char *));
	*format += 2; /* %.*s */
	len = (size_t)va_arg(*args, int);
	at = va_arg(*args, const char *);
	return (struct field){ (char *)at, strnlen(at, len) };
}

/* Formats as vsnprintf does. Of its conversions there are %s, %.*s and %d, which `make lint` looks after.
 * Returns the text's length: what does not fit is cut. */
size_t print_args(char *to, size_t size, const char *format, va_list *args)
{
	char digits[NUMBER_SIZE];
	struct field piece;
	size_t len = 0;

	while (*format) {
		piece = next_piece(&format, digits, args);
		if (piece.len > size - 1 - len)
			piece.len = size - 1 - len;
		memcpy(to + len, piece.data, piece.len);
		len += piece.len;
	}
	to[len] = '\0';
	return len;
}

/* As snprintf; see print_args. */
void print(char *to, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_args(to, size, format, &args);
	va_end(args);
}

/* Writes formatted text. Returns -1 when nobody takes it. */
int say(int fd, const char *format, ...)
{
	char line[PATH_SIZE];
	va_list args;
	size_t len;

	va_start(args, format);
	len = print_args(line, sizeof line, format, &args);
	va_end(args);
	return write_all(fd, line, len);
}

/* Appends formatted text, cut where it is longer than any path can be. */
void buf_print(struct buf *b, const char *format, ...)
{
	char line[PATH_SIZE];
	va_list args;

	va_start(args, format);
	buf_add(b, line, print_args(line, sizeof line, format, &args));
	va_end(args);
}

/* The length of the UTF-8 character at `s`, 0 when there is none (RFC 3629, section 4). The range of
 * the second byte keeps out longer forms than needed (after E0, F0), surrogates (ED) and what is
 * beyond U+10FFFF (F4). No locale is needed for this: loading one costs more than all else at start. */
size_t utf8_length(const char *s)
{
	const unsigned char *byte = (const unsigned char *)s;
	unsigned char least = byte[0] == 0xe0 ? 0xa0 : byte[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char most = byte[0] == 0xed ? 0x9f : byte[0] == 0xf4 ? 0x8f : 0xbf;
	size_t len = byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;

	if (byte[0] < 0x80)
		return 1;
	if (byte[0] < 0xc2 || byte[0] > 0xf4 || byte[1] < least || byte[1] > most)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((byte[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* Appends text as the inside of a JSON string. Control characters become spaces: a message is one line. */
void buf_json(struct buf *b, const char *text)
{
	size_t len;

	for (; *text; text += len ? len : 1) {
		len = utf8_length(text);
		if (len == 0)
			buf_print(b, "\\ufffd");
		else if ((unsigned char)*text < ' ')
			buf_add(b, " ", 1);
		else
			buf_print(b, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)len, text);
	}
}
