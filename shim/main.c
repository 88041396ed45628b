/* SPDX-License-Identifier: Apache-2.0
 * plexus, as the container runtime calls it: carries the call to an engine, or ends it without one. */
#include "shim.h"

#define STDIN_CAP (8 << 20)
#define VERSION_STDIN_MS 500
#define STATUS_WAIT_MS 5000
#define PROBE_MS 4000
#define VERSIONS(to) "0.1.0" to "0.2.0" to "0.3.0" to "0.3.1" to "0.4.0" to "1.0.0" to "1.1.0"

static void read_conf(struct call *call)
{
	if (read_all(0, &call->conf, STDIN_CAP, call_is(call, "VERSION") ? VERSION_STDIN_MS : -1))
		fail(call, CNI_IO_FAILURE, "cannot read stdin: %s", errno_text(errno));
	call_find_version(call, call->conf.data);
	if (call->conf.len > STDIN_CAP)
		fail(call, CNI_IO_FAILURE, "stdin is longer than %d MiB", STDIN_CAP >> 20);
}

/* Tries both engines, until one serves the call. DEL and GC do not wait: a DEL has its plan, and a GC is repeated. A
 * STATUS waits, so that a restart of plexusd does not make the node unready. */
static enum session_end find_engine(struct call *call)
{
	int wait_ms = setting_ms("PLEXUS_WAIT_MS", 10000);
	if (call_is(call, "STATUS") && wait_ms > STATUS_WAIT_MS)
		wait_ms = STATUS_WAIT_MS;
	if (!call->problem.len && (call_attaches(call) || call_is(call, "STATUS")))
		call->wait_ms = wait_ms;
	int64_t deadline = now_us() + call->wait_ms * 1000LL;
	session_request(call);
	for (;;) {
		enum session_end end = session_with_daemon(call);
		if (end == SESSION_UNREACHABLE)
			end = session_with_standalone(call);
		if (end != SESSION_UNREACHABLE || !ms_until(deadline))
			return end;
		await_ms(call, call->standalone ? 500 : 50);
	}
}

/* Ends a call that no engine answered. A DEL can succeed, and an ADD that has begun is rolled back: by then, the engine has
 * replaced an earlier container's record. */
static void end_alone(struct call *call, enum session_end end)
{
	enum cni_error undone, code = end == SESSION_MISUNDERSTOOD ? CNI_INTERNAL
		: end == SESSION_UNREACHABLE && call_is(call, "STATUS") ? CNI_PLUGIN_NOT_AVAILABLE
		: CNI_TRY_AGAIN_LATER;
	bool is_del = call_is(call, "DEL"), is_add = call_is(call, "ADD");
	struct buf failures = { 0 };
	if (call->problem.len && !call->is_begun)
		fail(call, CNI_INVALID_ENVIRONMENT, "%s", call->problem.data);
	if (call->declined.len && end == SESSION_UNREACHABLE && !is_del)
		exit(write_all(1, call->declined.data, call->declined.len) ? 2 : 1);
	if (end == SESSION_UNREACHABLE && !is_del)
		fail(call, code, "cannot reach plexusd on %s after %d ms: %s; is the plexus DaemonSet "
		     "running on this node?", setting("PLEXUS_SOCKET", SOCKET_PATH), call->wait_ms, call->trouble);
	if (call->problem.len || !(is_del || (is_add && call->is_begun)))
		fail(call, code, "%s", call->trouble);
	undone = plan_replay(call, &failures);
	if (is_del && undone != CNI_OK)
		fail(call, undone, "could not detach: %s", failures.data);
	if (is_add && undone != CNI_OK)
		fail(call, code, "%s; could not roll back: %s", call->trouble, failures.data);
	if (is_add)
		fail(call, code, "%s; rolled back everything that was attached", call->trouble);
}

/* Asks a socket for a page, for the kubelet's probes. Returns the exit code. */
static int probe(struct call *call, const char *path, const char *page)
{
	static struct buf answer;
	pid_t listener;
	int fd = connect_to(call, path, &listener);
	if (fd < 0)
		return say(1, "%s: %s\n", path, call->trouble) || 1;
	say(fd, "GET %s HTTP/1.0\r\n\r\n", page);
	read_all(fd, &answer, CHUNK, PROBE_MS);
	const char *body = strstr(answer.data, "\r\n\r\n");
	say(1, "%s", body ? body + 4 : "no answer\n");
	return !body || strncmp(answer.data, "HTTP/1.", 7) || strncmp(answer.data + 8, " 200 ", 5);
}

int main(int argc, char **argv)
{
	static struct call call;
	call_init(&call);
	spawn_prepare();
	if (argc > 1 && !strcmp(argv[1], "--version"))
		return say(1, "plexus %s (%s)\n", PLEXUS_VERSION, PLEXUS_COMMIT) ? 1 : 0;
	if (argc > 1 && !strcmp(argv[1], "probe"))
		return argc == 4 ? probe(&call, argv[2], argv[3]) : say(2, "usage: plexus probe SOCKET PAGE\n") || 1;
	if (argc > 1 && !strcmp(argv[1], "netlink"))
		return netlink_here(&call);
	if (argc > 1 && !strcmp(argv[1], "agent"))
		agent(&call, argv + 2);
	if (!*call.command) {
		say(2, "plexus %s: attaches pods to several networks\n"
		    "CNI protocol versions supported: " VERSIONS(", ") "\n", PLEXUS_VERSION);
		return 0;
	}
	call_check(&call);
	bool is_del = call_is(&call, "DEL") && !call.problem.len;
	/* Before stdin, which may come late: until then, another DEL may end the sandbox, and an ADD make a later one. */
	if (is_del)
		plan_mark(&call);
	read_conf(&call);
	if (call_is(&call, "VERSION"))
		return say(1, "{\"cniVersion\":\"%s\",\"supportedVersions\":[\"" VERSIONS("\",\"") "\"]}\n",
			   call.cni_version) ? 1 : 0;
	lock_take(&call);
	enum session_end end = find_engine(&call);
	if (end != SESSION_ANSWERED)
		end_alone(&call, end);
	if (is_del)
		multus_clean(&call);
	return call.exit_status;
}
