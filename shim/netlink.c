/* SPDX-License-Identifier: Apache-2.0
 * Passes netlink bytes to the kernel from inside a network namespace. */
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include "shim.h"

#define REPLY_CAP (8u << 20)
#define ANSWER_S 5

#define BIT(type) (1u << (type))
#define HOP (BIT(RTA_GATEWAY) | BIT(RTA_VIA) | BIT(RTA_FLOW))
#define ROUTE (HOP | BIT(RTA_DST) | BIT(RTA_OIF) | BIT(RTA_PRIORITY) | BIT(RTA_PREFSRC) | BIT(RTA_METRICS) | \
	       BIT(RTA_MULTIPATH) | BIT(RTA_TABLE) | BIT(RTA_PREF) | BIT(RTA_NH_ID))

/* The messages that Plexus sends: the length of their fixed part, and their attributes. Others could reach out of the
 * namespace, as IFLA_NET_NS_PID and IFLA_TARGET_NETNSID do. */
static const struct { uint16_t type, fixed; uint32_t attributes; } messages[] = {
	{ RTM_GETLINK, sizeof(struct ifinfomsg), BIT(IFLA_IFNAME) }, { RTM_GETADDR, sizeof(struct ifaddrmsg), 0 },
	{ RTM_GETROUTE, sizeof(struct rtmsg), 0 }, { RTM_NEWROUTE, sizeof(struct rtmsg), ROUTE },
	{ RTM_DELROUTE, sizeof(struct rtmsg), ROUTE },
};

/* Opens a network namespace by its path. A compromised engine may name any path, so no caller learns what else is there.
 * ENOENT: no namespace; EINVAL: an empty file, at which one may be mounted where the shim does not see it. Opening a
 * device or a FIFO has effects, so O_PATH comes first. */
int netns_open(const char *path)
{
	struct statfs fs;
	struct stat s = { 0 };
	int fd = -1, error = EINVAL, file = open(path, O_PATH | O_CLOEXEC);
	if (file < 0) /* ENAMETOOLONG tells that the path's directory exists */
		error = errno == ENOTDIR || errno == ELOOP || errno == ESRCH || errno == ENAMETOOLONG ? ENOENT : errno;
	else if (fstat(file, &s) || !S_ISREG(s.st_mode) || s.st_size)
		error = ENOENT;
	else if (!fstatfs(file, &fs) && fs.f_type == NSFS_MAGIC && (fd = open_again(file, O_RDONLY)) < 0)
		error = errno;
	close(file);
	if (fd >= 0 && ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET)
		return fd;
	close(fd);
	errno = error;
	return -1;
}

/* Opens a network namespace. `target` gets where another one than the shim's is mounted. If the path leads to a process's, it
 * gets `net:[NUMBER]`. */
int netns_target(const char *path, char target[PATH_SIZE])
{
	int fd = netns_open(path);
	char link[64];
	ssize_t len = fd < 0 || is_own_netns(fd) ? 0
		: readlink(print(link, sizeof link, "/proc/self/fd/%d", fd), target, PATH_SIZE - 1);
	target[len > 0 ? len : 0] = '\0';
	return fd;
}

/* Appends what identifies the process (or thread) to whose network namespace a path leads, perhaps by links: when the process
 * (for a thread, its process) started, and the namespace's number. Either alone is used again. Appends nothing if it is unknown. */
void netns_process(const char *path, struct buf *id)
{
	char target[PATH_SIZE], file[PATH_SIZE];
	size_t none = id->len;
	int pod = netns_target(path, target), links = 0;
	print(file, sizeof file, "%s", path);
	while (*path == '/' && links++ < LINKS_MAX && link_resolve(file, strlen(file)))
		;
	char *name = strrchr(file, '/'); /* the kernel's link is below the process, and its text `target` */
	if (*target && name && !strcmp(name + 1, target)) {
		*name = '\0';
		print(name, sizeof file - (size_t)(name - file), strstr(file, "/task/") ? "/../../../stat" : "/../stat");
		process_start(file, id); /* `pod` keeps its number */
	}
	if (id->len > none)
		buf_print(id, "-%s", target);
	close(pod);
}

/* Finds the last message of a chain. Returns -1 if it is not a well-formed chain of at least one message. */
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

/* True if the bytes are attributes of these types or, for `head` of a next hop, next hops with such attributes. Both begin
 * with their length; the type of an attribute follows. */
static bool has_only(const char *bytes, size_t len, size_t head, uint32_t types)
{
	uint16_t start[2];
	for (size_t at = 0; at < len; at += RTA_ALIGN(start[0])) {
		if (len - at < head)
			return false;
		memcpy(start, bytes + at, sizeof start);
		if (start[0] < head || start[0] > len - at)
			return false;
		const char *inner = bytes + at + head;
		size_t size = start[0] - head, type = start[1] & NLA_TYPE_MASK;
		if (head == sizeof(struct rtnexthop) ? !has_only(inner, size, sizeof(struct rtattr), types)
		    : type > 31 || !(types & BIT(type)) ||
		      (type == RTA_MULTIPATH && !has_only(inner, size, sizeof(struct rtnexthop), HOP)))
			return false;
	}
	return true;
}

/* True if all messages of a well-formed chain are about IP and such as Plexus sends. Notes whether they only read. */
bool netlink_allowed(const char *bytes, size_t len, bool *only_reads)
{
	const size_t header = sizeof(struct nlmsghdr), kinds = sizeof messages / sizeof *messages;
	struct nlmsghdr m;
	*only_reads = true;
	for (size_t i, at = 0; at < len; at += NLMSG_ALIGN(m.nlmsg_len)) {
		memcpy(&m, bytes + at, header);
		for (i = 0; i < kinds && messages[i].type != m.nlmsg_type; i++)
			;
		if (i == kinds || m.nlmsg_len < header + messages[i].fixed)
			return false;
		const char *fixed = bytes + at + header; /* whose first byte is the family */
		if ((*fixed != AF_UNSPEC && *fixed != AF_INET && *fixed != AF_INET6) ||
		    !has_only(fixed + messages[i].fixed, m.nlmsg_len - header - messages[i].fixed,
			      sizeof(struct rtattr), messages[i].attributes))
			return false;
		*only_reads = *only_reads && m.nlmsg_type != RTM_NEWROUTE && m.nlmsg_type != RTM_DELROUTE;
	}
	return true;
}

/* Opens a socket in the namespace, or in that of the process if `pod` is -1. The process enters it only for that. Delegates
 * must not run there, so a failure to return ends the call. Returns -1 and notes the error on failure. */
static int socket_in(const struct call *call, int pod, struct netlink_result *r)
{
	int home = pod < 0 ? -1 : netns_open(OWN_NETNS), fd = -1;
	bool is_inside = pod < 0 || (home >= 0 && !setns(pod, CLONE_NEWNET));
	if (is_inside)
		fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	else
		r->stage = "open";
	r->error = errno;
	if (is_inside && pod >= 0 && setns(home, CLONE_NEWNET))
		fail(call, CNI_INTERNAL, "cannot return to the shim's network namespace: %s", errno_text(errno));
	close(home);
	return fd;
}

/* Collects replies until the acknowledgement, error or DONE of message `seq`. Returns errno or 0. */
static int collect(int fd, uint32_t seq, struct buf *reply)
{
	static const struct timeval patience = { .tv_sec = ANSWER_S };
	static char chunk[CHUNK];
	struct nlmsghdr last = { 0 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	do {
		ssize_t n = recv(fd, chunk, CHUNK, MSG_TRUNC);
		if (n < 0)
			return errno == EAGAIN ? ETIMEDOUT : errno;
		if (n > CHUNK || reply->len > REPLY_CAP || netlink_last(chunk, (size_t)n, &last))
			return EMSGSIZE;
		buf_add(reply, chunk, (size_t)n);
	} while (last.nlmsg_seq != seq || (last.nlmsg_type != NLMSG_ERROR && last.nlmsg_type != NLMSG_DONE));
	return 0;
}

static void ask_kernel(const struct call *call, int pod, struct field request, uint32_t seq, struct netlink_result *r)
{
	static const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	int fd = socket_in(call, pod, r);
	if (fd < 0)
		return;
	if (connect(fd, (const void *)&kernel, sizeof kernel) || send(fd, request.data, request.len, 0) < 0)
		r->error = errno;
	else
		r->error = collect(fd, seq, &r->reply);
	close(fd);
}

/* Carries out one NETLINK order. It changes the call's own namespace only, and not the runtime's unless the runtime asked. */
void netlink_order(const struct call *call, const struct frame *f, struct netlink_result *r)
{
	const char *path = f->fields[0].data;
	struct field bytes = f->fields[1];
	struct nlmsghdr last;
	bool only_reads;
	*r = (struct netlink_result){ EINVAL, "not a well-formed chain of netlink messages", "request", { 0 } };
	if (netlink_last(bytes.data, bytes.len, &last))
		return;
	r->error = EPERM;
	r->message = "refused: a netlink message or an attribute that Plexus does not use";
	if (!netlink_allowed(bytes.data, bytes.len, &only_reads))
		return;
	r->message = "refused: the order names no network namespace";
	if (!*path)
		return;
	int pod = netns_open(path);
	r->message = "refused: an order may change only the call's own network namespace";
	if (pod < 0) {
		r->error = errno;
		r->stage = "open";
		r->message = errno == EINVAL || errno == ENOENT ? "there is no network namespace at that path"
								: "cannot open the network namespace";
	} else if (only_reads || (!strcmp(path, call->netns) && (call->netns_override || !is_own_netns(pod)))) {
		ask_kernel(call, pod, bytes, last.nlmsg_seq, r);
		r->message = r->error ? "netlink request failed" : "";
		r->stage = r->error ? r->stage : "done";
	}
	close(pod);
}

/* Passes messages that only read from stdin to the kernel, and its answer to stdout, in the namespace of this process: for
 * plexusd, which has no netlink socket and may enter no namespace. Returns the exit code. */
int netlink_here(const struct call *call)
{
	static struct buf request;
	static struct netlink_result r;
	struct nlmsghdr last;
	bool only_reads;
	if (read_all(0, &request, CHUNK, -1) || netlink_last(request.data, request.len, &last) ||
	    !netlink_allowed(request.data, request.len, &only_reads) || !only_reads)
		return say(2, "stdin has other netlink messages than those with which Plexus reads\n") || 1;
	ask_kernel(call, -1, content(&request), last.nlmsg_seq, &r);
	if (r.error)
		return say(2, "netlink request failed: %s\n", errno_text(r.error)) || 1;
	return write_all(1, r.reply.data, r.reply.len) ? 1 : 0;
}

/* Appends the names of the namespace's links, each with a slash, which no name contains. Returns errno, or 0. */
static int list_links(const struct call *call, int pod, struct buf *names)
{
	static struct { struct nlmsghdr header; struct ifinfomsg link; struct rtattr extent; uint32_t bits; } all = {
		{ sizeof all, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 }, { 0 },
		{ RTA_LENGTH(sizeof(uint32_t)), IFLA_EXT_MASK }, RTEXT_FILTER_SKIP_STATS };
	struct netlink_result r = { 0 };
	const struct nlmsghdr *link;
	ask_kernel(call, pod, (struct field){ (char *)&all, sizeof all }, 1, &r);
	for (size_t at = 0; !r.error && at < r.reply.len; at += NLMSG_ALIGN(link->nlmsg_len)) {
		link = (const struct nlmsghdr *)(r.reply.data + at);
		struct rtattr *a = IFLA_RTA(NLMSG_DATA(link));
		int left = (int)IFLA_PAYLOAD(link);
		while (RTA_OK(a, left) && a->rta_type != IFLA_IFNAME)
			a = RTA_NEXT(a, left);
		if (link->nlmsg_flags & NLM_F_DUMP_INTR || (link->nlmsg_type == RTM_NEWLINK && !RTA_OK(a, left)))
			r.error = EAGAIN;
		else if (link->nlmsg_type == RTM_NEWLINK)
			buf_print(names, "%s/", (const char *)RTA_DATA(a));
	}
	buf_free(&r.reply);
	return r.error;
}

/* Distinguishes a namespace that is gone from one that only cannot be opened now. If `names` is not NULL, appends the
 * names of a pod's links as list_links does, or nothing if they cannot be listed. */
enum netns netns_inspect(const struct call *call, const char *path, struct buf *names)
{
	char target[PATH_SIZE];
	int fd = netns_target(path, target);
	if (fd < 0)
		return errno == EINVAL || errno == ENOENT ? NETNS_GONE : NETNS_UNKNOWN;
	size_t before = names ? names->len : 0;
	if (names && *target && list_links(call, fd, names))
		names->len = before;
	close(fd);
	return !*target ? NETNS_OWN : *target == '/' ? NETNS_OK : NETNS_OK_PROCESS;
}

/* Returns why the sandbox may have other interfaces than the call's and those of every namespace, or NULL. */
const char *netns_doubt(const struct call *call)
{
	static const char everywhere[] = "/lo/tunl0/sit0/ip6tnl0/gre0/gretap0/erspan0/ip6gre0/ip_vti0/ip6_vti0/";
	struct buf names = { 0 };
	const char *doubt = NULL;
	enum netns state = netns_inspect(call, call->netns, &names);
	char entry[32];
	if (state == NETNS_GONE || state == NETNS_OWN)
		return NULL;
	if (!names.len)
		doubt = "its network namespace cannot be inspected";
	for (char *list = names.data, *name; !doubt && (name = strsep(&list, "/"));)
		if (*name && strcmp(name, call->ifname) && !strstr(everywhere, print(entry, sizeof entry, "/%s/", name)))
			doubt = "its network namespace has further interfaces";
	buf_free(&names);
	return doubt;
}
