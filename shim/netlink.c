/* SPDX-License-Identifier: Apache-2.0
 * Passing netlink bytes to the kernel from inside a network namespace. */
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "shim.h"

#define REPLY_CAP (8u << 20)
#define ANSWER_MS 5000

/* Opens a network namespace by its path. EINVAL: there is something else. */
int netns_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct statfs fs;

	if (fd < 0)
		return -1;
	if (!fstatfs(fd, &fs) && fs.f_type == NSFS_MAGIC && ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET)
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

/* Walks a chain of messages; tells the last one's sequence number, whose answer ends the exchange.
 * Returns -1 when it is not a well-formed chain of at least one message. */
int netlink_last_seq(const char *bytes, size_t len, uint32_t *seq)
{
	struct nlmsghdr h;

	for (size_t at = 0, step; at < len || !at; at += step) {
		if (len - at < sizeof h)
			return -1;
		memcpy(&h, bytes + at, sizeof h);
		if (h.nlmsg_len < sizeof h || h.nlmsg_len > len - at)
			return -1;
		*seq = h.nlmsg_seq;
		step = NLMSG_ALIGN(h.nlmsg_len);
	}
	return 0;
}

/* True when these replies contain the end: the acknowledgement, error or DONE of message `seq`. */
static int is_last(const char *bytes, size_t len, uint32_t seq)
{
	struct nlmsghdr h;

	for (size_t at = 0; at + sizeof h <= len; at += NLMSG_ALIGN(h.nlmsg_len)) {
		memcpy(&h, bytes + at, sizeof h);
		if (h.nlmsg_len < sizeof h)
			return 0;
		if (h.nlmsg_seq == seq && (h.nlmsg_type == NLMSG_ERROR || h.nlmsg_type == NLMSG_DONE))
			return 1;
	}
	return 0;
}

/* A socket that belongs to the namespace, which is entered for that moment only. Not to come back
 * would run every later delegate in the pod's namespace, so that ends the call. */
static int socket_in(const char *path)
{
	int home, pod, fd = -1, error;

	if (!*path)
		return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	pod = netns_open(path);
	if (pod < 0)
		return -1;
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home >= 0 && !setns(pod, CLONE_NEWNET)) {
		fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		error = errno;
		if (setns(home, CLONE_NEWNET))
			fail(999, "cannot return from network namespace %s: %s", path, why(errno));
		errno = error;
	}
	error = errno;
	close(pod);
	if (home >= 0)
		close(home);
	errno = error;
	return fd;
}

/* Collects replies until the last one. Returns errno or 0. */
static int collect(int fd, uint32_t seq, struct buf *reply)
{
	static char chunk[32768];
	int64_t deadline = now_us() / 1000 + ANSWER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		int64_t left = deadline - now_us() / 1000;
		struct sockaddr_nl from = { 0 };
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return ETIMEDOUT;
		n = recvfrom(fd, chunk, sizeof chunk, MSG_TRUNC | MSG_DONTWAIT, (struct sockaddr *)&from,
			     &(socklen_t){ sizeof from });
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return errno;
		if (from.nl_pid)
			continue; /* not from the kernel */
		if ((size_t)n > sizeof chunk || reply->len + (size_t)n > REPLY_CAP)
			return EMSGSIZE;
		buf_add(reply, chunk, (size_t)n);
		if (is_last(chunk, (size_t)n, seq))
			return 0;
	}
}

/* Carries out one NETLINK order. Returns errno, 0 when it was answered; -1 for a malformed order. */
int netlink_order(const struct frame *f, struct buf *reply, const char **message)
{
	static const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd, error;
	uint32_t seq;

	reply->len = 0;
	if (f->count != 2 || !is_text(f->fields[0]))
		return -1;
	*message = "not a well-formed chain of netlink messages";
	if (netlink_last_seq(f->fields[1].data, f->fields[1].len, &seq))
		return EINVAL;
	fd = socket_in(f->fields[0].data);
	*message = errno == EINVAL ? "not a network namespace" : "cannot enter the network namespace";
	if (fd < 0)
		return errno;
	*message = "netlink request failed";
	if (sendto(fd, f->fields[1].data, f->fields[1].len, 0, (const void *)&kernel, sizeof kernel) < 0)
		error = errno;
	else
		error = collect(fd, seq, reply);
	close(fd);
	if (!error)
		*message = "";
	return error;
}
