/* SPDX-License-Identifier: Apache-2.0
 * The session with an engine: a daemon behind a socket, or a process of our own. */
#include <sys/un.h>
#include <sys/wait.h>
#include "shim.h"

/* Prints the engine's answer: exit status, stdout and stderr of the call. */
static enum session_end finish(struct call *call, const struct frame *f)
{
	int status = f->count == 3 ? field_number(f->fields[0]) : -1;

	if (status < 0 || status > 255)
		return SESSION_MISUNDERSTOOD;
	(void)!write_all(2, f->fields[2].data, f->fields[2].len);
	if (write_all(1, f->fields[1].data, f->fields[1].len) && !status)
		status = 1; /* without its result an ADD has not succeeded */
	call->exit_status = status;
	return SESSION_ANSWERED;
}

static void answer_exec(struct call *call, const struct frame *f, struct buf *answer)
{
	struct exec_result *r = &call->result;
	char code[NUMBER_SIZE], elapsed[NUMBER_SIZE];

	exec_order(call, f, field_number(f->fields[EXEC_TIMEOUT]));
	frame_write(answer, FRAME_EXEC_RESULT, (struct field[]){
		text(r->outcome), number(code, r->code), content(&r->output), content(&r->errors),
		text(r->message), number(elapsed, r->elapsed_us) }, 6);
}

static void answer_netlink(struct call *call, const struct frame *f, struct buf *answer)
{
	struct buf reply = { 0 };
	const char *message, *stage;
	char error[NUMBER_SIZE];

	number(error, netlink_order(call, f, &reply, &message, &stage));
	frame_write(answer, FRAME_NETLINK_RESULT, (struct field[]){
		text(error), content(&reply), text(message), text(stage) }, 4);
	buf_free(&reply);
}

static void answer_find(const struct call *call, const struct frame *f, struct buf *answer)
{
	struct field results[2 * FIND_MAX] = { 0 };
	struct buf whys[FIND_MAX] = { 0 };
	char path[PATH_SIZE], message[PATH_SIZE];
	const char *outcome;
	int types = f->count - 1;

	for (int i = 0; i < types; i++) {
		*message = '\0';
		outcome = plugin_find(call, f->fields[i + 1], f->fields[0].data, path, message);
		buf_print(&whys[i], "%s", strcmp(outcome, "found") ? message : "");
		results[2 * i] = text(outcome);
		results[2 * i + 1] = content(&whys[i]);
	}
	frame_write(answer, FRAME_FIND_RESULT, results, 2 * types);
	for (int i = 0; i < types; i++)
		buf_free(&whys[i]);
}

/* Carries out one order and sends its answer. A write that fails is not an error by itself: the
 * engine may have sent DONE before it went away, and if it has not, the next read shows it. */
static enum session_end serve(struct call *call, int fd, const struct frame *f)
{
	struct buf answer = { 0 };

	if (f->type == FRAME_DONE)
		return finish(call, f);
	if (is_exec(f))
		answer_exec(call, f, &answer);
	else if (f->type == FRAME_NETLINK && f->count == 2 && is_text(f->fields[0]))
		answer_netlink(call, f, &answer);
	else if (f->type == FRAME_FIND && f->count >= 1 && f->count <= 1 + FIND_MAX && is_text(f->fields[0]))
		answer_find(call, f, &answer);
	else
		return SESSION_MISUNDERSTOOD;
	if (f->type != FRAME_FIND)
		call->orders++;
	(void)!write_all(fd, answer.data, answer.len);
	buf_free(&answer);
	return SESSION_OPEN;
}

/* Waits for more of the conversation. Returns how it ended, if it did: nobody waits for ever for an engine
 * that hangs. */
static enum session_end listen_on(struct call *call, int fd, struct buf *in, int64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left = (deadline - now_us() + 999) / 1000;
	bool is_silent = !poll(&p, 1, deadline < 0 ? -1 : left > 0 ? (int)left : 0);

	if (!is_silent && read_some(fd, in) > 0)
		return SESSION_OPEN;
	if (call->orders)
		call->trouble = is_silent ? "plexusd fell silent during the call" : "plexusd went away during the call";
	else
		call->trouble = is_silent ? "it did not answer in time" :
			"it closed the connection before its first order";
	return call->orders ? SESSION_LOST : SESSION_UNREACHABLE;
}

/* Sends the request and serves orders to the end. An agent is silent company: it waits for ever. */
static enum session_end converse(struct call *call, int fd, const struct buf *request)
{
	int silence_ms = call_is(call, "AGENT") ? 0 : setting_ms("PLEXUS_SILENCE_MS", 30000);
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
			end = listen_on(call, fd, &in, deadline);
		} else {
			end = serve(call, fd, &f);
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
		fail(call, CNI_INVALID_ENVIRONMENT, "PLEXUS_SOCKET is longer than %zu bytes",
		     sizeof to.sun_path - 1);
	strcpy(to.sun_path, path);
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
