/* SPDX-License-Identifier: Apache-2.0
 * The session with an engine (a daemon behind a socket, or standalone.c) and its orders. */
#include "shim.h"

static enum session_end finish(struct call *call, const struct frame *f)
{
	int status = f->count == 3 ? field_number(f->fields[0]) : -1;
	if (status < 0 || status > 255)
		return SESSION_MISUNDERSTOOD;
	if (status == DECLINED && !call->is_begun) {
		call->declined.len = 0;
		buf_add(&call->declined, f->fields[1].data, f->fields[1].len);
		call->trouble = "it cannot serve the call now, or is of another release";
		return SESSION_UNREACHABLE;
	}
	(void)!write_all(2, f->fields[2].data, f->fields[2].len);
	if (write_all(1, f->fields[1].data, f->fields[1].len) && !status)
		status = 1; /* an ADD has not succeeded if the runtime lacks its result */
	call->exit_status = status;
	return SESSION_ANSWERED;
}

static void answer_exec(struct call *call, const struct frame *f, struct buf *answer)
{
	struct exec_result *r = &call->result;
	const char *command = order_variable(f, "CNI_COMMAND");
	char code[NUMBER_SIZE], elapsed[NUMBER_SIZE];
	call->is_begun = call->is_begun || !call_is(call, "ADD") || !strcmp(command, "ADD");
	if (!strcmp(command, "DEL"))
		lock_share(call);
	exec_order(call, f, field_number(f->fields[EXEC_TIMEOUT]));
	frame_write(answer, FRAME_EXEC_RESULT, (struct field[]){
		text(r->outcome), number(code, r->code), content(&r->output), content(&r->errors),
		content(&r->message), number(elapsed, r->elapsed_us) }, 6);
}

static void answer_netlink(const struct call *call, const struct frame *f, struct buf *answer)
{
	struct netlink_result r = { 0 };
	char code[NUMBER_SIZE];
	netlink_order(call, f, &r);
	frame_write(answer, FRAME_NETLINK_RESULT, (struct field[]){
		number(code, r.error), content(&r.reply), text(r.message), text(r.stage) }, 4);
	buf_free(&r.reply);
}

static void answer_occupants(const struct call *call, const struct frame *f, struct buf *answer)
{
	struct buf names = { 0 };
	plan_occupants(call, f->fields[0].data, &names);
	frame_write(answer, FRAME_OCCUPANTS_RESULT, (struct field[]){ content(&names) }, 1);
	buf_free(&names);
}

static void answer_find(const struct call *call, const struct frame *f, struct buf *answer)
{
	struct field results[2 * FIND_MAX] = { 0 };
	struct buf messages[FIND_MAX] = { 0 };
	char path[PATH_SIZE];
	int types = f->count - 1;
	for (int i = 0; i < types; i++) {
		const char *outcome = plugin_find(call, f->fields[i + 1], f->fields[0].data, path, &messages[i]);
		results[2 * i] = text(outcome ? outcome : "found");
		if (outcome)
			results[2 * i + 1] = content(&messages[i]);
	}
	frame_write(answer, FRAME_FIND_RESULT, results, 2 * types);
	for (int i = 0; i < types; i++)
		buf_free(&messages[i]);
}

/* Notes the first required plugin that may not be run, for the next EXEC. */
static void require(struct call *call, const struct frame *f)
{
	char path[PATH_SIZE];
	for (int i = 1; i < f->count && !call->unmet; i++) {
		call->unmet_message.len = 0;
		call->unmet = plugin_find(call, f->fields[i], f->fields[0].data, path, &call->unmet_message);
	}
}

static int limit_writes(int fd, int ms)
{
	struct timeval patience = { ms / 1000, ms % 1000 * 1000 };
	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

/* Gives an agent's session its sandbox, without which it ends. */
static enum session_end answer_sandbox(struct call *call, int fd, const struct frame *f, struct buf *answer)
{
	static struct buf links;
	const char *problem, *outcome = agent_enter(call, f, &links, &problem);
	limit_writes(fd, call->silence_ms);
	frame_write(answer, FRAME_SANDBOX_RESULT, (struct field[]){ text(outcome), text(problem), content(&links) }, 3);
	return *problem ? SESSION_ANSWERED : SESSION_OPEN;
}

/* Carries out one order and sends its answer. If the write fails, the engine may have sent DONE before it left. */
static enum session_end serve_order(struct call *call, int fd, const struct frame *f)
{
	struct buf answer = { 0 };
	enum session_end end = SESSION_OPEN;
	if (f->type == FRAME_DONE)
		return finish(call, f);
	agent_busy(call);
	bool is_search = f->count >= 1 && is_text(f->fields[0]);
	if (is_exec(f))
		answer_exec(call, f, &answer);
	else if (f->type == FRAME_ALIVE)
		call->sends_alive = true;
	else if (f->type == FRAME_REQUIRE && is_search)
		require(call, f);
	else if (f->type == FRAME_NETLINK && f->count == 2 && is_text(f->fields[0]))
		answer_netlink(call, f, &answer);
	else if (f->type == FRAME_OCCUPANTS && is_search && f->count == 1)
		answer_occupants(call, f, &answer);
	else if (f->type == FRAME_FIND && is_search && f->count <= 1 + FIND_MAX)
		answer_find(call, f, &answer);
	else if (f->type == FRAME_SANDBOX && (f->count == 3 || f->count == 4) && call->is_agent && call_is(call, "AGENT"))
		end = answer_sandbox(call, fd, f, &answer);
	else
		return SESSION_MISUNDERSTOOD;
	(void)!write_all(fd, answer.data, answer.len);
	buf_free(&answer);
	return end;
}

void session_request(struct call *call)
{
	static const char *const states[] = {
		[NETNS_OK] = "PLEXUS_NETNS=ok", [NETNS_OK_PROCESS] = "PLEXUS_NETNS=ok", [NETNS_OWN] = "PLEXUS_NETNS=own",
		[NETNS_GONE] = "PLEXUS_NETNS=gone", [NETNS_UNKNOWN] = "PLEXUS_NETNS=unknown",
	};
	struct frame f = { .count = 2, .fields = { text(PROTOCOL_VERSION), content(&call->conf) } };
	char started[64], digits[NUMBER_SIZE];
	static struct buf links, process;
	buf_print(&links, "PLEXUS_LINKS=");
	buf_print(&process, "PLEXUS_NETNS_PROCESS=");
	size_t none = links.len;
	enum netns state = netns_inspect(call, call->netns, call_is(call, "ADD") ? &links : NULL);
	if (*call->netns)
		f.fields[f.count++] = text(states[state]);
	if (links.len > none)
		f.fields[f.count++] = content(&links);
	if (state == NETNS_OK_PROCESS) {
		netns_process(call->netns, &process);
		f.fields[f.count++] = content(&process);
	}
	if (getenv("PLEXUS_TRACE") || call_is(call, "GC") || call_is(call, "DEL")) {
		print(started, sizeof started, "PLEXUS_STARTED_MONOTONIC_US=%s", number(digits, call->started_us).data);
		f.fields[f.count++] = text(started);
	}
	if (call->busy.len)
		f.fields[f.count++] = content(&call->busy);
	f.fields[f.count++] = text("PLEXUS_ALIVE=yes");
	for (char **e = environ; *e; e++) {
		bool is_kind = call->is_agent && !strncmp(*e, "PLEXUS_AGENT=", 13) && (*e)[13];
		if (!is_kind && strncmp(*e, "CNI_", 4) && strncmp(*e, "PLEXUS_TRACE=", 13))
			continue;
		if (f.count == FIELDS_MAX)
			fail(call, CNI_INVALID_ENVIRONMENT, "there are more than %d CNI variables", FIELDS_MAX - 7);
		f.fields[f.count++] = text(*e);
	}
	frame_write(&call->request, FRAME_REQUEST, f.fields, f.count);
}

/* Waits for more of the session. Returns how it ended, if it did. The wait is bounded, as an engine may hang. */
static enum session_end read_more(struct call *call, int fd, struct buf *in, int64_t heard)
{
	int silence_ms = call->sends_alive && call->silence_ms > ALIVE_MS ? ALIVE_MS : call->silence_ms;
	static const char *const troubles[2][2] = {
		{ "it closed the connection early", "it did not answer in time" },
		{ "plexusd closed the connection during the call", "plexusd stopped answering during the call" },
	};
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, caller_end(call) };
	bool is_silent = !poll(p, 2, silence_ms ? ms_until(heard + silence_ms * 1000LL) : -1);
	if (p[1].revents)
		end_by_signal(SIGTERM);
	if (!is_silent && read_some(fd, in) > 0)
		return SESSION_OPEN;
	call->is_silent = is_silent;
	call->trouble = troubles[call->is_begun][is_silent];
	return call->is_begun ? SESSION_LOST : SESSION_UNREACHABLE;
}

enum session_end converse(struct call *call, int fd)
{
	enum session_end end = SESSION_OPEN;
	struct buf in = { 0 };
	struct frame f;
	limit_writes(fd, call->silence_ms);
	(void)!write_all(fd, call->request.data, call->request.len);
	buf_add(&in, "", 0);
	int64_t heard = now_us();
	call->is_silent = false;
	while (end == SESSION_OPEN) {
		ssize_t size = frame_parse(in.data, in.len, &f);
		if (size < 0) {
			end = SESSION_MISUNDERSTOOD;
		} else if (size == 0) {
			end = read_more(call, fd, &in, heard);
		} else {
			end = serve_order(call, fd, &f);
			in.len -= (size_t)size;
			memmove(in.data, in.data + size, in.len);
			heard = now_us();
		}
	}
	if (end == SESSION_MISUNDERSTOOD)
		call->trouble = "plexusd sent a frame that this shim does not know; install both from one release";
	call->unmet = NULL; /* what it required is for its own orders */
	buf_free(&in);
	close(fd);
	return end;
}

/* Connects to an engine. Its socket must be root's, as an engine can make the shim run plugins. Returns -1 if there is none. */
int connect_to(struct call *call, const char *path, pid_t *listener)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t peer_size = sizeof peer;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	print(to.sun_path, sizeof to.sun_path, "%s", path);
	if (fd < 0 || limit_writes(fd, 5000) || /* full backlog: EAGAIN */
	    connect(fd, (struct sockaddr *)&to, sizeof to)) {
		int error = errno;
		call->trouble = errno_text(error);
		close(fd);
		errno = error;
		return -1;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) || peer.uid)
		fail(call, CNI_INTERNAL, "refused to connect to %s: its owner has uid %d, not 0", path,
		     (int)peer.uid);
	*listener = peer.pid;
	return fd;
}

/* Tries the daemon once. */
enum session_end session_with_daemon(struct call *call)
{
	const char *path = setting("PLEXUS_SOCKET", SOCKET_PATH);
	if (strlen(path) >= SOCKET_PATH_SIZE)
		fail(call, CNI_INVALID_ENVIRONMENT, "PLEXUS_SOCKET is longer than %d bytes", SOCKET_PATH_SIZE - 1);
	pid_t listener;
	int fd = connect_to(call, path, &listener);
	call->sends_alive = false;
	return fd < 0 ? SESSION_UNREACHABLE : converse(call, fd);
}
