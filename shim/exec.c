/* SPDX-License-Identifier: Apache-2.0
 * Starts executables, and runs delegates as the runtime would, within limits that no order can loosen. */
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include "shim.h"

#define OUTPUT_CAP (4 << 20)
#define ERRORS_CAP (64 << 10)
#define GRACE_US 2000000 /* for pipes to close after the delegate has ended */
#define BUSY_US 2000000  /* for an executable that is still open for writing */

enum { IN = STDIN_FILENO, OUT = STDOUT_FILENO, ERR = STDERR_FILENO, PIPES, SIGNALS = PIPES, CALLER, WATCHED };

/* A delegate that is running. */
struct delegate {
	pid_t pid;
	struct pollfd fds[WATCHED]; /* our ends of its pipes, our signals, and our end of the runtime's pipe */
	struct field input;         /* what it has not read yet */
	int timeout_ms;
	int64_t deadline;
	bool ended;                 /* it is a zombie */
	struct exec_result *result;
};

static const sigset_t no_signals;

/* Occupies descriptors 0 to 3, which children need, and undoes signal settings of the runtime. */
void spawn_prepare(struct call *call)
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
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	call->exec_errno = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (call->exec_errno == MAP_FAILED)
		fail(call, CNI_INTERNAL, "out of memory");
}

/* Gives a delegate the order's variables, a trusted CNI_PATH and a process group, and has it die with the shim. */
static int confine(struct call *call, const struct frame *order, pid_t shim)
{
	struct buf path = { 0 };
	for (int i = EXEC_ENV; i < order->count; i++)
		putenv(order->fields[i].data);
	trusted_path(call, setting("CNI_PATH", ""), &path);
	setenv("CNI_PATH", path.data, 1);
	if (setpgid(0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		return -1;
	if (call->inherited_lock >= 0)
		straggler_note(DELEGATE_LOCK, getpid());
	return getppid() == shim ? 0 : -1;
}

/* Becomes the executable. Retries for a while if the file is still open for writing (an installer's copy). */
static void execute(const char *path)
{
	int64_t deadline = now_us() + BUSY_US;
	for (;;) {
		execv(path, (char *[]){ (char *)path, NULL });
		if (errno != ETXTBSY || !ms_until(deadline))
			return;
		usleep(20000);
	}
}

/* Starts a child with fds[i] as its descriptor i; with an order, as a delegate. Returns -1 if there is no child.
 * exec_errno says why a child could not become the executable. */
pid_t spawn(struct call *call, const char *path, const int *fds, int count, const struct frame *order)
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
	if (!order || !confine(call, order, shim))
		execute(path);
	*call->exec_errno = errno;
	_exit(127);
}

/* Notes how the delegate ended. Returns where to print the reason. */
static struct buf *set_outcome(struct exec_result *r, const char *outcome, int code)
{
	r->outcome = outcome;
	r->code = code;
	r->message.len = 0;
	return &r->message;
}

/* Kills the delegate and what it has started. It is reaped only at the end, so that its number cannot be reused. */
static void kill_group(const struct delegate *d)
{
	kill(-d->pid, SIGKILL);
	kill(d->pid, SIGKILL); /* it may not lead its group yet */
}

static void shut(struct pollfd *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Writes input if the pipe is ready, so that the write cannot block. The delegate need not read its input. */
static void feed(struct pollfd *p, struct field *input)
{
	if (!p->revents)
		return;
	ssize_t n = write(p->fd, input->data, input->len < PIPE_BUF ? input->len : PIPE_BUF);
	if (n > 0) {
		input->data += n;
		input->len -= (size_t)n;
	}
	if (n < 0 || !input->len)
		shut(p);
}

/* Reads output if the pipe is ready. One byte beyond the cap shows that there was more. */
static void drain(struct pollfd *p, struct buf *b, size_t cap)
{
	if (p->revents && read_some(p->fd, b) <= 0)
		shut(p);
	if (b->len > cap)
		b->len = cap + 1;
}

/* Ends the shim, and the delegate's group first, on a signal and when the runtime ends. */
static void heed_signals(const struct delegate *d, const sigset_t *before)
{
	const struct pollfd *p = &d->fds[SIGNALS];
	struct signalfd_siginfo info;
	if (d->fds[CALLER].revents)
		info.ssi_signo = SIGTERM;
	else if (!p->revents || read(p->fd, &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD)
		return;
	kill_group(d);
	sigprocmask(SIG_SETMASK, before, NULL);
	end_by_signal((int)info.ssi_signo);
}

/* Notices that the delegate has ended. If it was killed, the rest of its group is killed too. */
static void check_end(struct delegate *d)
{
	siginfo_t info = { 0 };
	if (d->ended || waitid(P_PID, (id_t)d->pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != d->pid)
		return;
	d->ended = true;
	d->deadline = now_us() + GRACE_US;
	shut(&d->fds[IN]);
	if (info.si_code != CLD_EXITED)
		kill_group(d);
}

/* Kills a delegate that exceeds a limit. */
static void enforce_limits(struct delegate *d, bool late)
{
	if (late)
		buf_print(set_outcome(d->result, "timeout", 0), "still running after %d ms; killed", d->timeout_ms);
	else if (d->result->output.len > OUTPUT_CAP)
		buf_print(set_outcome(d->result, "overflow", 0), "stdout exceeded %d MiB; killed", OUTPUT_CAP >> 20);
	else
		return;
	kill_group(d);
	d->deadline = now_us() + GRACE_US;
}

/* Serves the pipes until the delegate has ended and they are closed, or for a grace period if others keep them open.
 * Returns its wait status. */
static int attend(struct delegate *d, const sigset_t *before)
{
	struct exec_result *r = d->result;
	struct pollfd *p = d->fds;
	int left, status = 0;
	while (!d->ended || p[OUT].fd >= 0 || p[ERR].fd >= 0) {
		left = ms_until(d->deadline);
		if (!left && (d->ended || r->outcome))
			break;
		if (!r->outcome)
			enforce_limits(d, !left);
		if (poll(p, WATCHED, left) > 0) {
			feed(&p[IN], &d->input);
			drain(&p[OUT], &r->output, OUTPUT_CAP);
			drain(&p[ERR], &r->errors, ERRORS_CAP);
			heed_signals(d, before);
		}
		check_end(d);
	}
	waitpid(d->pid, &status, WNOHANG);
	return status;
}

/* Creates the pipes. `far` gets the delegate's ends. Returns -1 with errno on failure. */
static int make_pipes(struct delegate *d, int far[PIPES], const sigset_t *watched)
{
	int pair[2];
	for (int i = 0; i < PIPES; i++) {
		if (pipe2(pair, O_CLOEXEC))
			return -1;
		d->fds[i] = (struct pollfd){ pair[i == IN], i == IN ? POLLOUT : POLLIN, 0 };
		far[i] = pair[i != IN];
	}
	d->fds[SIGNALS] = (struct pollfd){ signalfd(-1, watched, SFD_CLOEXEC | SFD_NONBLOCK), POLLIN, 0 };
	return d->fds[SIGNALS].fd < 0 ? -1 : 0;
}

/* Runs the executable and notes how it ended. */
static void run(struct call *call, const char *path, const struct frame *f, struct delegate *d)
{
	struct exec_result *r = d->result;
	int far[PIPES + 1] = { -1, -1, -1, call->inherited_lock }, status = 0;
	sigset_t watched, before;
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigprocmask(SIG_BLOCK, &watched, &before);
	d->pid = -1;
	if (make_pipes(d, far, &watched))
		*call->exec_errno = errno;
	else
		d->pid = spawn(call, path, far, PIPES + (call->inherited_lock >= 0), f);
	for (int i = 0; i < PIPES; i++)
		close(far[i]);
	if (d->pid > 0)
		status = attend(d, &before);
	if (d->pid > 0 && call->inherited_lock >= 0)
		straggler_note(call->inherited_lock, 0);
	for (int i = 0; i <= SIGNALS; i++)
		shut(&d->fds[i]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (*call->exec_errno)
		buf_print(set_outcome(r, "failed", *call->exec_errno), "cannot execute %s: %s", path,
			  errno_text(*call->exec_errno));
	else if (!r->outcome && WIFSIGNALED(status))
		buf_print(set_outcome(r, "signaled", WTERMSIG(status)), "killed by signal %d", WTERMSIG(status));
	else if (!r->outcome)
		set_outcome(r, "exited", WEXITSTATUS(status));
}

/* Carries out one EXEC order within that time. The call's result says what happened. */
void exec_order(struct call *call, const struct frame *f, int timeout_ms)
{
	struct exec_result *r = &call->result;
	int64_t begun = now_us();
	char path[PATH_SIZE];
	const char *outcome = "refused";
	struct delegate d = { .result = r, .input = f->fields[EXEC_STDIN], .timeout_ms = timeout_ms,
			      .deadline = begun + timeout_ms * 1000LL,
			      .fds = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, caller_end(call) } };
	set_outcome(r, NULL, 0);
	r->output.len = r->errors.len = 0;
	if (order_allowed(call, f, &r->message))
		outcome = plugin_find(call, f->fields[EXEC_TYPE], f->fields[EXEC_PATH].data, path, &r->message);
	if (!strcmp(outcome, "found"))
		run(call, path, f, &d);
	else
		r->outcome = outcome;
	if (r->output.len > OUTPUT_CAP)
		r->output.len = OUTPUT_CAP;
	if (r->errors.len > ERRORS_CAP) {
		r->errors.len = ERRORS_CAP;
		buf_print(&r->errors, "\n… (stderr truncated at 64 KiB)\n");
	}
	r->elapsed_us = now_us() - begun;
}
