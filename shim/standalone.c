/* SPDX-License-Identifier: Apache-2.0
 * Finds the engine that serves a runtime's calls without plexusd, or starts it. */
#include <sys/wait.h>
#include "shim.h"

/* By default, the engine compiles functions to machine code after some 30 calls of them, which takes longer than a few CNI
 * calls gain by it: calls that come at once after a pause took a tenth longer. */
#define LATE_JIT "BUN_JSC_thresholdForJITAfterWarmUp"

/* Appends what a runtime gives to its calls. */
static void add_inherited(const char *executable, struct buf *given)
{
	const char *const paths[] = { executable, "/", ".", OWN_NETNS, "/proc/self/ns/mnt", "/proc/self/ns/user" };
	const char *const files[] = { "/proc/self/cgroup", "/proc/self/limits", "/proc/self/attr/current" };
	mode_t mask = umask(0);
	umask(mask);
	buf_add(given, &mask, sizeof mask);
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		struct stat file = { 0 };
		(void)!stat(paths[i], &file);
		buf_add(given, &file.st_dev, sizeof file.st_dev);
		buf_add(given, &file.st_ino, sizeof file.st_ino);
	}
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		(void)!read_file(files[i], given, PATH_SIZE);
	for (char **e = environ; *e; e++)
		if (strncmp(*e, "CNI_", 4))
			buf_print(given, "%s\n", *e);
}

/* Names the socket of the engine that serves the further calls of this runtime: of the process that made the call, with
 * what it gives to its calls. So an engine never serves a caller with another one's files, settings or limits, and what ends
 * or freezes it does so with its callers. The directory is not plexusd's, which must not pose as that engine or as a shim,
 * and only root's. Names nothing if there is no such directory, or the runtime is unknown. */
static void name_shared(const char *executable, char name[SOCKET_PATH_SIZE])
{
	const char *daemon = setting("PLEXUS_SOCKET", SOCKET_PATH), *slash = strrchr(daemon, '/');
	char dir[PATH_SIZE], path[PATH_SIZE], parent[NUMBER_SIZE], ns[NUMBER_SIZE], digits[NUMBER_SIZE];
	char *runtime = number(parent, getppid()).data;
	static struct buf start, given;
	struct stat file, pids;
	start.len = given.len = 0;
	print(dir, sizeof dir, "%.*s-standalone", slash ? (int)(slash - daemon) : 0, daemon);
	process_start(print(path, sizeof path, "/proc/%s/stat", runtime), &start);
	*name = '\0';
	if (!slash || slash == daemon || !start.len || stat("/proc/self/ns/pid", &pids) || (mkdir(dir, 0700) && errno != EEXIST) ||
	    lstat(dir, &file) || !S_ISDIR(file.st_mode) || file.st_uid || file.st_mode & 022)
		return;
	add_inherited(executable, &given);
	print(path, sizeof path, "%s/%s-%s-%s-%s", dir, number(ns, (int64_t)pids.st_ino).data, runtime, start.data,
	      number(digits, crc32(given.data, given.len)).data);
	if (strlen(path) + NUMBER_SIZE < SOCKET_PATH_SIZE)
		strcpy(name, path);
}

static ino_t inode_of(const char *path)
{
	struct stat file;
	return stat(path, &file) ? 0 : file.st_ino;
}

/* False until an engine has started: the shim that made its socket listens until then. When that has ended, another process
 * may have its number. */
static bool is_engine(pid_t listener, const char *path)
{
	char link[64];
	int exe = open(print(link, sizeof link, "/proc/%d/exe", (int)listener), O_PATH | O_CLOEXEC);
	bool is_same = is_file(exe, path);
	close(exe);
	return is_same;
}

/* Makes the socket for a new engine, and its name for that: INODE:PATH. Returns -1 if another shim was faster. */
static int listen_at(const char *path, char socket_of_engine[SOCKET_PATH_SIZE + NUMBER_SIZE])
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char digits[NUMBER_SIZE];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0); /* for the engine to inherit */
	print(at.sun_path, sizeof at.sun_path, "%s.%s", path, number(digits, getpid()).data);
	bool is_bound = fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof at);
	print(socket_of_engine, SOCKET_PATH_SIZE + NUMBER_SIZE, "%s:%s", number(digits, (int64_t)inode_of(at.sun_path)).data, path);
	if (!is_bound || listen(fd, SOMAXCONN) || link(at.sun_path, path)) {
		close(fd);
		fd = -1;
	}
	if (is_bound)
		unlink(at.sun_path);
	return fd;
}

/* Starts an engine. It gets its end of a socket pair as fd 3, perhaps a listening socket for further calls, and clock and
 * date: its own clock begins with it, perhaps late. One that hangs is killed before the call continues, unless the kernel
 * holds it up. So is one without further calls that does not answer. */
static enum session_end session_with_new(struct call *call, const char *path, int listener, const char *socket_of_engine)
{
	char times[2 * NUMBER_SIZE], clock[NUMBER_SIZE], date[NUMBER_SIZE];
	static struct buf problem;
	int pair[2];
	pid_t pid = -1;
	print(times, sizeof times, "%s/%s", number(clock, now_us()).data, number(date, clock_us(CLOCK_REALTIME)).data);
	setenv(LATE_JIT, "30000", 1);
	setenv("PLEXUS_CLOCK_US", times, 1);
	setenv("PLEXUS_FURTHER_CALLS", listener < 0 ? "" : socket_of_engine, 1);
	if (!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		pid = spawn(call, path, (int[]){ 0, 2, 2, pair[1], listener }, listener < 0 ? 4 : 5, NULL);
	unsetenv("PLEXUS_CLOCK_US"); /* delegates get the runtime's environment */
	unsetenv("PLEXUS_FURTHER_CALLS");
	unsetenv(LATE_JIT);
	close(listener);
	if (pid < 0)
		fail(call, CNI_IO_FAILURE, "cannot start %s: %s", path, errno_text(errno));
	int exec_errno = call->exec_errno; /* a delegate sets it, too */
	close(pair[1]);
	call->standalone = pid;
	call->sends_alive = false; /* until it has started */
	enum session_end end = converse(call, pair[0]);
	if (end == SESSION_ANSWERED || call->declined.len)
		return end;
	if (listener < 0 || call->is_silent) {
		kill(pid, SIGKILL);
		for (int64_t limit = now_us() + END_MS * 1000; !waitpid(pid, NULL, WNOHANG) && ms_until(limit);)
			await_ms(call, 10);
	}
	if (end != SESSION_UNREACHABLE)
		return end;
	problem.len = 0;
	buf_print(&problem, "cannot execute %s: %s", path, exec_text(path, exec_errno));
	call->trouble = exec_errno ? problem.data : "plexus-standalone ended early, or did not answer in time";
	return end;
}

/* Has an engine serve the call that an earlier call of this runtime has started, or starts one, if only root can change it.
 * Of several shims at once, one starts it, and the others' calls wait at its socket. */
enum session_end session_with_standalone(struct call *call)
{
	const char *path = setting("PLEXUS_STANDALONE", STANDALONE_PATH);
	char shared[SOCKET_PATH_SIZE], socket_of_engine[SOCKET_PATH_SIZE + NUMBER_SIZE];
	int listener = -1;
	struct stat file;
	if (stat(path, &file) || !S_ISREG(file.st_mode) || !(file.st_mode & 0111) || file.st_uid || file.st_mode & 022)
		return SESSION_UNREACHABLE;
	name_shared(path, shared);
	call->standalone = 0;
	call->declined.len = 0;
	for (int tries = 0; *shared && listener < 0 && tries < 3; tries++) {
		ino_t inode = inode_of(shared);
		int fd = connect_to(call, shared, &call->standalone);
		bool is_dead = fd < 0 && errno == ECONNREFUSED;
		call->sends_alive = fd >= 0 && is_engine(call->standalone, path);
		enum session_end end = fd < 0 ? SESSION_UNREACHABLE : converse(call, fd);
		bool is_hung = fd >= 0 && call->is_silent;
		if (is_hung && is_engine(call->standalone, path))
			kill(call->standalone, SIGKILL);
		if (end != SESSION_UNREACHABLE || call->declined.len)
			return end;
		if ((is_dead || is_hung) && inode_of(shared) == inode)
			unlink(shared); /* another shim may have replaced it */
		listener = listen_at(shared, socket_of_engine);
	}
	return session_with_new(call, path, listener, socket_of_engine);
}
