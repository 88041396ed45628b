/* SPDX-License-Identifier: Apache-2.0
 * Time, whole reads and writes, settings from the environment. */
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "shim.h"

int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int write_all(int fd, const void *data, size_t len)
{
	for (const char *at = data; len;) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Appends what comes until EOF, until more than `cap` bytes are there, or, unless it is negative,
 * until wait_ms are over. Returns -1 when reading failed. */
int read_upto(int fd, struct buf *b, size_t cap, int wait_ms)
{
	int64_t deadline = now_us() / 1000 + wait_ms;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (b->len <= cap) {
		int64_t left = deadline - now_us() / 1000;
		ssize_t n;

		if (wait_ms >= 0 && (left <= 0 || poll(&p, 1, (int)left) == 0))
			return 0;
		buf_reserve(b, 65536);
		n = read(fd, b->data + b->len, 65536);
		if (n < 0 && errno != EINTR)
			return -1;
		if (n == 0)
			return 0;
		b->len += n > 0 ? (size_t)n : 0;
		b->data[b->len] = '\0';
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
	const char *value = setting(name, "");
	int ms = field_number((struct field){ value, strlen(value) });

	return ms < 0 ? fallback : ms;
}
