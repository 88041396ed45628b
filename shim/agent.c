/* SPDX-License-Identifier: Apache-2.0
 * `plexus agent [--once] [--mount-namespace=FILE]`: carries out the engine's orders outside of calls of the runtime, such
 * as DELs of leftovers. It locks a sandbox only while a delegate detaches it. --once has all leftovers
 * detached now and prints the answer. --mount-namespace is for a container: plugins then find executables, files and
 * network namespaces where the runtime's plugins find them. */
#include <sched.h>
#include "shim.h"

#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 10000

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

/* Carries out the options. Returns whether --once is one of them. */
static bool read_options(char *const options[])
{
	static const char mount[] = "--mount-namespace=";
	bool is_once = false;
	for (; *options; options++) {
		if (!strcmp(*options, "--once")) {
			is_once = true;
		} else if (!strncmp(*options, mount, sizeof mount - 1)) {
			const char *path = *options + sizeof mount - 1;
			int fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd < 0 || setns(fd, CLONE_NEWNS))
				end(path, errno_text(errno));
			close(fd);
		} else {
			end(*options, "unknown option; usage: plexus agent [--once] [--mount-namespace=FILE]");
		}
	}
	return is_once;
}

/* Serves plexusd until SIGTERM. Reconnects with backoff. */
_Noreturn static void serve(struct call *call)
{
	const char *last = "";
	signal(SIGTERM, on_sigterm);
	for (int pause_ms = PAUSE_MIN_MS;; pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS) {
		call->orders = 0;
		call->trouble = "plexusd ended the session";
		session_with_daemon(call);
		if (call->trouble != last)
			say(2, "plexus agent: %s; reconnecting\n", call->trouble);
		last = call->trouble;
		if (call->orders)
			pause_ms = PAUSE_MIN_MS;
		usleep((useconds_t)pause_ms * 1000);
	}
}

_Noreturn void agent(struct call *call, char *const options[])
{
	static const char *const container_variables[] = {
		"CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS", "CNI_NETNS_OVERRIDE",
	};
	bool is_once = read_options(options);
	for (size_t i = 0; i < sizeof container_variables / sizeof *container_variables; i++)
		unsetenv(container_variables[i]);
	setenv("CNI_COMMAND", "AGENT", 1);
	setenv("PLEXUS_AGENT", is_once ? "once" : "", 1);
	call_init(call);
	session_request(call);
	if (!is_once) {
		setenv("PLEXUS_SILENCE_MS", "0", 1);
		serve(call);
	}
	enum session_end ended = session_with_daemon(call);
	if (ended != SESSION_ANSWERED)
		end(ended == SESSION_UNREACHABLE ? "cannot reach plexusd" : "not all leftovers were tried", call->trouble);
	exit(call->exit_status);
}
