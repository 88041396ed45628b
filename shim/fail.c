/* SPDX-License-Identifier: Apache-2.0
 * The errors that the shim itself reports: CNI error JSON on stdout, exit status 1. */
#include "shim.h"

/* strerror, save for the one text that must not reach containerd (see fail). */
const char *errno_text(int error)
{
	return error == ENOENT ? "it does not exist" : strerror(error);
}

/* containerd takes a DEL error with certain words for "already gone" and never tries again, so they
 * are broken up, whoever wrote them. */
_Noreturn void fail(struct call *call, enum cni_error code, const char *format, ...)
{
	struct buf error = { 0 };
	char message[4096], *at;
	va_list args;

	va_start(args, format);
	print_args(message, sizeof message, format, &args);
	va_end(args);
	while ((at = strcasestr(message, "not found")) || (at = strcasestr(message, "no such file or")))
		at[strcspn(at, " ")] = '-';
	buf_print(&error, "{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":\"", call->cni_version, (int)code);
	buf_json(&error, message);
	buf_print(&error, "\"}\n");
	lock_release(call);
	exit(write_all(1, error.data, error.len) ? 2 : 1);
}
