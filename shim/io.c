/* SPDX-License-Identifier: Apache-2.0
 * Time, whole reads and writes, settings from the environment. */
#include "shim.h"

int64_t clock_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Appends what one read returns. */
ssize_t read_some(int fd, struct buf *b)
{
	ssize_t n;

	buf_reserve(b, CHUNK);
	n = read(fd, b->data + b->len, CHUNK);
	b->len += n > 0 ? (size_t)n : 0;
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
	ssize_t n;

	for (const char *at = data; len; at += n, len -= (size_t)n) {
		n = write(fd, at, len);
		if (n < 0)
			return -1;
	}
	return 0;
}

/* An environment variable, or the fallback when it is not set; set but empty stays empty. */
const char *setting(const char *name, const char *fallback)
{
	const char *value = getenv(name);

	return value ? value : fallback;
}

int setting_ms(const char *name, int fallback)
{
	int ms = field_number(text(setting(name, "")));

	return ms < 0 ? fallback : ms;
}

/* True when the open file is the one at that path. */
int is_file(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
