/* SPDX-License-Identifier: Apache-2.0
 * Running one delegate as the runtime would, under rules that no order can loosen. */
#include <sys/prctl.h>
#include <sys/wait.h>
#include "shim.h"

#define STDOUT_CAP (4u << 20)
#define STDERR_CAP (64u << 10)
#define GRACE_US 2000000 /* for pipes to close after the delegate, and for a busy executable */

/* Notes how it went. */
#define OUTCOME(r, name, number, ...) \
	((r)->outcome = (name), (r)->code = (number), (r)->message.len = 0, \
	 buf_print(&(r)->message, __VA_ARGS__))

enum { IN = STDIN_FILENO, OUT = STDOUT_FILENO, ERR = STDERR_FILENO, PIPES };

static const sigset_t no_signals;
static int *launch_errno; /* shared with children: why the last one could not become its executable */

/* Only there to interrupt ppoll. */
static void on_sigchld(int number)
{
	(void)number;
}

/* Descriptors 0 to 3 are taken, so that nothing of ours gets a number that a child needs. A vanished
 * reader is an errno, and children can be waited for, whatever the caller's signal settings were. */
void launch_prepare(void)
{
	sigset_t chld;
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= 2 && !fcntl(fd, F_SETFD, 0));
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	signal(SIGCHLD, on_sigchld);
	signal(SIGPIPE, SIG_IGN);
	launch_errno = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (launch_errno == MAP_FAILED)
		fail(999, "out of memory");
}

/* Starts a child with default signals and fds[i] as its descriptor i. That of an order gets the
 * order's variables, a process group of its own, to be killed as one, and dies with the shim. While
 * someone still has the file open for writing (an installer's copy), it tries again for a while. */
pid_t launch(char *path, const int *fds, int count, const struct frame *order)
{
	int64_t deadline = now_us() + GRACE_US;
	pid_t shim = getpid(), pid;

	*launch_errno = 0;
	pid = fork();
	if (pid < 0)
		*launch_errno = errno;
	if (pid)
		return pid;
	for (int i = 0; i < count; i++)
		if (dup2(fds[i], i) < 0)
			_exit(126);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigprocmask(SIG_SETMASK, &no_signals, NULL);
	for (int i = ENV; order && i < order->count; i++)
		putenv(order->fields[i].data);
	if (!order || (!setpgid(0, 0) && !prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == shim))
		while (execv(path, (char *[]){ path, NULL }), errno == ETXTBSY && now_us() < deadline)
			usleep(20000);
	*launch_errno = errno;
	_exit(127);
}

int is_exec(const struct frame *f)
{
	return f->type == FRAME_EXEC && f->count >= ENV && field_number(f->fields[TIMEOUT]) >= 0;
}

/* Rules for names: nothing of an order may point out of the search path or replace more of the
 * environment than CNI's own variables. */
static char *check_names(const struct frame *f, struct exec_result *r)
{
	const char *t = f->fields[TYPE].data;

	if (!*t || !is_text(f->fields[TYPE]) || strchr(t, '/') || !strcmp(t, ".") || !strcmp(t, ".."))
		return OUTCOME(r, "refused", 0, "plugin type \"%s\" is not a plain file name", t);
	for (int i = ENV; i < f->count; i++) {
		const char *e = f->fields[i].data;

		if (strncmp(e, "CNI_", 4) || !is_text(f->fields[i]) || !strchr(e, '='))
			return OUTCOME(r, "refused", 0, "environment entry %d is not CNI_NAME=VALUE",
				       i - ENV + 1);
	}
	return NULL;
}

/* Finds the plugin: the first regular file of that name, as libcni does, in a directory that only
 * root can have put it into. Directories without it may look as they like. */
static char *find_plugin(const struct frame *f, struct buf *path, struct exec_result *r)
{
	const char *type = f->fields[TYPE].data, *search = f->fields[PATH].data;
	struct stat dir, file;
	int len;

	for (const char *d = search; *d; d += len + (d[len] == ':')) {
		len = (int)strcspn(d, ":");
		if (len && *d != '/')
			return OUTCOME(r, "refused", 0, "directory \"%.*s\" is not absolute", len, d);
		path->len = 0;
		if (!len || stat(buf_print(path, "%.*s/%s", len, d, type), &file) || !S_ISREG(file.st_mode))
			continue;
		path->data[len] = '\0';
		if (stat(path->data, &dir) || dir.st_uid || dir.st_mode & 022)
			return OUTCOME(r, "refused", 0, "directory %s is not root's alone", path->data);
		path->data[len] = '/';
		return NULL;
	}
	return OUTCOME(r, "missing", 0, "no plugin \"%s\" in \"%s\"", type, search);
}

static void shut(struct pollfd *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Moves bytes through the pipes that are ready, which then cannot block. Of what is said beyond a
 * cap, one byte is kept: it tells that there was more. */
static void serve_pipes(struct pollfd p[PIPES], struct field *input, struct exec_result *r)
{
	static const size_t cap[] = { [OUT] = STDOUT_CAP, [ERR] = STDERR_CAP };

	if (p[IN].revents) {
		ssize_t n = write(p[IN].fd, input->data, input->len < PIPE_BUF ? input->len : PIPE_BUF);

		input->data += n;
		input->len -= (size_t)n;
		if (n < 0 || !input->len)
			shut(&p[IN]); /* all written, or a delegate that does not read its input: no error */
	}
	for (int i = OUT; i <= ERR; i++) {
		if (p[i].revents && read_some(p[i].fd, &r->said[i]) <= 0)
			shut(&p[i]);
		if (r->said[i].len > cap[i])
			r->said[i].len = cap[i] + 1;
	}
}

/* Serves the pipes until the delegate is gone and they are closed. A grandchild may keep them open
 * for ever, so from its end on they get a short grace only. Returns its wait status. */
static int attend(pid_t pid, struct pollfd p[PIPES], const struct frame *f, struct exec_result *r)
{
	int timeout_ms = field_number(f->fields[TIMEOUT]), exited = 0, status = 0;
	int64_t deadline = now_us() + timeout_ms * 1000LL;
	struct field input = f->fields[STDIN];

	while (!exited || p[OUT].fd >= 0 || p[ERR].fd >= 0) {
		int64_t left = deadline - now_us();
		struct timespec wait;

		if (left <= 0 && (exited || r->outcome))
			break;
		if (!r->outcome && (left <= 0 || r->said[OUT].len > STDOUT_CAP)) {
			if (left <= 0)
				OUTCOME(r, "timeout", 0, "still running after %d ms; killed", timeout_ms);
			else
				OUTCOME(r, "overflow", 0, "stdout passed %u MiB; killed", STDOUT_CAP >> 20);
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL); /* it may not lead its group yet */
			left = GRACE_US;
			deadline = now_us() + left;
		}
		wait = (struct timespec){ left / 1000000, left % 1000000 * 1000 };
		if (ppoll(p, PIPES, &wait, &no_signals) > 0)
			serve_pipes(p, &input, r);
		if (!exited && waitpid(pid, &status, WNOHANG) == pid) {
			exited = 1;
			deadline = now_us() + GRACE_US;
			shut(&p[IN]);
		}
	}
	return status;
}

/* Runs the executable and notes how it went. */
static void run(char *path, const struct frame *f, struct exec_result *r)
{
	struct pollfd p[PIPES];
	int pair[2], far[PIPES], status = 0;
	pid_t pid;

	for (int i = 0; i < PIPES; i++) {
		if (pipe2(pair, O_CLOEXEC)) {
			OUTCOME(r, "failed", errno, "cannot make a pipe: %s", why(errno));
			return;
		}
		p[i] = (struct pollfd){ pair[i == IN], i == IN ? POLLOUT : POLLIN, 0 };
		far[i] = pair[i != IN];
	}
	pid = launch(path, far, PIPES, f);
	for (int i = 0; i < PIPES; i++)
		close(far[i]);
	if (pid > 0)
		status = attend(pid, p, f, r);
	for (int i = 0; i < PIPES; i++)
		shut(&p[i]);
	if (*launch_errno)
		OUTCOME(r, "failed", *launch_errno, "cannot execute %s: %s", path, why(*launch_errno));
	else if (!r->outcome && WIFSIGNALED(status))
		OUTCOME(r, "signaled", WTERMSIG(status), "killed by signal %d", WTERMSIG(status));
	else if (!r->outcome)
		OUTCOME(r, "exited", WEXITSTATUS(status), "%s", "");
}

/* Carries out one EXEC order; whatever happens is in the result. */
void exec_order(const struct frame *f, struct exec_result *r)
{
	static struct buf path;
	int64_t begun = now_us();

	r->outcome = NULL;
	r->said[OUT].len = r->said[ERR].len = 0;
	if (!check_names(f, r) && !find_plugin(f, &path, r))
		run(path.data, f, r);
	if (r->said[OUT].len > STDOUT_CAP)
		r->said[OUT].len = STDOUT_CAP;
	if (r->said[ERR].len > STDERR_CAP) {
		r->said[ERR].len = STDERR_CAP;
		buf_print(&r->said[ERR], "\n… (stderr cut at 64 KiB)\n");
	}
	r->elapsed_us = now_us() - begun;
}
