/* SPDX-License-Identifier: Apache-2.0
 * The locks that keep operations apart: one per sandbox, and one per node for garbage collection.
 *
 * A sandbox's lock file carries two locks. Its flock is the operation's, and ends with the shim. The other one, on the
 * first byte, belongs to an open file that delegates inherit. It lasts until their last process has ended, even if
 * the shim was killed, so that no DEL runs beside a plugin that is still at work. Where the file system does not
 * support it (F_OFD_SETLK), there is only the flock.
 *
 * While a delegate runs, the file names its process group. Only a shim that was killed leaves the name there. Its
 * plugin died with it, but a process that the plugin started, such as an address plugin, may hang and allocate
 * later. What a plugin leaves running after its end, such as a DHCP client, is not named. */
#include <dirent.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include "shim.h"

#define END_MS 1000        /* for killed processes to end */
#define STRAGGLER_MS 10000 /* for processes that nothing waits for to end by themselves */

static const struct flock first_byte = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
static const struct call *holder; /* of a sandbox's lock file */

_Noreturn static void cannot_lock(const struct call *call, const char *path)
{
	fail(call, CNI_IO_FAILURE, "cannot lock %s: %s", path, errno_text(errno));
}

/* Writes the caller's process group, or none (0), to the lock file. If there is no room, the group is not ended
 * later. */
void straggler_note(int lock, pid_t group)
{
	char digits[NUMBER_SIZE];
	struct field name = number(digits, group);
	if (!ftruncate(lock, 0) && group)
		(void)!pwrite(lock, name.data, name.len, 0);
}

/* True if the process has the file open as that descriptor. */
static bool has_file(pid_t pid, int fd, int file)
{
	char path[64];
	print(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
	return is_file(file, path);
}

/* True if stdout of the process is a pipe without a reader. */
static bool is_abandoned(pid_t pid)
{
	struct pollfd p = { .fd = -1 };
	char path[64];
	struct stat file;
	print(path, sizeof path, "/proc/%d/fd/1", (int)pid);
	if (!stat(path, &file) && S_ISFIFO(file.st_mode))
		p.fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	bool abandoned = poll(&p, 1, 0) > 0;
	close(p.fd);
	return abandoned;
}

/* Kills the processes of the group that inherited the lock file; without a group (0), the shims that hold the lock and
 * whose runtime was killed. A descriptor pins each process before the checks, so that its number cannot pass to
 * another one. */
static void end_holders(int lock, pid_t group)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	while (processes && (entry = readdir(processes))) {
		pid_t pid = field_number(text(entry->d_name));
		int fd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

		if (fd < 0)
			continue;
		if (group ? getpgid(pid) == group && has_file(pid, DELEGATE_LOCK, lock)
			  : has_file(pid, HOLDER_LOCK, lock) && is_abandoned(pid))
			syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
		close(fd);
	}
	if (processes)
		closedir(processes);
}

/* Kills what the delegates of a killed shim have left running: the group that the lock file names. */
static void stragglers_end(int lock)
{
	char digits[NUMBER_SIZE] = "";
	pid_t group = pread(lock, digits, sizeof digits - 1, 0) > 0 ? field_number(text(digits)) : 0;
	if (group > 1)
		end_holders(lock, group);
}

/* Opens a lock file, and creates it and the state directory if they are missing. Returns -1 if the disk is full or
 * read-only. */
static int open_lock(const struct call *call, const char *path)
{
	int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, fd = open(path, flags, 0600);
	if (fd < 0 && errno == ENOENT && (!mkdir(call->state_dir, 0700) || errno == EEXIST))
		fd = open(path, flags, 0600);
	if (fd < 0 && errno != ENOSPC && errno != EDQUOT && errno != EROFS)
		cannot_lock(call, path);
	return fd;
}

/* Takes the lock once its holders release it. A holder whose runtime was killed (a DEL that hangs, or a shim that is
 * stopped) is killed after a while. */
static void wait_for(const struct call *call, int fd, int how, const char *path, const char *scope)
{
	int limit_ms = setting_ms("PLEXUS_LOCK_MS", 60000);
	int patience_ms = setting_ms("PLEXUS_STRAGGLER_MS", STRAGGLER_MS);
	int64_t begun = now_us(), deadline = begun + limit_ms * 1000LL, next = begun + patience_ms * 1000LL;
	while (flock(fd, how | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			cannot_lock(call, path);
		if (!ms_until(deadline))
			fail(call, CNI_TRY_AGAIN_LATER, "another operation on this %s is still running: it "
			     "has held %s for %d ms", scope, path, limit_ms);
		if (!ms_until(next)) {
			end_holders(fd, 0);
			next = now_us() + patience_ms * 1000LL;
		}
		await_ms(call, 10);
	}
}

/* Takes a lock until the process ends. If its last holder removed the file meanwhile, the lock is taken again on a
 * new file. Returns the open file, or -1 if there is no room for one. */
static int lock(const struct call *call, const char *path, int how, const char *scope)
{
	for (;;) {
		int fd = open_lock(call, path);
		if (fd < 0)
			return -1;
		wait_for(call, fd, how, path, scope);
		if (is_file(fd, path))
			return fd;
		close(fd);
	}
}

/* Takes the node's lock, on the state directory itself if there is no room for a file. */
static int lock_node(const struct call *call, char path[PATH_SIZE], int how)
{
	print(path, PATH_SIZE, "%s/.gc.lock", call->state_dir);
	int fd = lock(call, path, how, "node");
	if (fd >= 0)
		return fd;
	print(path, PATH_SIZE, "%s", call->state_dir);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		cannot_lock(call, path);
	wait_for(call, fd, how, path, "node");
	return fd;
}

/* Waits for the lock that delegates inherit. Returns whether other processes still hold it then. */
static bool is_held(const struct call *call, int patience_ms)
{
	int64_t deadline = now_us() + patience_ms * 1000LL;
	while (fcntl(call->inherited_lock, F_OFD_SETLK, &first_byte)) {
		if (errno != EAGAIN && errno != EACCES)
			return false;
		if (!ms_until(deadline))
			return true;
		await_ms(call, 10);
	}
	return false;
}

/* Waits for what earlier delegates have left running. After a while it kills what hangs since its shim was killed, but
 * not a daemon that a plugin started. The next call waits in the same way for what this call runs. */
static void await_stragglers(struct call *call)
{
	char again[64];
	print(again, sizeof again, "/proc/self/fd/%d", call->lock);
	call->inherited_lock = open(again, O_RDWR | O_CLOEXEC);
	if (is_held(call, setting_ms("PLEXUS_STRAGGLER_MS", STRAGGLER_MS))) {
		stragglers_end(call->lock);
		is_held(call, END_MS);
	}
	straggler_note(call->lock, 0);
}

/* Removes the sandbox's lock file at the end of the call, unless processes of its delegates still hold it. The flock
 * itself ends with the process. */
static void release(void)
{
	struct flock other = first_byte;
	close(holder->inherited_lock);
	if (fcntl(holder->lock, F_OFD_GETLK, &other) || other.l_type == F_UNLCK)
		unlink(holder->lock_file);
}

/* Excludes every other operation on the sandbox, and garbage collection, during this call. If there is no room for the
 * sandbox's lock file, as on a full disk, it excludes operations on all sandboxes, as a DEL must work even then. A
 * call with a problem needs no lock: nothing can be attached under such a name. */
void lock_take(struct call *call)
{
	bool gc = call_is(call, "GC");
	char node[PATH_SIZE];
	if (call_is(call, "STATUS") || call->problem.len)
		return;
	int fd = lock_node(call, node, gc ? LOCK_EX : LOCK_SH);
	if (gc) {
		call->node_lock = fd;
		return;
	}
	print(call->lock_file, PATH_SIZE, "%s/%s.lock", call->state_dir, call->container_id);
	call->lock = lock(call, call->lock_file, LOCK_EX, "sandbox");
	if (call->lock < 0) {
		wait_for(call, fd, LOCK_EX, node, "node");
		return;
	}
	(void)fcntl(call->lock, F_DUPFD_CLOEXEC, HOLDER_LOCK); /* by which other shims recognize the holder */
	holder = call;
	atexit(release);
	await_stragglers(call);
}

/* Lets other operations run beside the rest of this garbage collection, except another one. The rest consists of DELs
 * of sandboxes that the runtime has forgotten, and these may hang. */
void lock_share(struct call *call)
{
	int fd = call->node_lock;
	call->node_lock = -1;
	if (fd >= 0)
		wait_for(call, fd, LOCK_SH, call->state_dir, "node");
}
