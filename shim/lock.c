/* SPDX-License-Identifier: Apache-2.0
 * The locks that keep operations apart: a file per sandbox, and the state directory for garbage collection. A call holds
 * its sandbox's lock to its end, and another sandbox's while a delegate detaches that one. So does an agent's session.
 *
 * A sandbox's file carries two locks. The flock ends with the shim. Delegates inherit the other one (F_OFD_SETLK, where
 * supported). It lasts until their last process has ended, so that no DEL runs beside a plugin of a killed shim.
 *
 * While a delegate runs, the file names its process group. Only a killed shim leaves the name there. A process that its
 * plugin started, such as an address plugin, may then hang, and allocate later.
 *
 * A GC that waits marks the state directory (F_OFD_SETLK) for a third of the time. New operations wait then, 5 s at most. */
#include <dirent.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include "shim.h"

#define FILE_FLAGS (O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC)
#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define NAME_LENGTH 8      /* digits of a process group; the kernel's maximum has seven */
#define CANNOT_LOCK "cannot lock %s: %s"
#define STRAGGLER_MS 10000 /* for processes that nothing waits for to end by themselves */

static const struct flock first_byte = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
static const struct flock turn_byte = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1 };
static const struct call *holder; /* of its sandbox's lock file */

/* Writes a process group, or none (0), to the lock file. Only the first write needs room. False: failure, with errno. */
bool straggler_note(int lock, pid_t group)
{
	char name[NAME_LENGTH];
	for (int i = NAME_LENGTH; i--; group /= 10)
		name[i] = (char)('0' + group % 10);
	return pwrite(lock, name, sizeof name, 0) == sizeof name;
}

static bool has_file(pid_t pid, int fd, int file)
{
	char path[64];
	return is_file(file, print(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd));
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
 * whose runtime was killed. A descriptor pins each process first, as its number may be reused. */
static void end_holders(int lock, pid_t group)
{
	DIR *processes = opendir("/proc");
	for (struct dirent *entry; processes && (entry = readdir(processes));) {
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

/* Marks a byte of the state directory, or ends that. A directory is never open for writing. */
static void mark(int node, struct flock byte, bool begins)
{
	byte.l_type = begins ? F_RDLCK : F_UNLCK;
	(void)fcntl(node, F_OFD_SETLK, &byte);
}

/* True if another process has locked or marked the byte. */
static bool is_marked(int fd, struct flock byte)
{
	return !fcntl(fd, F_OFD_GETLK, &byte) && byte.l_type != F_UNLCK;
}

/* Takes the lock of the state directory or of the sandbox's file once its holders release it. A holder that hangs or is
 * stopped is killed if its runtime was killed. */
static void wait_for(const struct call *call, int fd, const char *path, int how)
{
	bool is_node = path == call->state_dir, is_new = is_node && how == LOCK_SH && call->node_lock < 0;
	int turn_ms = setting_ms("PLEXUS_TURN_MS", 5000), limit_ms = setting_ms("PLEXUS_LOCK_MS", 60000);
	int patience_ms = setting_ms("PLEXUS_STRAGGLER_MS", STRAGGLER_MS);
	int64_t begun = now_us(), deadline = begun + limit_ms * 1000LL, next = begun + patience_ms * 1000LL;
	while (is_new && is_marked(fd, turn_byte) && ms_until(begun + turn_ms * 1000LL))
		await_ms(call, 10);
	while (flock(fd, how | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			fail(call, CNI_IO_FAILURE, CANNOT_LOCK, path, errno_text(errno));
		if (!ms_until(deadline))
			fail(call, CNI_TRY_AGAIN_LATER, "another operation on this %s is still running: it "
			     "has held %s for %d ms", is_node ? "node" : "sandbox", path, limit_ms);
		if (!ms_until(next)) {
			end_holders(fd, 0);
			next = now_us() + patience_ms * 1000LL;
		}
		if (is_node && how == LOCK_EX)
			mark(fd, turn_byte, (now_us() - begun) / 1000 % (3 * turn_ms) < turn_ms);
		await_ms(call, 10);
	}
	mark(fd, turn_byte, false);
}

/* Opens and locks such a file, again if its last holder removed it. Returns -1 if the disk is full or read-only. */
static int lock(const struct call *call, const char *path, int how)
{
	for (;;) {
		int fd = open(path, path == call->state_dir ? DIRECTORY_FLAGS : FILE_FLAGS, 0600);
		if (fd < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EROFS))
			return -1;
		if (fd < 0)
			fail(call, CNI_IO_FAILURE, CANNOT_LOCK, path, errno_text(errno));
		wait_for(call, fd, path, how);
		if (is_file(fd, path))
			return fd;
		close(fd);
	}
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

/* Removes the sandbox's lock file, unless processes of its delegates still hold it, and then releases the lock. */
static void release(const struct call *call)
{
	close(call->inherited_lock);
	if (!is_marked(call->lock, first_byte))
		unlink(call->lock_file);
	close(call->lock);
}

static void release_at_exit(void)
{
	release(holder);
}

/* Releases the sandbox's lock at the end of the process, and waits for what earlier delegates have left running. After a
 * while it kills the group that the lock file names, whose shim was killed, but no daemon that a plugin started. An inspection
 * does not wait: returns false if a delegate of a killed shim may still change what it would see. */
static bool await_stragglers(struct call *call, bool only_reads)
{
	char name[NUMBER_SIZE] = "";
	holder = call;
	atexit(release_at_exit);
	call->inherited_lock = open_again(call->lock, O_RDWR);
	bool held = is_held(call, only_reads ? 0 : setting_ms("PLEXUS_STRAGGLER_MS", STRAGGLER_MS));
	int group = pread(call->lock, name, sizeof name - 1, 0) > 0 ? field_number(text(name)) : 0;
	if (held && group && only_reads)
		return false;
	if (held && group > 1) {
		end_holders(call->lock, group);
		is_held(call, END_MS);
	}
	if (group)
		straggler_note(call->lock, 0);
	return true;
}

static void name_lock_file(struct call *call, const char *container_id)
{
	print(call->lock_file, PATH_SIZE, "%s/%s.lock", call->state_dir, container_id);
}

/* Locks a sandbox and, if asked to, shares the state directory as `node`. Returns false at once while another operation on
 * the sandbox runs, or a GC runs or has its turn. Without room for the sandbox's file, there is no lock. */
static bool lock_free(struct call *call, const char *container_id, bool needs_node, int *node)
{
	name_lock_file(call, container_id);
	*node = needs_node ? open(call->state_dir, DIRECTORY_FLAGS) : -1;
	if (*node < 0 || (!is_marked(*node, turn_byte) && !flock(*node, LOCK_SH | LOCK_NB))) {
		call->lock = open(call->lock_file, FILE_FLAGS, 0600);
		if (call->lock < 0 || (!flock(call->lock, LOCK_EX | LOCK_NB) && is_file(call->lock, call->lock_file)))
			return true;
		close(call->lock);
	}
	close(*node);
	return false;
}

void unlock_other(const struct call *other)
{
	if (other->lock >= 0)
		release(other);
	close(other->node_lock);
}

/* Locks another sandbox for a delegate that detaches it, so that no operation on it runs beside the delegate if the engine
 * ends, and no GC: STATUS and agents hold no lock of the node. Returns false, without waiting, while one runs. */
bool lock_other(struct call *other, const char *container_id)
{
	if (!lock_free(other, container_id, other->is_agent || call_is(other, "STATUS"), &other->node_lock))
		return false;
	other->inherited_lock = open_again(other->lock, O_RDWR);
	if (!is_held(other, 0))
		return true;
	unlock_other(other);
	return false;
}

/* Locks the call's sandbox to the end of the process. Returns false at once while another operation on it or a GC runs.
 * Waits for what earlier delegates have left running, unless it only reads. Without room for its file, call->lock is -1. */
bool lock_try(struct call *call, bool only_reads)
{
	int node; /* stays open */
	return lock_free(call, call->container_id, true, &node) && (call->lock < 0 || await_stragglers(call, only_reads));
}

/* Makes the state directory. A power loss must not take its name, and with it the records that are synced. */
static void make_state_dir(const char *path)
{
	char above[PATH_SIZE];
	int parent = mkdir(path, 0700) ? -1 : open(print(above, sizeof above, "%s/..", path), DIRECTORY_FLAGS);
	if (parent < 0)
		return;
	(void)fsync(parent);
	close(parent);
}

/* Excludes the Docker driver's calls, which lock the directory of its records: an ADD that begins during a GC would be
 * unknown to it. Pods wait too, so this does not wait for a long operation. */
static void exclude_docker(struct call *call)
{
	char path[PATH_SIZE];
	int limit_ms = setting_ms("PLEXUS_TURN_MS", 5000);
	int64_t deadline = now_us() + limit_ms * 1000LL;
	print(path, sizeof path, "%s/docker", call->state_dir);
	int docker = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW); /* an engine may make links */
	if (docker >= 0)
		call->docker_lock = openat(docker, "records", DIRECTORY_FLAGS | O_NOFOLLOW);
	close(docker);
	while (call->docker_lock >= 0 && flock(call->docker_lock, LOCK_EX | LOCK_NB)) {
		if (!ms_until(deadline))
			fail(call, CNI_TRY_AGAIN_LATER, "an operation of the Docker driver is still running: it has held "
			     "%s/records for %d ms", path, limit_ms);
		await_ms(call, 10);
	}
}

/* Notes the sandboxes on which operations run when a GC begins: its runtime may not list what these attach. */
static void note_busy(struct call *call)
{
	char path[PATH_SIZE];
	DIR *dir = opendir(call->state_dir);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		const char *end = strrchr(entry->d_name, '.');
		if (!end || strcmp(end, ".lock"))
			continue;
		print(path, sizeof path, "%s/%s", call->state_dir, entry->d_name);
		int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB))
			buf_print(&call->busy, "%s%.*s/", call->busy.len ? "" : "PLEXUS_BUSY=", (int)(end - entry->d_name),
				  entry->d_name);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

/* Excludes every other operation on the sandbox, and garbage collection. On a full disk, where a DEL must work too, it
 * excludes operations on all sandboxes, also the DELs of leftovers: plexusd sees F_OFD_SETLK in a container, but no flock.
 * A call with a problem needs no lock: no attachment can have such a name. */
void lock_take(struct call *call)
{
	bool gc = call_is(call, "GC");
	if (call_is(call, "STATUS") || call->problem.len)
		return;
	make_state_dir(call->state_dir);
	if (gc)
		note_busy(call);
	int node = lock(call, call->state_dir, gc ? LOCK_EX : LOCK_SH);
	if (gc) {
		call->node_lock = node;
		exclude_docker(call);
		return;
	}
	name_lock_file(call, call->container_id);
	call->lock = lock(call, call->lock_file, LOCK_EX);
	if (call->lock < 0) {
		wait_for(call, node, call->state_dir, LOCK_EX);
		mark(node, first_byte, true);
		return;
	}
	(void)fcntl(call->lock, F_DUPFD_CLOEXEC, HOLDER_LOCK); /* by which other shims recognize the holder */
	await_stragglers(call, false);
}

/* Lets operations other than GC run beside the rest of this GC: DELs of forgotten sandboxes, which may hang. */
void lock_share(struct call *call)
{
	if (call->node_lock < 0)
		return;
	close(call->docker_lock);
	wait_for(call, call->node_lock, call->state_dir, LOCK_SH);
	call->node_lock = -1;
}
