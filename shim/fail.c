/* SPDX-License-Identifier: Apache-2.0
 * The errors that the shim itself reports: CNI error JSON on stdout, exit status 1. */
#include <stdarg.h>
#include <stdlib.h>
#include "shim.h"

char cni_version[32] = "1.1.0"; /* what answers carry: the input's version, once it is known */

/* Takes the version to answer with from the configuration's text: the first "cniVersion" key
 * with a version for a value. No parser: a wrong guess only changes a field that callers ignore. */
void find_version(const char *conf)
{
	static const char key[] = "\"cniVersion\"";

	while ((conf = strstr(conf, key))) {
		size_t len;

		conf += sizeof key - 1;
		conf += strspn(conf, " \t\r\n");
		if (*conf != ':')
			continue;
		conf += 1 + strspn(conf + 1, " \t\r\n");
		len = *conf == '"' ? strspn(conf + 1, "0123456789.") : 0;
		if (!len || len >= sizeof cni_version || conf[1 + len] != '"')
			continue;
		memcpy(cni_version, conf + 1, len);
		cni_version[len] = '\0';
		return;
	}
}

/* strerror, save for the one text that must not reach containerd (see disguise). */
const char *why(int error)
{
	return error == ENOENT ? "it does not exist" : strerror(error);
}

/* The length of the UTF-8 character at s, 0 when it is not one. */
static int utf8_length(const unsigned char *s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	int len = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	uint32_t code;

	if (len < 2)
		return len;
	code = *s & (0xffu >> (len + 1));
	for (int i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return code < least[len] || code > 0x10ffff || code >> 11 == 0x1b ? 0 : len;
}

static void add_json_text(struct buf *out, const char *s)
{
	while (*s) {
		int len = utf8_length((const unsigned char *)s);
		char escape[8];

		if (*s == '"' || *s == '\\')
			buf_add(out, "\\", 1);
		if (!len)
			buf_text(out, "\\ufffd");
		else if ((unsigned char)*s >= 0x20)
			buf_add(out, s, (size_t)len);
		else if (snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*s) > 0)
			buf_text(out, escape);
		s += len ? len : 1;
	}
}

/* containerd takes a DEL error with these words for "already gone" and never tries again, so they
 * are broken up, whoever wrote them. */
static void disguise(char *message)
{
	static const char *const words[] = { "not found", "no such file or directory" };

	for (int i = 0; i < 2; i++)
		for (char *at = message; (at = strcasestr(at, words[i]));)
			at[strcspn(at, " ")] = '-';
}

_Noreturn void fail(int code, const char *format, ...)
{
	char message[4096];
	static struct buf out;
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	disguise(message);
	buf_reserve(&out, 128);
	out.len = (size_t)snprintf(out.data, out.cap, "{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":\"",
				   cni_version, code);
	add_json_text(&out, message);
	buf_text(&out, "\"}\n");
	exit(write_all(1, out.data, out.len) ? 2 : 1);
}
