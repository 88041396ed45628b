/* SPDX-License-Identifier: Apache-2.0
 * Starts executables, and runs delegates as the runtime would, within limits that no order can loosen. */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "shim.h"

#define OUTPUT_CAP (4 << 20)
#define ERRORS_CAP (64 << 10)
#define GRACE_US 2000000 /* for pipes to close after the delegate has ended */
#define BUSY_US 2000000  /* for an executable that is still open for writing */

enum { IN = STDIN_FILENO, OUT = STDOUT_FILENO, ERR = STDERR_FILENO, PIPES, SIGNALS = PIPES, CALLER, WATCHED };

struct delegate {
	pid_t pid;
	struct pollfd fds[WATCHED]; /* our ends of its pipes, our signals, and our end of the runtime's pipe */
	struct field input;         /* what it has not read yet */
	int timeout_ms;
	int64_t deadline;
	bool ended;                 /* it is a zombie */
	struct exec_result *result;
};

/* What a child has to become. */
struct child {
	struct call *call; /* the shim's, in which the child notes why it could not */
	const char *path;
	char **env;
	const int *fds;    /* its descriptors from 0 on */
	int count;
	bool is_delegate;
	bool attaches;     /* it does not start without its note in the lock file */
	pid_t shim;
};

static const sigset_t no_signals;

/* Occupies descriptors 0 to 3, which children need, and undoes signal settings of the runtime. */
void spawn_prepare(void)
{
	int fd;
	while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= 2)
		;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
}

/* Appends a variable of an environment, unless one of that name is among the first `count`. */
static void add_variable(struct buf *env, size_t count, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;
	for (size_t i = 0; i < count; i++)
		if (!strncmp(((char **)env->data)[i], entry, len))
			return;
	buf_add(env, &entry, sizeof entry);
}

/* Makes the environment of a delegate: a trusted CNI_PATH, the order's variables, and the shim's others. */
static char **delegate_environment(const struct call *call, const struct frame *order)
{
	static struct buf trusted, path, env; /* of the last delegate */
	trusted.len = path.len = env.len = 0;
	trusted_path(call, order_variable(order, "CNI_PATH"), &trusted);
	buf_print(&path, "CNI_PATH=%s", trusted.data);
	add_variable(&env, 0, path.data);
	if (*call->netns_entry)
		add_variable(&env, 1, call->netns_entry);
	for (int i = order->count - 1; i >= EXEC_ENV; i--)
		add_variable(&env, env.len / sizeof(char *), order->fields[i].data);
	size_t own = env.len / sizeof(char *);
	for (char **e = environ; *e; e++)
		add_variable(&env, own, *e);
	buf_add(&env, &(char *){ NULL }, sizeof(char *));
	return (char **)env.data;
}

/* Gives a delegate a process group, and has it die with the shim. Nothing could end what an ADD leaves without a note. */
static int confine(const struct child *child)
{
	if (setpgid(0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		return -1;
	errno = ENOSPC; /* there was no room for the lock file, or the disk is read-only */
	bool is_noted = child->call->inherited_lock >= 0 && straggler_note(DELEGATE_LOCK, getpid());
	child->call->is_unnoted = child->attaches && !is_noted;
	return child->call->is_unnoted || getppid() != child->shim ? -1 : 0;
}

/* Gives an engine, which may stay after the call, a separate session, nothing that the runtime left open, and descriptors
 * for calls at once. */
static void detach(const struct child *child)
{
	struct rlimit files;
	setsid();
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (syscall(SYS_close_range, child->count, ~0u, 0))
		close(ENGINE_LISTENER); /* before Linux 5.9: it serves one call */
}

/* Becomes the executable. It shares the shim's memory until then, and the shim waits: it may only make system calls. */
__attribute__((no_sanitize("address"))) static int become(void *argument)
{
	const struct child *child = argument;
	for (int i = 0; i < child->count; i++)
		if (dup2(child->fds[i], i) < 0)
			_exit(126);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigprocmask(SIG_SETMASK, &no_signals, NULL);
	if (!child->is_delegate)
		detach(child);
	if (!child->is_delegate || !confine(child))
		execve(child->path, (char *[]){ (char *)child->path, NULL }, child->env);
	child->call->exec_errno = errno;
	_exit(127);
}

/* Starts a child with fds[i] as its descriptor i; with an order, as a delegate. Returns -1 if there is no child.
 * exec_errno says why a child could not become the executable. Retries while an installer still writes the file. */
pid_t spawn(struct call *call, const char *path, const int *fds, int count, const struct frame *order)
{
	static _Alignas(16) char stack[16384];
	bool attaches = order && !strcmp(order_variable(order, "CNI_COMMAND"), "ADD");
	char **env = order ? delegate_environment(call, order) : environ;
	struct child child = { call, path, env, fds, count, order, attaches, getpid() };
	int64_t deadline = now_us() + BUSY_US;
	pid_t pid;
	for (;;) {
		call->exec_errno = 0;
		pid = clone(become, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &child);
		if (pid < 0)
			call->exec_errno = errno;
		if (call->exec_errno != ETXTBSY || !ms_until(deadline))
			return pid;
		waitpid(pid, NULL, 0);
		await_ms(call, 20);
	}
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
}

static void shut(struct pollfd *p)
{
	close(p->fd);
	p->fd = -1;
}

/* Writes as much input as a pipe that is ready takes without blocking. The delegate need not read its input. */
static void feed(struct pollfd *p, struct field *input)
{
	ssize_t n = write(p->fd, input->data, input->len < PIPE_BUF ? input->len : PIPE_BUF);
	if (n > 0) {
		input->data += n;
		input->len -= (size_t)n;
	}
	if (n < 0 || !input->len)
		shut(p);
}

/* Reads output if the pipe is ready, and closes it at its end. One byte beyond the cap shows that there was more. */
static void drain(struct pollfd *p, struct buf *b, size_t cap)
{
	if (p->revents & POLLIN ? read_some(p->fd, b) <= 0 : p->revents)
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

/* Serves the pipes until the delegate has ended and they are closed, or a grace period is over. Returns its wait status. */
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
			if (p[IN].revents)
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

/* Why an executable that was found cannot be executed. ENOENT and EACCES may be about what executes it. */
const char *exec_text(const char *path, int error)
{
	switch (error) {
	case ENOENT:
		return access(path, F_OK) ? errno_text(error) : "the interpreter of its #! line, or its ELF loader, does not exist";
	case ENOEXEC:
		return "it is built for another architecture, or is a script without a #! line";
	case EACCES:
		return "it or its interpreter is not executable, its file system is mounted noexec, or SELinux or AppArmor "
		       "forbids it";
	default:
		return errno_text(error);
	}
}

static void run(struct call *call, const char *path, const struct frame *f, struct delegate *d)
{
	struct exec_result *r = d->result;
	int far[PIPES + 1] = { -1, -1, -1, call->inherited_lock }, status = 0;
	sigset_t watched = no_signals, before;
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigprocmask(SIG_BLOCK, &watched, &before);
	call->is_unnoted = false;
	if (make_pipes(d, far, &watched))
		call->exec_errno = errno;
	else {
		feed(&d->fds[IN], &d->input); /* which cannot block, as the pipe is empty */
		d->pid = spawn(call, path, far, PIPES + (call->inherited_lock >= 0), f);
	}
	for (int i = 0; i < PIPES; i++)
		close(far[i]);
	if (d->pid > 0)
		status = attend(d, &before);
	if (d->pid > 0 && call->inherited_lock >= 0)
		straggler_note(call->inherited_lock, 0);
	for (int i = 0; i <= SIGNALS; i++)
		shut(&d->fds[i]);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (call->exec_errno && call->is_unnoted)
		buf_print(set_outcome(r, "failed", call->exec_errno), "cannot note the plugin's process in %s: %s",
			  call->lock_file, errno_text(call->exec_errno));
	else if (call->exec_errno)
		buf_print(set_outcome(r, "failed", call->exec_errno), "cannot execute %s: %s", path,
			  exec_text(path, call->exec_errno));
	else if (!r->outcome && WIFSIGNALED(status))
		buf_print(set_outcome(r, "signaled", WTERMSIG(status)), "killed by signal %d", WTERMSIG(status));
	else if (!r->outcome)
		set_outcome(r, "exited", WEXITSTATUS(status));
}

static void run_locked(struct call *call, const char *path, const struct frame *f, struct delegate *d)
{
	const char *id = order_variable(f, "CNI_CONTAINERID");
	if (!strcmp(id, call->container_id) || strcmp(order_variable(f, "CNI_COMMAND"), "DEL")) {
		run(call, path, f, d);
		return;
	}
	struct call other = *call;
	if (lock_other(&other, id)) {
		run(&other, path, f, d);
		unlock_other(&other);
	} else {
		buf_print(set_outcome(d->result, "refused", 0), "another operation on container %s is running", id);
	}
}

/* Carries out one EXEC order within that time. The call's result says what happened. */
void exec_order(struct call *call, const struct frame *f, int timeout_ms)
{
	struct exec_result *r = &call->result;
	int64_t begun = now_us();
	char path[PATH_SIZE];
	struct delegate d = { .pid = -1, .result = r, .input = f->fields[EXEC_STDIN], .timeout_ms = timeout_ms,
			      .deadline = begun + timeout_ms * 1000LL,
			      .fds = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, { .fd = -1 }, caller_end(call) } };
	set_outcome(r, call->unmet, 0);
	call->unmet = NULL;
	r->output.len = r->errors.len = 0;
	if (r->outcome)
		buf_print(&r->message, "%s", call->unmet_message.data);
	else if (!order_allowed(call, f, &r->message))
		r->outcome = "refused";
	else
		r->outcome = plugin_find(call, f->fields[EXEC_TYPE], f->fields[EXEC_PATH].data, path, &r->message);
	if (!r->outcome)
		run_locked(call, path, f, &d);
	if (r->output.len > OUTPUT_CAP)
		r->output.len = OUTPUT_CAP;
	if (r->errors.len > ERRORS_CAP) {
		r->errors.len = ERRORS_CAP;
		buf_print(&r->errors, "\n… (stderr truncated at 64 KiB)\n");
	}
	r->elapsed_us = now_us() - begun;
}
