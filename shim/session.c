/* SPDX-License-Identifier: Apache-2.0
 * The session with an engine: a daemon behind a socket, or a process of our own. */
#include <sys/un.h>
#include <sys/wait.h>
#include "shim.h"

/* Waits for more of the conversation. Returns how it ended, if it did: nobody waits for ever for an engine
 * that hangs. */
static enum session_end read_more(struct call *call, int fd, struct buf *in, int64_t deadline)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, caller_end(call) };
	int64_t left = (deadline - now_us() + 999) / 1000;
	bool is_silent = !poll(p, 2, deadline < 0 ? -1 : left > 0 ? (int)left : 0);

	if (p[1].revents)
		end_by_signal(SIGTERM);
	if (!is_silent && read_some(fd, in) > 0)
		return SESSION_OPEN;
	if (call->orders)
		call->trouble = is_silent ? "plexusd fell silent during the call" : "plexusd went away during the call";
	else
		call->trouble = is_silent ? "it did not answer in time" :
			"it closed the connection before its first order";
	return call->orders ? SESSION_LOST : SESSION_UNREACHABLE;
}

/* Sends the request and serves orders to the end. A limit of 0 is none. */
static enum session_end converse(struct call *call, int fd, const struct buf *request)
{
	int silence_ms = setting_ms("PLEXUS_SILENCE_MS", 30000);
	struct timeval patience = { silence_ms / 1000, silence_ms % 1000 * 1000 };
	enum session_end end = SESSION_OPEN;
	struct buf in = { 0 };
	struct frame f;
	int64_t deadline;
	ssize_t size;

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	(void)!write_all(fd, request->data, request->len);
	deadline = silence_ms ? now_us() + silence_ms * 1000LL : -1;
	while (end == SESSION_OPEN) {
		size = frame_parse(in.data, in.len, &f);
		if (size < 0) {
			end = SESSION_MISUNDERSTOOD;
		} else if (size == 0) {
			end = read_more(call, fd, &in, deadline);
		} else {
			end = orders_serve(call, fd, &f);
			buf_drop(&in, (size_t)size);
			deadline = silence_ms ? now_us() + silence_ms * 1000LL : -1;
		}
	}
	if (end == SESSION_MISUNDERSTOOD)
		call->trouble = "plexusd sent what this shim does not understand; are both of one release?";
	buf_free(&in);
	close(fd);
	return end;
}

/* Tries the daemon once. Another user than root behind its socket could make us run anything. */
enum session_end session_with_daemon(struct call *call, const struct buf *request)
{
	const char *path = setting("PLEXUS_SOCKET", SOCKET_PATH);
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = 5 };
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t peer_size = sizeof peer;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof to.sun_path)
		fail(call, CNI_INVALID_ENVIRONMENT, "PLEXUS_SOCKET is longer than %d bytes",
		     (int)sizeof to.sun_path - 1);
	strcpy(to.sun_path, path);
	if (fd < 0) {
		call->trouble = errno_text(errno);
		return SESSION_UNREACHABLE;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* full backlog: EAGAIN */
	if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
		call->trouble = errno_text(errno);
		close(fd);
		return SESSION_UNREACHABLE;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) || peer.uid)
		fail(call, CNI_INTERNAL, "refused to talk to %s: its owner has uid %d, not root's", path,
		     (int)peer.uid);
	return converse(call, fd, request);
}

/* Starts the one-shot engine, where one is installed that root alone can change, with its end of a
 * socket pair as fd 3. One that did not answer is ended before anything else is done. */
enum session_end session_with_standalone(struct call *call, const struct buf *request)
{
	const char *path = setting("PLEXUS_STANDALONE", STANDALONE_PATH);
	enum session_end end;
	struct stat file;
	int pair[2];
	pid_t pid;

	if (stat(path, &file) || !S_ISREG(file.st_mode) || !(file.st_mode & 0111))
		return SESSION_UNREACHABLE;
	if (file.st_uid || file.st_mode & 022)
		return SESSION_UNREACHABLE;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		fail(call, CNI_IO_FAILURE, "cannot start %s: %s", path, errno_text(errno));
	pid = spawn(call, path, (int[]){ 0, 2, 2, pair[1] }, 4, NULL);
	if (pid < 0)
		fail(call, CNI_IO_FAILURE, "cannot start %s: %s", path, errno_text(errno));
	close(pair[1]);
	end = converse(call, pair[0], request);
	if (end == SESSION_ANSWERED)
		return end;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (end != SESSION_UNREACHABLE)
		return end;
	call->trouble = "plexus-standalone ended before its first order, or did not answer in time";
	return SESSION_LOST;
}
