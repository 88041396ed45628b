/* SPDX-License-Identifier: Apache-2.0
 * The conversation with the engine: a daemon behind a socket, or a process of our own. */
#include <sys/un.h>
#include "shim.h"

int orders_received; /* EXEC and NETLINK: as long as there were none, nothing has been changed */
const char *trouble; /* why there is no engine, or no more */

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
static int serve(const struct frame *f, struct buf *answer)
{
	static struct exec_result r;
	static struct buf reply;
	const char *message;
	char code[24], elapsed[24];

	answer->len = 0;
	if (f->type == FRAME_DONE)
		return finish(f);
	if (f->type == FRAME_NETLINK && f->count == 2 && is_text(f->fields[0])) {
		struct field error = number(code, netlink_order(f, &reply, &message));
		struct field fields[] = { error, CONTENT(reply), text(message) };

		frame_write(answer, FRAME_NETLINK_RESULT, fields, 3);
	} else if (is_exec(f)) {
		exec_order(f, &r);
		frame_write(answer, FRAME_EXEC_RESULT, (struct field[]){
			text(r.outcome), number(code, r.code), CONTENT(r.said[1]), CONTENT(r.said[2]),
			CONTENT(r.message), number(elapsed, r.elapsed_us) }, 6);
	} else {
		return -1;
	}
	orders_received++;
	return 0;
}

/* Sends the request and serves orders; DONE exits. A write that fails is no matter by itself: the
 * engine may have answered before it went away, and if not, the next read tells. */
static enum ending converse(int fd, const struct buf *request)
{
	static struct buf in, answer;
	struct frame f;
	ssize_t n;

	in.len = 0;
	(void)!write_all(fd, request->data, request->len);
	for (;;) {
		while ((n = frame_parse(in.data, in.len, &f)) == 0 && read_some(fd, &in) > 0)
			;
		if (n <= 0 || serve(&f, &answer))
			break;
		(void)!write_all(fd, answer.data, answer.len);
		in.len -= (size_t)n;
		memmove(in.data, in.data + n, in.len);
	}
	close(fd);
	trouble = n ? "plexusd sent what this shim does not understand; are both of one release?" :
		  orders_received ? "plexusd went away during the call" :
		  "it closed the connection before its first order";
	return n ? MISUNDERSTOOD : orders_received ? LOST : NOTHING_DONE;
}

/* Tries the daemon once. Another user than root behind its socket could make us run anything. */
enum ending engine_daemon(const struct buf *request)
{
	const char *path = setting("PLEXUS_SOCKET", SOCKET_PATH);
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = 5 };
	struct ucred peer = { .uid = (uid_t)-1 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof to.sun_path)
		fail(4, "PLEXUS_SOCKET is longer than %zu bytes", sizeof to.sun_path - 1);
	strcpy(to.sun_path, path);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* full backlog: EAGAIN */
	if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
		trouble = why(errno);
		close(fd);
		return NOTHING_DONE;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &(socklen_t){ sizeof peer }) || peer.uid)
		fail(999, "refused to talk to %s: its owner has uid %d, not root's", path, (int)peer.uid);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ 0 }, sizeof patience);
	return converse(fd, request);
}

/* Starts the one-shot engine, where one is installed that is root's, with its end of a socketpair as
 * fd 3. */
enum ending engine_standalone(const struct buf *request)
{
	const char *path = setting("PLEXUS_STANDALONE", STANDALONE_PATH);
	enum ending ending;
	struct stat st;
	int pair[2];

	if (stat(path, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 0111) || st.st_uid || st.st_mode & 022)
		return NOTHING_DONE;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) ||
	    launch((char *)path, (int[]){ 0, 2, 2, pair[1] }, 4, NULL) < 0)
		fail(5, "cannot start %s: %s", path, why(errno));
	close(pair[1]);
	ending = converse(pair[0], request);
	if (ending != NOTHING_DONE)
		return ending;
	trouble = "plexus-standalone ended before its first order";
	return LOST;
}
