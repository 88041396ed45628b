/* SPDX-License-Identifier: Apache-2.0
 * Passing netlink bytes to the kernel from inside a network namespace. */
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include "shim.h"

#define REPLY_CAP (8u << 20)
#define ANSWER_MS 5000

/* Opens a network namespace by its path. EINVAL: there is something else. */
int netns_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET)
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

/* Finds the last message of a chain. Returns -1 when it is not a well-formed chain of at least one. */
int netlink_last(const char *bytes, size_t len, struct nlmsghdr *last)
{
	for (size_t at = 0; at < len || !at; at += NLMSG_ALIGN(last->nlmsg_len)) {
		if (len - at < sizeof *last)
			return -1;
		memcpy(last, bytes + at, sizeof *last);
		if (last->nlmsg_len < sizeof *last || last->nlmsg_len > len - at)
			return -1;
	}
	return 0;
}

/* A socket that belongs to the namespace, which is entered for that moment only. Not to come back
 * would run every later delegate in the pod's namespace, so that ends the call. */
static int socket_in(const char *path)
{
	static int home = -1;
	int fd = -1, pod = netns_open(*path ? path : OWN_NETNS);

	if (home < 0 && pod >= 0)
		home = netns_open(OWN_NETNS);
	if (pod < 0 || home < 0)
		return -1;
	if (!setns(pod, CLONE_NEWNET)) {
		fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		if (setns(home, CLONE_NEWNET))
			fail(999, "cannot return from network namespace %s: %s", path, why(errno));
	}
	close(pod);
	return fd;
}

/* Collects replies until the acknowledgement, error or DONE of message `seq`. Returns errno or 0. */
static int collect(int fd, uint32_t seq, struct buf *reply)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct nlmsghdr last;
	char *chunk;
	ssize_t n;

	do {
		if (poll(&p, 1, ANSWER_MS) <= 0)
			return ETIMEDOUT;
		buf_reserve(reply, CHUNK);
		chunk = reply->data + reply->len;
		n = recv(fd, chunk, CHUNK, MSG_TRUNC);
		if (n < 0)
			return errno;
		if (n > CHUNK || reply->len > REPLY_CAP || netlink_last(chunk, (size_t)n, &last))
			return EMSGSIZE;
		reply->len += (size_t)n;
	} while (last.nlmsg_seq != seq || (last.nlmsg_type != NLMSG_ERROR && last.nlmsg_type != NLMSG_DONE));
	return 0;
}

/* Carries out one NETLINK order. Returns errno, 0 when it was answered. Connected to the kernel, the
 * socket takes nothing from anyone else. */
int netlink_order(const struct frame *f, struct buf *reply, const char **message)
{
	static const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct nlmsghdr last;
	int fd, error;

	reply->len = 0;
	*message = "not a well-formed chain of netlink messages";
	if (netlink_last(f->fields[1].data, f->fields[1].len, &last))
		return EINVAL;
	fd = socket_in(f->fields[0].data);
	*message = errno == EINVAL ? "not a network namespace" : "cannot enter the network namespace";
	if (fd < 0)
		return errno;
	if (connect(fd, (const void *)&kernel, sizeof kernel) ||
	    send(fd, f->fields[1].data, f->fields[1].len, 0) < 0)
		error = errno;
	else
		error = collect(fd, last.nlmsg_seq, reply);
	*message = error ? "netlink request failed" : "";
	close(fd);
	return error;
}
