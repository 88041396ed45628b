/* SPDX-License-Identifier: Apache-2.0
 * Running one delegate as the runtime would, under rules that no order can loosen. */
#include <sys/prctl.h>
#include <sys/wait.h>
#include "shim.h"

#define OUTPUT_CAP (4u << 20)
#define ERRORS_CAP (64u << 10)
#define GRACE_US 2000000 /* for pipes to close after the delegate, and for a busy executable */

enum { IN = STDIN_FILENO, OUT = STDOUT_FILENO, ERR = STDERR_FILENO, PIPES };

static const sigset_t no_signals;

/* Only there to interrupt ppoll. */
static void on_sigchld(int number)
{
	(void)number;
}

/* Descriptors 0 to 3 are taken, so that nothing of ours gets a number that a child needs. A vanished
 * reader is an errno, and children can be waited for, whatever the caller's signal settings were. */
void exec_prepare(struct call *call)
{
	sigset_t chld;
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	signal(SIGCHLD, on_sigchld);
	signal(SIGPIPE, SIG_IGN);
	call->exec_errno = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (call->exec_errno == MAP_FAILED)
		fail(call, CNI_INTERNAL, "out of memory");
}

/* Gives a delegate the order's variables and a process group of its own, to be killed as one, and
 * has it die with the shim. */
static int confine(const struct frame *order, pid_t shim)
{
	for (int i = EXEC_ENV; i < order->count; i++)
		putenv(order->fields[i].data);
	if (setpgid(0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		return -1;
	return getppid() == shim ? 0 : -1;
}

/* Becomes the executable. While someone still has the file open for writing (an installer's copy),
 * it tries again for a while. */
static void execute(const char *path)
{
	int64_t deadline = now_us() + GRACE_US;

	for (;;) {
		execv(path, (char *[]){ (char *)path, NULL });
		if (errno != ETXTBSY || now_us() >= deadline)
			return;
		usleep(20000);
	}
}

/* Starts a child with default signals and fds[i] as its descriptor i; with an order, as a delegate. */
pid_t exec_launch(struct call *call, const char *path, const int *fds, int count, const struct frame *order)
{
	pid_t shim = getpid(), pid;

	*call->exec_errno = 0;
	pid = fork();
	if (pid < 0)
		*call->exec_errno = errno;
	if (pid)
		return pid;
	for (int i = 0; i < count; i++)
		if (dup2(fds[i], i) < 0)
			_exit(126);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigprocmask(SIG_SETMASK, &no_signals, NULL);
	if (!order || !confine(order, shim))
		execute(path);
	*call->exec_errno = errno;
	_exit(127);
}

/* Notes how the delegate ended. Returns false, for those who find that it cannot be run. */
__attribute__((format(printf, 4, 5)))
static bool set_outcome(struct exec_result *r, const char *outcome, int code, const char *format, ...)
{
	va_list args;

	r->outcome = outcome;
	r->code = code;
	va_start(args, format);
	vsnprintf(r->message, sizeof r->message, format, args);
	va_end(args);
	return false;
}

/* Refuses names that point out of the search path, or replace more of the environment than CNI's own
 * variables. */
static bool check_names(const struct frame *f, struct exec_result *r)
{
	const char *type = f->fields[EXEC_TYPE].data, *variable;

	if (!*type || !is_text(f->fields[EXEC_TYPE]) || strchr(type, '/') || !strcmp(type, ".") ||
	    !strcmp(type, ".."))
		return set_outcome(r, "refused", 0, "plugin type \"%s\" is not a plain file name", type);
	for (int i = EXEC_ENV; i < f->count; i++) {
		variable = f->fields[i].data;
		if (strncmp(variable, "CNI_", 4) || !is_text(f->fields[i]) || !strchr(variable, '='))
			return set_outcome(r, "refused", 0, "environment entry %d is not CNI_NAME=VALUE",
					   i - EXEC_ENV + 1);
	}
	return true;
}

/* Finds the plugin: the first regular file of that name, as libcni does, in a directory that only
 * root can have put it into. Directories without it may look as they like. */
static bool find_plugin(const struct frame *f, char path[PATH_SIZE], struct exec_result *r)
{
	const char *type = f->fields[EXEC_TYPE].data, *search = f->fields[EXEC_PATH].data;
	struct stat dir, file;
	int len;

	for (const char *d = search; *d; d += len + (d[len] == ':')) {
		len = (int)strcspn(d, ":");
		if (len == 0)
			continue;
		if (*d != '/')
			return set_outcome(r, "refused", 0, "directory \"%.*s\" is not absolute", len, d);
		snprintf(path, PATH_SIZE, "%.*s/%s", len, d, type);
		if (stat(path, &file) || !S_ISREG(file.st_mode))
			continue;
		path[len] = '\0';
		if (stat(path, &dir) || dir.st_uid || dir.st_mode & 022)
			return set_outcome(r, "refused", 0, "directory %s is not root's alone", path);
		path[len] = '/';
		return true;
	}
	return set_outcome(r, "missing", 0, "no plugin \"%s\" in \"%s\"", type, search);
}

static void shut(struct pollfd *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Writes what the pipe takes, when it is ready and so cannot block. A delegate that does not read its
 * input is no error. */
static void feed(struct pollfd *p, struct field *input)
{
	ssize_t n;

	if (!p->revents)
		return;
	n = write(p->fd, input->data, input->len < PIPE_BUF ? input->len : PIPE_BUF);
	if (n > 0) {
		input->data += n;
		input->len -= (size_t)n;
	}
	if (n < 0 || !input->len)
		shut(p);
}

/* Reads what the pipe has, when it is ready. Beyond the cap one byte is kept, as a sign that there was
 * more. */
static void drain(struct pollfd *p, struct buf *b, size_t cap)
{
	if (p->revents && read_some(p->fd, b) <= 0)
		shut(p);
	if (b->len > cap)
		b->len = cap + 1;
}

/* Kills the delegate when it has to be. Returns true when it was. */
static bool enforce_limits(pid_t pid, bool late, int timeout_ms, struct exec_result *r)
{
	if (late)
		set_outcome(r, "timeout", 0, "still running after %d ms; killed", timeout_ms);
	else if (r->output.len > OUTPUT_CAP)
		set_outcome(r, "overflow", 0, "stdout passed %u MiB; killed", OUTPUT_CAP >> 20);
	else
		return false;
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL); /* it may not lead its group yet */
	return true;
}

/* Serves the pipes until the delegate is gone and they are closed. A grandchild may keep them open
 * for ever, so from its end on they get a short grace only. Returns its wait status. */
static int attend(pid_t pid, struct pollfd p[PIPES], const struct frame *f, struct exec_result *r)
{
	int timeout_ms = field_number(f->fields[EXEC_TIMEOUT]), status = 0;
	int64_t deadline = now_us() + timeout_ms * 1000LL, left;
	struct field input = f->fields[EXEC_STDIN];
	struct timespec wait;
	bool exited = false;

	while (!exited || p[OUT].fd >= 0 || p[ERR].fd >= 0) {
		left = deadline - now_us();
		if (left <= 0 && (exited || r->outcome))
			break;
		if (!r->outcome && enforce_limits(pid, left <= 0, timeout_ms, r)) {
			left = GRACE_US;
			deadline = now_us() + left;
		}
		wait = (struct timespec){ left / 1000000, left % 1000000 * 1000 };
		if (ppoll(p, PIPES, &wait, &no_signals) > 0) {
			feed(&p[IN], &input);
			drain(&p[OUT], &r->output, OUTPUT_CAP);
			drain(&p[ERR], &r->errors, ERRORS_CAP);
		}
		if (!exited && waitpid(pid, &status, WNOHANG) == pid) {
			exited = true;
			deadline = now_us() + GRACE_US;
			shut(&p[IN]);
		}
	}
	return status;
}

/* Runs the executable and notes how it ended. */
static void run(struct call *call, const char *path, const struct frame *f)
{
	struct exec_result *r = &call->result;
	struct pollfd p[PIPES];
	int pair[2], far[PIPES], status = 0;
	pid_t pid;

	for (int i = 0; i < PIPES; i++) {
		if (pipe2(pair, O_CLOEXEC)) {
			set_outcome(r, "failed", errno, "cannot make a pipe: %s", errno_text(errno));
			return;
		}
		p[i] = (struct pollfd){ pair[i == IN], i == IN ? POLLOUT : POLLIN, 0 };
		far[i] = pair[i != IN];
	}
	pid = exec_launch(call, path, far, PIPES, f);
	for (int i = 0; i < PIPES; i++)
		close(far[i]);
	if (pid > 0)
		status = attend(pid, p, f, r);
	for (int i = 0; i < PIPES; i++)
		shut(&p[i]);
	if (*call->exec_errno)
		set_outcome(r, "failed", *call->exec_errno, "cannot execute %s: %s", path,
			    errno_text(*call->exec_errno));
	else if (!r->outcome && WIFSIGNALED(status))
		set_outcome(r, "signaled", WTERMSIG(status), "killed by signal %d", WTERMSIG(status));
	else if (!r->outcome)
		set_outcome(r, "exited", WEXITSTATUS(status), "%s", "");
}

/* Carries out one EXEC order; whatever happens is in the call's result. */
void exec_order(struct call *call, const struct frame *f)
{
	struct exec_result *r = &call->result;
	int64_t begun = now_us();
	char path[PATH_SIZE];

	r->outcome = NULL;
	r->output.len = r->errors.len = 0;
	if (check_names(f, r) && find_plugin(f, path, r))
		run(call, path, f);
	if (r->output.len > OUTPUT_CAP)
		r->output.len = OUTPUT_CAP;
	if (r->errors.len > ERRORS_CAP) {
		r->errors.len = ERRORS_CAP;
		buf_print(&r->errors, "\n… (stderr cut at 64 KiB)\n");
	}
	r->elapsed_us = now_us() - begun;
}
