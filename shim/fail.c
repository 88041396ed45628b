/* SPDX-License-Identifier: Apache-2.0
 * The errors that the shim itself reports: CNI error JSON on stdout, exit status 1. */
#include "shim.h"

/* strerror, save for the one text that must not reach containerd (see fail). */
const char *errno_text(int error)
{
	return error == ENOENT ? "it does not exist" : strerror(error);
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

/* Prints text as the inside of a JSON string. Control characters become spaces: a message is one line. */
static void print_json(const char *text)
{
	size_t len;

	for (const char *at = text; *at; at += len ? len : 1) {
		len = utf8_length(at);
		if (len == 0)
			fputs("\\ufffd", stdout);
		else if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else if ((unsigned char)*at < ' ')
			putchar(' ');
		else
			fwrite(at, 1, len, stdout);
	}
}

/* containerd takes a DEL error with certain words for "already gone" and never tries again, so they
 * are broken up, whoever wrote them. */
_Noreturn void fail(struct call *call, enum cni_error code, const char *format, ...)
{
	char message[4096], *at;
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	while ((at = strcasestr(message, "not found")) || (at = strcasestr(message, "no such file or")))
		at[strcspn(at, " ")] = '-';
	printf("{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":\"", call->cni_version, (int)code);
	print_json(message);
	puts("\"}");
	lock_release(call);
	exit(fflush(stdout) ? 2 : 1);
}
