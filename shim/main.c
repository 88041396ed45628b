/* SPDX-License-Identifier: Apache-2.0
 * plexus, as the container runtime calls it: carries the call to an engine and carries out the
 * engine's orders. It decides nothing but what to do when there is no engine. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "shim.h"

#define STDIN_CAP (8u << 20)
#define VERSION_STDIN_MS 500

static const char *const versions[] = { "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0" };

static void print_about(void)
{
	fprintf(stderr, "plexus %s: attaches pods to several networks\nCNI protocol versions supported: ",
		PLEXUS_VERSION);
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
		fprintf(stderr, "%s%s", i ? ", " : "", versions[i]);
	fputc('\n', stderr);
}

/* Answers VERSION with the input's version (CNI 1.0.0), for callers that give one soon. */
static int answer_version(void)
{
	static struct buf conf;

	buf_reserve(&conf, 0);
	conf.data[0] = '\0';
	if (!isatty(0) && !read_upto(0, &conf, STDIN_CAP, VERSION_STDIN_MS))
		find_version(conf.data);
	printf("{\"cniVersion\":\"%s\",\"supportedVersions\":[", cni_version);
	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
		printf("%s\"%s\"", i ? "," : "", versions[i]);
	puts("]}");
	return fflush(stdout) ? 1 : 0;
}

/* Descriptors 0 to 2 exist, so that no pipe gets their numbers; a vanished reader is an errno, and
 * children can be waited for, whatever the caller's signal settings were. */
static void prepare_process(void)
{
	sigset_t chld;
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= 2 && !fcntl(fd, F_SETFD, 0));
	if (fd > 2)
		close(fd);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &chld, NULL);
}

/* The one frame that the shim sends unasked: the input and the CNI variables. */
static void build_request(struct buf *request, const struct buf *conf)
{
	size_t start = frame_begin(request, FRAME_REQUEST);

	frame_field(request, PROTOCOL_VERSION, sizeof PROTOCOL_VERSION - 1);
	frame_field(request, conf->data, conf->len);
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "CNI_", 4) || !strncmp(*e, "PLEXUS_TRACE=", 13))
			frame_field(request, *e, strlen(*e));
	frame_end(request, start);
}

/* Talks to an engine. Only ADD waits for one: its pod cannot start without, while DEL has its plan
 * and the others are asked again anyway. */
static enum ending find_engine(const char *command, const struct buf *request, const char *reason[2])
{
	int64_t deadline = now_us() + (int64_t)setting_ms("PLEXUS_WAIT_MS", 10000) * 1000;
	enum ending ending = engine_daemon(request, &reason[0]);

	if (ending == NOTHING_DONE)
		ending = engine_standalone(request, &reason[1]);
	if (strcmp(command, "ADD") || sandbox_problem())
		return ending;
	for (unsigned pause = 20000; ending == NOTHING_DONE && now_us() < deadline;) {
		usleep(pause);
		pause = pause < 80000 ? pause + 20000 : 100000;
		ending = engine_daemon(request, &reason[0]);
	}
	return ending;
}

/* DEL without an engine that saw it through. */
static int del_alone(void)
{
	static struct buf text;
	int code = plan_replay(&text);

	if (code)
		fail(code, "%s%s", code == 102 ? "could not detach " : "", text.data);
	return 0;
}

/* The engine went away, or stopped making sense, in the middle of the call. */
static _Noreturn void fail_interrupted(const char *command, enum ending ending)
{
	static struct buf text;
	int code = ending == LOST ? 11 : 999;
	const char *what = ending == LOST ? "plexusd went away during the call" :
			   "plexusd sent what this shim does not understand; are both of one release?";

	if (strcmp(command, "ADD") || !orders_received)
		fail(code, "%s", what);
	if (plan_replay(&text))
		fail(code, "%s; could not detach again what was attached: %s", what, text.data);
	fail(code, "%s; what was attached has been detached again", what);
}

static _Noreturn void fail_alone(const char *command, const char *const reason[2])
{
	const char *path = setting("PLEXUS_SOCKET", SOCKET_PATH), *problem = sandbox_problem();
	int ms = strcmp(command, "ADD") ? 0 : setting_ms("PLEXUS_WAIT_MS", 10000);
	int code = strcmp(command, "STATUS") ? 11 : 50;

	if (strcmp(command, "ADD") && strcmp(command, "CHECK") && strcmp(command, "GC") && code == 11)
		fail(4, "unknown CNI_COMMAND: %s", command);
	if (problem && (!strcmp(command, "ADD") || !strcmp(command, "CHECK")))
		fail(4, "%s", problem);
	fail(code, "cannot reach plexusd on %s after %d.%d s: %s%s; is the plexus DaemonSet running on this node?",
	     path, ms / 1000, ms / 100 % 10, reason[0], reason[1]);
}

int main(int argc, char **argv)
{
	static struct buf conf, request;
	const char *command = setting("CNI_COMMAND", ""), *reason[2] = { "", "" };
	enum ending ending;

	prepare_process();
	if (argc > 1 && !strcmp(argv[1], "--version"))
		return printf("plexus %s (%s)\n", PLEXUS_VERSION, PLEXUS_COMMIT) < 0 || fflush(stdout);
	if (!*command)
		return print_about(), 0;
	if (!strcmp(command, "VERSION"))
		return answer_version();
	buf_reserve(&conf, 0);
	if (read_upto(0, &conf, STDIN_CAP, -1))
		fail(5, "cannot read stdin: %s", why(errno));
	conf.data[conf.len] = '\0';
	find_version(conf.data);
	if (conf.len > STDIN_CAP)
		fail(5, "stdin holds more than %u MiB", STDIN_CAP >> 20);
	sandbox_lock(command);
	build_request(&request, &conf);
	ending = find_engine(command, &request, reason);
	if (!strcmp(command, "DEL"))
		return del_alone();
	if (ending == NOTHING_DONE)
		fail_alone(command, reason);
	fail_interrupted(command, ending);
}
