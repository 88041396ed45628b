/* SPDX-License-Identifier: Apache-2.0
 * plexus, as the container runtime calls it: carries the call to an engine and carries out the
 * engine's orders. It decides nothing but what to do when there is no engine. */
#include <locale.h>
#include "shim.h"

#define STDIN_CAP (8u << 20)
#define VERSION_STDIN_MS 500
#define VERSIONS(to) "0.1.0" to "0.2.0" to "0.3.0" to "0.3.1" to "0.4.0" to "1.0.0" to "1.1.0"

/* The one frame that the shim sends unasked: the input and the CNI variables. */
static void build_request(struct buf *request, const struct buf *conf, int64_t start_us)
{
	struct frame f = { .count = 2, .fields = { text(PROTOCOL_VERSION), CONTENT(*conf) } };
	int netns = netns_open(setting("CNI_NETNS", ""));
	static struct buf trace;

	if (netns >= 0 && is_file(netns, OWN_NETNS))
		f.fields[f.count++] = text("PLEXUS_NETNS_IS_OWN=1");
	if (getenv("PLEXUS_TRACE"))
		f.fields[f.count++] = text(buf_print(&trace, "PLEXUS_STARTED_US=%lld", (long long)start_us));
	for (char **e = environ; *e; e++) {
		if (strncmp(*e, "CNI_", 4) && strncmp(*e, "PLEXUS_TRACE=", 13))
			continue;
		if (f.count == FIELDS_MAX)
			fail(4, "there are more than %d CNI variables", FIELDS_MAX - 5);
		f.fields[f.count++] = text(*e);
	}
	frame_write(request, FRAME_REQUEST, f.fields, f.count);
	close(netns);
}

/* Talks to an engine. Only ADD waits for one: its pod cannot start without, while DEL has its plan
 * and the others are asked again anyway. */
static enum ending find_engine(const struct buf *request, int wait_ms)
{
	int64_t deadline = now_us() + wait_ms * 1000LL;
	enum ending ending = engine_daemon(request);

	if (ending == NOTHING_DONE)
		ending = engine_standalone(request);
	while (ending == NOTHING_DONE && now_us() < deadline) {
		usleep(50000);
		ending = engine_daemon(request);
	}
	return ending;
}

/* What is left to do without an engine that saw the call through. */
static int end_alone(const char *command, enum ending ending, int waited_ms)
{
	const char *problem = sandbox_problem(command);
	static struct buf why_not;
	int code;

	if (problem && !orders_received)
		fail(4, "%s", problem);
	if (!strcmp(command, "DEL")) {
		code = plan_replay(&why_not);
		if (code)
			fail(code, "could not detach: %s", why_not.data);
		return 0;
	}
	if (ending == NOTHING_DONE)
		fail(strcmp(command, "STATUS") ? 11 : 50,
		     "cannot reach plexusd on %s after %d ms: %s; is the plexus DaemonSet running on this "
		     "node?", setting("PLEXUS_SOCKET", SOCKET_PATH), waited_ms, trouble);
	if (strcmp(command, "ADD") || !orders_received)
		fail(ending, "%s", trouble);
	if (plan_replay(&why_not))
		fail(ending, "%s; could not detach again what was attached: %s", trouble, why_not.data);
	fail(ending, "%s; what was attached has been detached again", trouble);
}

int main(int argc, char **argv)
{
	int64_t start_us = clock_us(CLOCK_REALTIME);
	static struct buf conf, request;
	const char *command = setting("CNI_COMMAND", "");
	int is_version = !strcmp(command, "VERSION"), wait_ms = 0;

	launch_prepare();
	setlocale(LC_CTYPE, "C.UTF-8"); /* for fail */
	if (argc > 1 && !strcmp(argv[1], "--version"))
		return printf("plexus " PLEXUS_VERSION " (" PLEXUS_COMMIT ")\n") < 0 || fflush(stdout);
	if (!*command)
		return fputs("plexus " PLEXUS_VERSION ": attaches pods to several networks\n"
			     "CNI protocol versions supported: " VERSIONS(", ") "\n", stderr) < 0;
	if (read_all(0, &conf, STDIN_CAP, is_version ? VERSION_STDIN_MS : -1))
		fail(5, "cannot read stdin: %s", why(errno));
	find_version(conf.data);
	if (conf.len > STDIN_CAP)
		fail(5, "stdin holds more than %u MiB", STDIN_CAP >> 20);
	if (is_version)
		return printf("{\"cniVersion\":\"%s\",\"supportedVersions\":[\"" VERSIONS("\",\"") "\"]}\n",
			      cni_version) < 0 || fflush(stdout);
	sandbox_lock(command);
	build_request(&request, &conf, start_us);
	if (!strcmp(command, "ADD") && !sandbox_problem(command))
		wait_ms = setting_ms("PLEXUS_WAIT_MS", 10000);
	return end_alone(command, find_engine(&request, wait_ms), wait_ms);
}
