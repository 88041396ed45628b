/* SPDX-License-Identifier: Apache-2.0
 * The errors that the shim itself reports: CNI error JSON on stdout, exit status 1. */
#include "shim.h"

char cni_version[32] = "1.1.0"; /* what answers carry: the input's version, once it is known */

/* Takes the version to answer with from the configuration's text: the first "cniVersion" key
 * with a version for a value. No parser: a wrong guess only changes a field that callers ignore. */
void find_version(const char *conf)
{
	static const char key[] = "\"cniVersion\"";
	size_t len;

	while ((conf = strstr(conf, key))) {
		conf += sizeof key - 1;
		conf += strspn(conf, ": \t\r\n");
		len = *conf == '"' ? strspn(conf + 1, "0123456789.") : 0;
		if (len && len < sizeof cni_version && conf[1 + len] == '"') {
			snprintf(cni_version, len + 1, "%s", conf + 1);
			return;
		}
	}
}

/* strerror, save for the one text that must not reach containerd (see fail). */
const char *why(int error)
{
	return error == ENOENT ? "it does not exist" : strerror(error);
}

/* containerd takes a DEL error with certain words for "already gone" and never tries again, so they
 * are broken up, whoever wrote them. Control characters become spaces: a message is one line. */
_Noreturn void fail(int code, const char *format, ...)
{
	char message[4096], *at;
	va_list args;
	int len;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	while ((at = strcasestr(message, "not found")) || (at = strcasestr(message, "no such file or")))
		at[strcspn(at, " ")] = '-';
	printf("{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":\"", cni_version, code);
	for (at = message; *at; at += len > 0 ? len : 1) {
		len = mblen(at, MB_LEN_MAX);
		if (*at == '"' || *at == '\\')
			putchar('\\');
		if (len < 0)
			fputs("\\ufffd", stdout);
		else
			printf("%.*s", len, (unsigned char)*at < ' ' ? " " : at);
	}
	puts("\"}");
	exit(fflush(stdout) ? 2 : 1);
}
