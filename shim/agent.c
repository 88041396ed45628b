/* SPDX-License-Identifier: Apache-2.0
 * `plexus agent [--once | --attach] [--any-owner] [--mount-namespace=FILE]`: carries out the engine's orders outside of
 * calls of the runtime, such as DELs of leftovers. --once has all of them detached now and prints the answer. With --attach,
 * the engine may also change the networks of a running sandbox, which stays locked meanwhile. --any-owner: see trust.c.
 * --mount-namespace is for a container: plugins then find all files where the runtime's plugins find them.
 *
 * With --attach, each session is a process. One waits for its first order, and then serves only that task, so that no
 * sandbox waits for another one's plugins. */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "shim.h"

#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 10000
#define ATTACH_PAUSE_MAX_MS 1000 /* an edit of a pod waits for it */
#define SESSIONS_MAX 32

/* Process 1 of a container ends only on signals that it handles. */
static void on_sigterm(int number)
{
	(void)number;
	_exit(0);
}

_Noreturn static void end(const char *subject, const char *problem)
{
	say(2, "plexus agent: %s: %s\n", subject, problem);
	exit(1);
}

#define USAGE "usage: plexus agent [--once | --attach] [--any-owner] [--mount-namespace=FILE]"

/* Returns the kind of agent, as in PLEXUS_AGENT. */
static const char *read_options(struct call *call, char *const options[])
{
	static const char mount[] = "--mount-namespace=";
	const char *kind = "";
	call->checks_owners = true;
	for (; *options; options++) {
		if (!strcmp(*options, "--once") || !strcmp(*options, "--attach")) {
			kind = *options + 2;
		} else if (!strcmp(*options, "--any-owner")) {
			call->checks_owners = false;
		} else if (!strncmp(*options, mount, sizeof mount - 1)) {
			const char *path = *options + sizeof mount - 1;
			int fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd < 0 || setns(fd, CLONE_NEWNS))
				end(path, errno_text(errno));
			close(fd);
		} else if (!strcmp(*options, "--help")) {
			exit(say(1, "plexus agent: carries out plexusd's DELs of leftovers; --attach: and hot-plug\n" USAGE
				 "\n") ? 1 : 0);
		} else {
			end(*options, "unknown option; " USAGE);
		}
	}
	return kind;
}

/* Keeps one session that waits for an order. Returns in the process of each session, which ends with the agent. */
static void keep_session(struct call *call)
{
	pid_t agent = getpid(), session;
	int pair[2] = { -1, -1 }, sessions = 0;
	char order;
	for (;;) {
		if (pipe2(pair, O_CLOEXEC))
			end("cannot start a session", errno_text(errno));
		session = fork();
		close(pair[session == 0 ? 0 : 1]);
		if (session == 0) {
			call->idle = pair[1];
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != agent)
				_exit(1);
			return;
		}
		sessions += session > 0;
		if (read(pair[0], &order, 1) != 1) /* it ended without an order, or could not be started */
			usleep(PAUSE_MAX_MS * 1000);
		close(pair[0]);
		while (waitpid(-1, NULL, sessions < SESSIONS_MAX ? WNOHANG : 0) > 0)
			sessions--;
	}
}

/* Tells the agent that this session has an order, so that another session waits for the next one. */
void agent_busy(struct call *call)
{
	if (call->idle < 0)
		return;
	(void)!write(call->idle, "", 1);
	close(call->idle);
	call->idle = -1;
}

/* Serves plexusd until SIGTERM. Reconnects with backoff. A session of many ends after its task. */
_Noreturn static void serve(struct call *call)
{
	const char *last = "";
	bool is_one_of_many = call->idle >= 0;
	int max_ms = is_one_of_many ? ATTACH_PAUSE_MAX_MS : PAUSE_MAX_MS;
	for (int pause_ms = PAUSE_MIN_MS;; pause_ms = pause_ms * 2 < max_ms ? pause_ms * 2 : max_ms) {
		call->is_begun = false;
		call->trouble = "plexusd ended the session";
		session_with_daemon(call);
		if (is_one_of_many && call->idle < 0)
			exit(0);
		if (call->trouble != last)
			say(2, "plexus agent: %s; reconnecting\n", call->trouble);
		last = call->trouble;
		if (call->is_begun)
			pause_ms = PAUSE_MIN_MS;
		usleep((useconds_t)pause_ms * 1000);
	}
}

/* Locks the sandbox of a SANDBOX order, for which the session's further orders then are. Returns the outcome. Each but `ok`
 * has a problem. The names come from a plexusd that may be compromised. */
const char *agent_enter(struct call *call, const struct frame *f, struct buf *links, const char **problem)
{
	static struct buf names[3]; /* in memory that lasts */
	enum netns netns;
	*problem = "plexus agent runs without --attach";
	if (strcmp(setting("PLEXUS_AGENT", ""), "attach"))
		return "refused";
	for (int i = 0; i < 3; i++)
		buf_add(&names[i], f->fields[i].data, f->fields[i].len);
	call->command = "ADD";
	call->container_id = names[0].data;
	call->ifname = names[1].data;
	call->netns = names[2].data;
	call->silence_ms = setting_ms("PLEXUS_SILENCE_MS", SILENCE_MS);
	call_check(call);
	if (call->problem.len) {
		*problem = call->problem.data;
		return "refused";
	}
	*problem = "another operation on the sandbox runs, or garbage collection";
	if (!lock_try(call, f->count > 3 && field_is(f->fields[3], "inspect")))
		return "busy";
	*problem = "the sandbox cannot be locked, as its lock file cannot be created";
	if (call->lock < 0)
		return "refused";
	*problem = "the sandbox has no whole record with this network namespace, or its DEL has begun";
	if (!plan_is_live(call) || (netns = netns_inspect(call, call->netns, links)) == NETNS_GONE)
		return "gone";
	*problem = "the path is not where a pod's network namespace is mounted, or its interfaces cannot be listed";
	if (netns != NETNS_OK || !links->len || !is_mounted_at(call->netns))
		return "refused";
	*problem = "";
	return "ok";
}

_Noreturn void agent(struct call *call, char *const options[])
{
	static const char *const container_variables[] = {
		"CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS", "CNI_NETNS_OVERRIDE",
	};
	const char *kind = read_options(call, options);
	for (size_t i = 0; i < sizeof container_variables / sizeof *container_variables; i++)
		unsetenv(container_variables[i]);
	setenv("CNI_COMMAND", "AGENT", 1);
	setenv("PLEXUS_AGENT", kind, 1);
	call_init(call);
	call->is_agent = true;
	session_request(call);
	if (strcmp(kind, "once")) {
		call->silence_ms = 0;
		signal(SIGTERM, on_sigterm);
		if (*kind)
			keep_session(call);
		serve(call);
	}
	enum session_end ended = session_with_daemon(call);
	if (ended != SESSION_ANSWERED)
		end(ended == SESSION_UNREACHABLE ? "cannot reach plexusd" : "not all leftovers were tried", call->trouble);
	exit(call->exit_status);
}
