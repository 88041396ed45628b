/* SPDX-License-Identifier: Apache-2.0
 * `plexus agent`: carries out the engine's orders where no call of the runtime is under way, such as the
 * DELs of what was left over. It has no container of its own, so that its orders obey the rules of a DEL
 * of none. It takes no lock: the engine uses it only for sandboxes with no call under way. */
#include "shim.h"

#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 10000

/* Process 1 of a container is ended by no signal that it does not handle. */
static void on_sigterm(int number)
{
	(void)number;
	_exit(0);
}

/* Serves plexusd, and connects again whenever it goes away, until SIGTERM. */
_Noreturn void agent(struct call *call)
{
	static const char *const of_a_container[] = {
		"CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS", "CNI_NETNS_OVERRIDE",
	};
	const char *last = "";
	int pause_ms = PAUSE_MIN_MS;
	struct buf request = { 0 };

	signal(SIGTERM, on_sigterm);
	for (size_t i = 0; i < sizeof of_a_container / sizeof *of_a_container; i++)
		unsetenv(of_a_container[i]);
	setenv("CNI_COMMAND", "AGENT", 1);
	call_init(call);
	call_request(call, &request);
	for (;;) {
		call->orders = 0;
		call->trouble = "plexusd has ended the conversation";
		session_with_daemon(call, &request);
		if (call->trouble != last)
			fprintf(stderr, "plexus agent: %s; connecting again\n", call->trouble);
		last = call->trouble;
		if (call->orders)
			pause_ms = PAUSE_MIN_MS;
		usleep((useconds_t)pause_ms * 1000);
		pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
	}
}
