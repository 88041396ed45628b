/* SPDX-License-Identifier: Apache-2.0
 * Passes netlink bytes to the kernel from inside a network namespace. */
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include "shim.h"

#define REPLY_CAP (8u << 20)
#define ANSWER_MS 5000

/* True if the open file is the shim's own network namespace. */
bool is_own_netns(int fd)
{
	static struct stat own;
	struct stat file;
	if (!own.st_ino && stat(OWN_NETNS, &own))
		return false;
	return !fstat(fd, &file) && file.st_dev == own.st_dev && file.st_ino == own.st_ino;
}

/* Opens a network namespace by its path. EINVAL: the file is none. */
int netns_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET)
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

/* Finds the last message of a chain, and whether all messages only read (RTM_GET*: every fourth type). Returns -1 if it
 * is not a well-formed chain of at least one message. */
int netlink_last(const char *bytes, size_t len, struct nlmsghdr *last, bool *only_reads)
{
	size_t at = 0;
	*only_reads = true;
	do {
		if (len - at < sizeof *last)
			return -1;
		memcpy(last, bytes + at, sizeof *last);
		if (last->nlmsg_len < sizeof *last || last->nlmsg_len > len - at)
			return -1;
		if (last->nlmsg_type < RTM_BASE || last->nlmsg_type % 4 != 2)
			*only_reads = false;
		at += NLMSG_ALIGN(last->nlmsg_len);
	} while (at < len);
	return 0;
}

/* Opens a socket in the namespace, which the process enters only for that. Delegates must not run there, so a failure to
 * return ends the call. Returns -1 and notes the error on failure. */
static int socket_in(const struct call *call, int pod, struct netlink_result *r)
{
	int home = netns_open(OWN_NETNS), fd = -1;
	bool is_inside = home >= 0 && !setns(pod, CLONE_NEWNET);
	if (is_inside)
		fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	else if (home >= 0)
		r->stage = "open";
	r->error = errno;
	if (is_inside && setns(home, CLONE_NEWNET))
		fail(call, CNI_INTERNAL, "cannot return to the shim's network namespace: %s", errno_text(errno));
	close(home);
	return fd;
}

/* Collects replies until the acknowledgement, error or DONE of message `seq`. Returns errno or 0. */
static int collect(int fd, uint32_t seq, struct buf *reply)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	static char chunk[CHUNK];
	struct nlmsghdr last = { 0 };
	bool only_reads;
	do {
		ssize_t n = recv(fd, chunk, CHUNK, MSG_TRUNC | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN && poll(&p, 1, ANSWER_MS) <= 0)
			return ETIMEDOUT;
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n < 0)
			return errno;
		if (n > CHUNK || reply->len > REPLY_CAP || netlink_last(chunk, (size_t)n, &last, &only_reads))
			return EMSGSIZE;
		buf_add(reply, chunk, (size_t)n);
	} while (last.nlmsg_seq != seq || (last.nlmsg_type != NLMSG_ERROR && last.nlmsg_type != NLMSG_DONE));
	return 0;
}

/* Sends the request by a socket that is connected to the kernel, and notes the answer. Returns errno, or 0. */
static int ask_kernel(const struct call *call, int pod, struct field request, uint32_t seq, struct netlink_result *r)
{
	static const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd = socket_in(call, pod, r);
	if (fd < 0)
		return r->error;
	if (connect(fd, (const void *)&kernel, sizeof kernel) || send(fd, request.data, request.len, 0) < 0)
		r->error = errno;
	else
		r->error = collect(fd, seq, &r->reply);
	close(fd);
	return r->error;
}

/* True if the call may change the namespace: its own, and not the runtime's unless the runtime asked for it. The check
 * uses the open file, as the path may change. */
static bool may_change(const struct call *call, const char *path, int pod)
{
	return *call->netns && !strcmp(path, call->netns) && (call->netns_override || !is_own_netns(pod));
}

/* Carries out one NETLINK order. */
void netlink_order(const struct call *call, const struct frame *f, struct netlink_result *r)
{
	const char *path = f->fields[0].data;
	struct nlmsghdr last;
	bool only_reads;
	*r = (struct netlink_result){ EINVAL, "not a well-formed chain of netlink messages", "request", { 0 } };
	if (netlink_last(f->fields[1].data, f->fields[1].len, &last, &only_reads))
		return;
	r->error = EPERM;
	r->message = "refused: the order names no network namespace";
	if (!*path)
		return;
	int pod = netns_open(path);
	r->message = "refused: an order may change only the call's own network namespace";
	if (pod < 0) {
		r->error = errno;
		r->stage = "open";
		r->message = errno == EINVAL ? "not a network namespace" : "cannot open the network namespace";
	} else if (only_reads || may_change(call, path, pod)) {
		r->error = ask_kernel(call, pod, f->fields[1], last.nlmsg_seq, r);
		r->message = r->error ? "netlink request failed" : "";
		r->stage = r->error ? r->stage : "done";
	}
	close(pod);
}

/* Appends the names of the namespace's links, each with a slash, which no name contains. Returns errno, or 0. */
static int list_links(const struct call *call, int pod, struct buf *names)
{
	static struct { struct nlmsghdr header; struct ifinfomsg link; struct rtattr extent; uint32_t bits; } all = {
		{ sizeof all, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 }, { 0 },
		{ RTA_LENGTH(sizeof(uint32_t)), IFLA_EXT_MASK }, RTEXT_FILTER_SKIP_STATS };
	struct netlink_result r = { 0 };
	const struct nlmsghdr *link;
	int error = ask_kernel(call, pod, (struct field){ (char *)&all, sizeof all }, 1, &r);
	for (size_t at = 0; !error && at < r.reply.len; at += NLMSG_ALIGN(link->nlmsg_len)) {
		link = (const struct nlmsghdr *)(r.reply.data + at);
		struct rtattr *a = IFLA_RTA(NLMSG_DATA(link));
		int left = (int)IFLA_PAYLOAD(link);
		while (RTA_OK(a, left) && a->rta_type != IFLA_IFNAME)
			a = RTA_NEXT(a, left);
		if (link->nlmsg_flags & NLM_F_DUMP_INTR || (link->nlmsg_type == RTM_NEWLINK && !RTA_OK(a, left)))
			error = EAGAIN;
		else if (link->nlmsg_type == RTM_NEWLINK)
			buf_print(names, "%s/", (const char *)RTA_DATA(a));
	}
	buf_free(&r.reply);
	return error;
}

/* Distinguishes a namespace that is gone from one that only cannot be opened now. If `names` is not NULL, appends the
 * names of a pod's links as list_links does, or nothing if they cannot be listed. */
enum netns netns_inspect(const struct call *call, const char *path, struct buf *names)
{
	int fd = netns_open(path);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ESRCH || errno == EINVAL
			? NETNS_GONE : NETNS_UNKNOWN;
	bool own = is_own_netns(fd);
	size_t before = names ? names->len : 0;
	if (names && !own && list_links(call, fd, names))
		names->len = before;
	close(fd);
	return own ? NETNS_OWN : NETNS_OK;
}

/* Returns why the sandbox may have more than the call's interface and those that the kernel creates in every namespace,
 * or NULL. */
const char *netns_doubt(const struct call *call)
{
	static const char everywhere[] = "/lo/tunl0/sit0/ip6tnl0/gre0/gretap0/erspan0/ip6gre0/ip_vti0/ip6_vti0/";
	struct buf names = { 0 };
	const char *doubt = NULL;
	enum netns state = netns_inspect(call, call->netns, &names);
	char name[32];
	if (state == NETNS_GONE || state == NETNS_OWN)
		return NULL;
	if (!names.len)
		doubt = "its network namespace cannot be inspected";
	for (size_t len, at = 0; !doubt && at < names.len; at += len + 1) {
		len = strcspn(names.data + at, "/");
		print(name, sizeof name, "/%.*s/", (int)len, names.data + at);
		if (!strstr(everywhere, name) && (len != strlen(call->ifname) || memcmp(name + 1, call->ifname, len)))
			doubt = "its network namespace has further interfaces";
	}
	buf_free(&names);
	return doubt;
}
