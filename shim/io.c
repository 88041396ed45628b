/* SPDX-License-Identifier: Apache-2.0
 * Time, and whole reads and writes. */
#include "shim.h"

int64_t clock_us(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The milliseconds until the deadline, rounded up; 0 once it has passed. */
int ms_until(int64_t deadline)
{
	int64_t left = deadline - now_us();
	return left <= 0 ? 0 : (int)((left + 999) / 1000);
}

/* Appends the result of one read. Most reads are short, and a large buffer for each would cost more. */
ssize_t read_some(int fd, struct buf *b)
{
	static char chunk[CHUNK];
	ssize_t n = read(fd, chunk, CHUNK);
	buf_add(b, chunk, n > 0 ? (size_t)n : 0);
	return n;
}

/* Appends input until EOF, more than `cap` bytes, or `patience_ms` (-1: no limit) without input. Returns -1 on failure. */
int read_all(int fd, struct buf *b, size_t cap, int patience_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = 1;
	buf_add(b, "", 0);
	while (n > 0 && b->len <= cap && (patience_ms < 0 || poll(&p, 1, patience_ms)))
		n = read_some(fd, b);
	return n < 0 ? -1 : 0;
}

/* Appends a file, as read_all. Follows no link at its end. */
int read_file(const char *path, struct buf *b, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), result = fd < 0 ? -1 : read_all(fd, b, cap, -1);
	close(fd);
	return result;
}

int write_all(int fd, const void *data, size_t len)
{
	for (const char *at = data; len;) {
		ssize_t n = write(fd, at, len);
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int say(int fd, const char *format, ...)
{
	struct buf line = { 0 };
	BUF_VPRINT(&line, format);
	int result = write_all(fd, line.data, line.len);
	buf_free(&line);
	return result;
}

/* Opens the file of a descriptor again, however its path has changed. */
int open_again(int fd, int flags)
{
	char path[64];
	return open(print(path, sizeof path, "/proc/self/fd/%d", fd), flags | O_CLOEXEC);
}

/* Appends the start of a process: the 22nd field of its `stat` in /proc. With its number, it names the process for good. */
void process_start(const char *file, struct buf *to)
{
	struct buf stat = { 0 };
	const char *at = read_file(file, &stat, PATH_SIZE) ? NULL : strrchr(stat.data, ')');
	for (int i = 0; at && i < 20; i++)
		at = strchr(at + 1, ' ');
	if (at)
		buf_print(to, "%.*s", (int)strcspn(at + 1, " "), at + 1);
	buf_free(&stat);
}

/* True if the path leads to the open file. */
bool is_file(int fd, const char *path)
{
	struct stat a, b;
	return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
