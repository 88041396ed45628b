/* SPDX-License-Identifier: Apache-2.0
 * Running one delegate as the runtime would, under rules that no order can loosen. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "shim.h"

#define STDOUT_CAP (4u << 20)
#define STDERR_CAP (64u << 10)
#define GRACE_US 2000000 /* for pipes to close after the delegate, and for a busy executable */

enum { IN, OUT, ERR, CHILD, FDS };
struct run {
	pid_t pid;
	struct pollfd p[FDS];
	struct field input;
	int64_t deadline;
	int exited, killed, status, cut;
};

/* Reads an EXEC frame. Returns -1 when it is not a well-formed one. */
int order_parse(const struct frame *f, struct order *o)
{
	if (f->type != FRAME_EXEC || f->count < 5)
		return -1;
	*o = (struct order){ f->fields[0], f->fields[1], f->fields[2], f->fields[4],
			     field_number(f->fields[3]), f->count - 5, f->fields + 5 };
	return o->timeout_ms < 0 ? -1 : 0;
}

static int outcome(struct exec_result *r, const char *name, int code, const char *format, ...)
{
	va_list args;

	r->outcome = name;
	r->code = code;
	va_start(args, format);
	vsnprintf(r->message, sizeof r->message, format, args);
	va_end(args);
	for (char *c = r->message; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = '?'; /* one line, whatever an order wrote */
	return -1;
}

/* Rules for names: nothing of an order may point out of the search path or replace more of the
 * environment than CNI's own variables. */
static int check_names(const struct order *o, struct exec_result *r)
{
	const char *t = o->type.data;

	if (!*t || !is_text(o->type) || strchr(t, '/') || !strcmp(t, ".") || !strcmp(t, ".."))
		return outcome(r, "refused", 0, "plugin type \"%s\" is not a plain file name", t);
	if (!is_text(o->path))
		return outcome(r, "refused", 0, "the search path holds a NUL byte");
	for (int i = 0; i < o->env_count; i++)
		if (strncmp(o->env[i].data, "CNI_", 4) || !is_text(o->env[i]) || !strchr(o->env[i].data, '='))
			return outcome(r, "refused", 0, "environment entry %d is not CNI_NAME=VALUE", i + 1);
	return 0;
}

/* Finds the plugin: the first regular file of that name, as libcni does, in a directory that only
 * root can have put it into. Directories without it may look as they like. */
static int find_plugin(const struct order *o, char path[PATH_MAX], struct exec_result *r)
{
	struct stat dir, file;
	int len;

	for (const char *d = o->path.data; *d; d += len + (d[len] == ':')) {
		len = (int)strcspn(d, ":");
		if (len && *d != '/')
			return outcome(r, "refused", 0, "directory \"%.*s\" is not absolute", len, d);
		if (!len || snprintf(path, PATH_MAX, "%.*s/%s", len, d, o->type.data) >= PATH_MAX)
			continue;
		path[len] = '\0';
		if (stat(path, &dir))
			continue;
		path[len] = '/';
		if (stat(path, &file) || !S_ISREG(file.st_mode))
			continue;
		if (dir.st_uid || dir.st_mode & 022)
			return outcome(r, "refused", 0, "directory %.*s is %s", len, d,
				       dir.st_uid ? "not owned by root" : "writable by others than root");
		return 0;
	}
	return outcome(r, "missing", 0, "no plugin \"%s\" in \"%s\"", o->type.data, o->path.data);
}

/* The shim's environment, overlaid with the order's entries. */
static char **child_env(const struct order *o)
{
	size_t n = 0, have = 0;
	char **env;

	while (environ[have])
		have++;
	env = calloc(have + (size_t)o->env_count + 1, sizeof *env);
	if (!env)
		return NULL;
	for (size_t e = 0; e < have; e++) {
		size_t name = strcspn(environ[e], "=") + 1;
		int i = 0;

		while (i < o->env_count && strncmp(environ[e], o->env[i].data, name))
			i++;
		if (i == o->env_count)
			env[n++] = environ[e];
	}
	for (int i = 0; i < o->env_count; i++)
		env[n++] = (char *)o->env[i].data;
	return env;
}

/* In a forked child: executes `path` with default signals. While someone still has the file open
 * for writing (an installer's copy), tries again for a while. Reports errno on failure. */
_Noreturn void exec_become(const char *path, char **env, int report)
{
	char *argv[] = { (char *)path, NULL };
	int64_t deadline = now_us() + GRACE_US;
	sigset_t none;
	int error;

	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	while (execve(path, argv, env), errno == ETXTBSY && now_us() < deadline)
		usleep(20000);
	error = errno;
	_exit(write(report, &error, sizeof error) < 0 ? 126 : 127);
}

/* The child's side: a process group of its own, to be killed as one; dead when the shim is. */
static _Noreturn void child(const char *path, char **env, int pipes[4][2], pid_t parent)
{
	if (setpgid(0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent ||
	    dup2(pipes[IN][0], 0) < 0 || dup2(pipes[OUT][1], 1) < 0 || dup2(pipes[ERR][1], 2) < 0) {
		int error = errno;
		_exit(write(pipes[3][1], &error, sizeof error) < 0 ? 126 : 127);
	}
	exec_become(path, env, pipes[3][1]);
}

/* Starts the delegate; its pipes' near ends go into `run`. The fourth pipe closes at execve, or
 * tells why there was none. */
static int start(struct run *run, const char *path, char **env, struct exec_result *r)
{
	int pipes[4][2], made = 0, error = 0;
	pid_t self = getpid();

	while (made < 4 && !pipe2(pipes[made], O_CLOEXEC))
		made++;
	run->pid = made == 4 && env ? fork() : -1;
	if (run->pid == 0)
		child(path, env, pipes, self);
	if (run->pid < 0)
		error = errno;
	for (int i = 0; i < made; i++)
		close(pipes[i][i != IN]);
	if (run->pid > 0 && read(pipes[3][0], &error, sizeof error) > 0)
		waitpid(run->pid, NULL, 0);
	for (int i = 0; i < made; i++)
		if (error || i == 3)
			close(pipes[i][i == IN]);
	if (error)
		return outcome(r, "failed", error, "cannot execute %s: %s", path, why(error));
	for (int i = IN; i <= ERR; i++) {
		run->p[i] = (struct pollfd){ pipes[i][i == IN], i == IN ? POLLOUT : POLLIN, 0 };
		fcntl(run->p[i].fd, F_SETFL, O_NONBLOCK);
	}
	return 0;
}

static void shut(struct pollfd *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Kills the delegate with its children; the loop then waits a while for the pipes to close. */
static void stop(struct run *run)
{
	kill(-run->pid, SIGKILL);
	kill(run->pid, SIGKILL);
	run->killed = 1;
	run->deadline = now_us() + GRACE_US;
}

static void feed(struct run *run)
{
	ssize_t n = run->input.len ? write(run->p[IN].fd, run->input.data, run->input.len) : 0;

	if (n > 0) {
		run->input.data += n;
		run->input.len -= (size_t)n;
	}
	if (!run->input.len || (n < 0 && errno != EAGAIN && errno != EINTR))
		shut(&run->p[IN]); /* all written, or a delegate that does not read its input: no error */
}

/* Reads what is there; keeps up to the cap. Too much stdout is an error, too much stderr is cut. */
static void drain(struct run *run, int which, struct exec_result *r)
{
	static char chunk[65536];
	struct buf *b = which == OUT ? &r->out : &r->err;
	size_t room = (which == OUT ? STDOUT_CAP : STDERR_CAP) - b->len;
	ssize_t n = read(run->p[which].fd, chunk, sizeof chunk);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		shut(&run->p[which]);
	if (n <= 0)
		return;
	buf_add(b, chunk, (size_t)n < room ? (size_t)n : room);
	if ((size_t)n <= room || run->killed)
		return;
	if (which == ERR) {
		run->cut = 1;
	} else {
		outcome(r, "overflow", 0, "stdout passed %u MiB; killed", STDOUT_CAP >> 20);
		stop(run);
	}
}

/* A signal came: SIGCHLD, maybe the delegate's. A grandchild may keep its pipes open for ever, so
 * from its exit on they get a short grace only. */
static void reap(struct run *run)
{
	struct signalfd_siginfo info;

	if (read(run->p[CHILD].fd, &info, sizeof info) < 0 && errno != EAGAIN)
		return;
	if (run->exited || waitpid(run->pid, &run->status, WNOHANG) != run->pid)
		return;
	run->exited = 1;
	run->deadline = now_us() + GRACE_US;
	shut(&run->p[IN]);
}

/* Serves the pipes until the delegate is gone and they are closed, or time is up. A failing poll
 * (no memory) only spins until the deadline. */
static void pump(struct run *run, int timeout_ms, struct exec_result *r)
{
	while (!run->exited || run->p[OUT].fd >= 0 || run->p[ERR].fd >= 0) {
		int64_t left = run->deadline - now_us();

		if (left <= 0 && (run->exited || run->killed))
			break;
		if (left <= 0) {
			outcome(r, "timeout", 0, "still running after %d ms; killed", timeout_ms);
			stop(run);
			continue;
		}
		if (poll(run->p, FDS, (int)(left / 1000 + 1)) <= 0)
			continue;
		if (run->p[IN].revents)
			feed(run);
		if (run->p[OUT].revents)
			drain(run, OUT, r);
		if (run->p[ERR].revents)
			drain(run, ERR, r);
		if (run->p[CHILD].revents)
			reap(run);
	}
	for (int i = 0; i < FDS; i++)
		shut(&run->p[i]);
}

/* Carries out one EXEC order; whatever happens is in the result. Relies on SIGCHLD being blocked. */
void exec_order(const struct order *o, struct exec_result *r)
{
	struct run run = { .input = o->input };
	int64_t begun = now_us();
	char path[PATH_MAX], **env = NULL;
	sigset_t chld;

	r->out.len = r->err.len = 0;
	r->message[0] = '\0';
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	run.deadline = begun + (int64_t)o->timeout_ms * 1000;
	run.p[CHILD] = (struct pollfd){ signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK), POLLIN, 0 };
	if (run.p[CHILD].fd < 0)
		outcome(r, "failed", errno, "cannot watch for the end of a delegate: %s", why(errno));
	else if (!check_names(o, r) && !find_plugin(o, path, r) &&
		 !start(&run, path, env = child_env(o), r)) {
		outcome(r, "exited", 0, "%s", "");
		pump(&run, o->timeout_ms, r);
		if (!run.killed && WIFSIGNALED(run.status))
			outcome(r, "signaled", WTERMSIG(run.status), "killed by signal %d", WTERMSIG(run.status));
		else if (!run.killed)
			r->code = WEXITSTATUS(run.status);
		if (run.cut)
			buf_text(&r->err, "\n… (stderr cut at 64 KiB)\n");
	}
	shut(&run.p[CHILD]);
	free(env);
	r->elapsed_us = now_us() - begun;
}
