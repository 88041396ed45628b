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

/* True when the open file is the one at that path. */
bool is_file(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
