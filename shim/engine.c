/* SPDX-License-Identifier: Apache-2.0
 * The conversation with the engine: a daemon behind a socket, or a process of our own. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "shim.h"

int orders_received; /* EXEC and NETLINK: as long as there were none, nothing has been changed */

static int read_exactly(int fd, char *to, size_t len)
{
	while (len) {
		ssize_t n = read(fd, to, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Waits for one frame. Returns its size, 0 when the connection ended, -1 when it is malformed. */
static ssize_t receive(int fd, struct frame *f)
{
	static struct buf b;
	uint32_t len = 0;

	b.len = 0;
	buf_reserve(&b, 4);
	if (read_exactly(fd, b.data, 4))
		return 0;
	for (int i = 0; i < 4; i++)
		len = len << 8 | (unsigned char)b.data[i];
	if (!len || len > FRAME_MAX)
		return -1;
	b.len = 4;
	buf_reserve(&b, len);
	if (read_exactly(fd, b.data + 4, len))
		return 0;
	return frame_parse(b.data, 4 + (size_t)len, f);
}

/* The end of the call: exit code, stdout and stderr are the engine's. */
static int finish(const struct frame *f)
{
	int code = f->count == 3 ? field_number(f->fields[0]) : -1;

	if (code < 0 || code > 255)
		return -1;
	(void)!write_all(2, f->fields[2].data, f->fields[2].len);
	if (write_all(1, f->fields[1].data, f->fields[1].len) && !code)
		code = 1; /* without its result an ADD has not succeeded */
	exit(code);
}

/* Carries out one order and builds its answer. Returns -1 when the order makes no sense. */
static int serve_one(const struct frame *f, struct buf *answer)
{
	static struct exec_result r;
	static struct buf reply;
	const char *message;
	struct order o;
	size_t start;
	int error;

	answer->len = 0;
	if (f->type == FRAME_DONE)
		return finish(f);
	if (f->type == FRAME_NETLINK && (error = netlink_order(f, &reply, &message)) >= 0) {
		orders_received++;
		start = frame_begin(answer, FRAME_NETLINK_RESULT);
		frame_number(answer, error);
		frame_field(answer, reply.data, reply.len);
		frame_field(answer, message, strlen(message));
	} else if (!order_parse(f, &o)) {
		orders_received++;
		exec_order(&o, &r);
		start = frame_begin(answer, FRAME_EXEC_RESULT);
		frame_field(answer, r.outcome, strlen(r.outcome));
		frame_number(answer, r.code);
		frame_field(answer, r.out.data, r.out.len);
		frame_field(answer, r.err.data, r.err.len);
		frame_field(answer, r.message, strlen(r.message));
		frame_number(answer, r.elapsed_us);
	} else {
		return -1;
	}
	frame_end(answer, start);
	return 0;
}

/* Sends the request and serves orders; DONE exits. A write that fails is no matter by itself: the
 * engine may have answered before it went away, and if not, the next read tells. */
static enum ending converse(int fd, const struct buf *request)
{
	static struct buf answer;
	struct frame f;
	ssize_t n;

	(void)!write_all(fd, request->data, request->len);
	while ((n = receive(fd, &f)) > 0) {
		if (serve_one(&f, &answer))
			break;
		(void)!write_all(fd, answer.data, answer.len);
	}
	close(fd);
	return n ? MISUNDERSTOOD : orders_received ? LOST : NOTHING_DONE;
}

/* Tries the daemon once. Another user than root behind its socket could make us run anything. */
enum ending engine_daemon(const struct buf *request, const char **reason)
{
	const char *path = setting("PLEXUS_SOCKET", SOCKET_PATH);
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = 5 };
	struct ucred peer = { .uid = (uid_t)-1 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail(5, "cannot create a socket: %s", why(errno));
	if (strlen(path) >= sizeof to.sun_path)
		fail(4, "PLEXUS_SOCKET is longer than %zu bytes", sizeof to.sun_path - 1);
	strcpy(to.sun_path, path);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* full backlog: EAGAIN */
	if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
		*reason = errno == ENOENT ? "the socket does not exist" : why(errno);
		close(fd);
		return NOTHING_DONE;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &(socklen_t){ sizeof peer }) || peer.uid)
		fail(999, "refused to talk to %s: its owner has uid %d, not root's", path, (int)peer.uid);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ 0 }, sizeof patience);
	*reason = "it closed the connection before its first order";
	return converse(fd, request);
}

static _Noreturn void become_standalone(const char *path, int fd)
{
	int null = open("/dev/null", O_RDWR);

	if (null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
		_exit(126);
	if (fd == 3 ? fcntl(3, F_SETFD, 0) : dup2(fd, 3) < 0)
		_exit(126);
	if (null > 3)
		close(null);
	exec_become(path, environ, -1);
}

/* Starts the one-shot engine, where one is installed, with its end of a socketpair as fd 3. */
enum ending engine_standalone(const struct buf *request, const char **trouble)
{
	const char *path = setting("PLEXUS_STANDALONE", STANDALONE_PATH);
	struct stat st;
	int pair[2];
	pid_t pid;

	if (!*path || stat(path, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		return NOTHING_DONE;
	if (st.st_uid || st.st_mode & 022)
		return NOTHING_DONE;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		fail(5, "cannot create a socketpair: %s", why(errno));
	pid = fork();
	if (pid == 0)
		become_standalone(path, pair[1]);
	if (pid < 0)
		fail(5, "cannot fork: %s", why(errno));
	close(pair[1]);
	*trouble = "; plexus-standalone ended before its first order";
	return converse(pair[0], request);
}
