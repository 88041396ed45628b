/* SPDX-License-Identifier: Apache-2.0
 * Starts other executables. */
#include <sys/prctl.h>
#include "shim.h"

#define BUSY_US 2000000 /* for an executable that is still open for writing */

static const sigset_t no_signals;

/* Occupies descriptors 0 to 3, so that none of the shim's gets a number that a child needs. Makes a closed pipe an
 * errno, and children waitable, whatever the runtime's signal settings are. */
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

/* Gives a delegate the order's variables with a trusted CNI_PATH, and a process group, to be killed as one. The
 * delegate dies with the shim. */
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

/* Starts a child with default signals and fds[i] as its descriptor i; with an order, as a delegate. Returns -1 if
 * there is no child. exec_errno says why a child could not become the executable. */
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
