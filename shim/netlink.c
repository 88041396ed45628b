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
	size_t at = 0;

	do {
		if (len - at < sizeof *last)
			return -1;
		memcpy(last, bytes + at, sizeof *last);
		if (last->nlmsg_len < sizeof *last || last->nlmsg_len > len - at)
			return -1;
		at += NLMSG_ALIGN(last->nlmsg_len);
	} while (at < len);
	return 0;
}

/* A socket that belongs to the namespace, which is entered for that moment only. Not to come back
 * would run every later delegate in the pod's namespace, so that ends the call. Returns -errno. */
static int socket_in(struct call *call, const char *path)
{
	int pod = netns_open(*path ? path : OWN_NETNS), home = netns_open(OWN_NETNS), fd;

	if (pod < 0 || home < 0 || setns(pod, CLONE_NEWNET)) {
		fd = -errno;
	} else {
		fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
		if (fd < 0)
			fd = -errno;
		if (setns(home, CLONE_NEWNET))
			fail(call, CNI_INTERNAL, "cannot return from network namespace %s: %s", path,
			     errno_text(errno));
	}
	close(pod);
	close(home);
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
int netlink_order(struct call *call, const struct frame *f, struct buf *reply, const char **message)
{
	static const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct field request = f->fields[1];
	struct nlmsghdr last;
	int fd, error;

	*message = "not a well-formed chain of netlink messages";
	if (netlink_last(request.data, request.len, &last))
		return EINVAL;
	fd = socket_in(call, f->fields[0].data);
	if (fd < 0) {
		*message = fd == -EINVAL ? "not a network namespace" : "cannot enter the network namespace";
		return -fd;
	}
	if (connect(fd, (const void *)&kernel, sizeof kernel) || send(fd, request.data, request.len, 0) < 0)
		error = errno;
	else
		error = collect(fd, last.nlmsg_seq, reply);
	*message = error ? "netlink request failed" : "";
	close(fd);
	return error;
}
