/* SPDX-License-Identifier: Apache-2.0
 * Time, and whole reads and writes. */
#include "shim.h"

int64_t clock_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* For deadlines. */
int64_t now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

/* Appends what one read returns. */
ssize_t read_some(int fd, struct buf *b)
{
	ssize_t n;

	buf_reserve(b, CHUNK);
	n = read(fd, b->data + b->len, CHUNK);
	if (n > 0)
		b->len += (size_t)n;
	b->data[b->len] = '\0';
	return n;
}

/* Appends what comes until EOF, until more than `cap` bytes are there, or until nothing has come for
 * that long (-1: for ever). Returns -1 when reading failed. */
int read_all(int fd, struct buf *b, size_t cap, int patience_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = 1;

	buf_add(b, "", 0);
	while (n > 0 && b->len <= cap && poll(&p, 1, patience_ms))
		n = read_some(fd, b);
	return n < 0 ? -1 : 0;
}

int write_all(int fd, const void *data, size_t len)
{
	const char *at = data;
	ssize_t n;

	while (len) {
		n = write(fd, at, len);
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Ends the process as the signal does; process 1 of a container is not ended by a signal alone. */
_Noreturn void end_by_signal(int number)
{
	raise(number);
	_exit(128 + number);
}

/* Our end of the runtime's pipe, to be polled for nothing: it reports when the runtime was killed. Then the
 * call has to end, so that the next one need not wait for it. A DEL continues: all that it still detaches is
 * of use. The agent has no caller. */
struct pollfd caller_end(const struct call *call)
{
	return (struct pollfd){ .fd = call_is(call, "DEL") || call_is(call, "AGENT") ? -1 : STDOUT_FILENO };
}

/* Waits that long; ends the call when its runtime is killed. */
void await_ms(const struct call *call, int ms)
{
	struct pollfd caller = caller_end(call);

	if (poll(&caller, 1, ms) > 0)
		end_by_signal(SIGTERM);
}

/* True when the open file is the one at that path. */
bool is_file(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
