/* SPDX-License-Identifier: Apache-2.0
 * The locks that keep operations apart: one of each sandbox, one of the node for garbage collection.
 *
 * A sandbox's file carries two locks. Its flock is the operation's: it ends with the shim. The other one,
 * on the first byte, belongs to an open file that delegates inherit: it lasts until the last process of
 * theirs has ended, even when the shim was killed, so that no DEL runs beside a plugin that is still at
 * work. Where the file system has no such locks (F_OFD_SETLK) there is only the flock. */
#include <sys/file.h>
#include "shim.h"

#define END_MS 1000        /* for processes that are killed to be gone */
#define STRAGGLER_MS 10000 /* for what nobody waits for any more to end by itself */

/* Opens a lock's file; it and the state directory are made where they are missing. Returns -1 when there
 * is no room for it. */
static int open_lock(struct call *call, const char *path)
{
	int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, fd = open(path, flags, 0600);

	if (fd < 0 && errno == ENOENT && (!mkdir(call->state_dir, 0700) || errno == EEXIST))
		fd = open(path, flags, 0600);
	if (fd < 0 && errno != ENOSPC && errno != EDQUOT && errno != EROFS)
		fail(call, CNI_IO_FAILURE, "cannot lock %s: %s", path, errno_text(errno));
	return fd;
}

/* Waits for the lock's holders and takes it. Those whose runtime was killed do not keep it for long. */
static void wait_for(struct call *call, int fd, int how, const char *path, const char *scope)
{
	int limit_ms = setting_ms("PLEXUS_LOCK_MS", 60000);
	int patience_ms = setting_ms("PLEXUS_STRAGGLER_MS", STRAGGLER_MS);
	int64_t begun = now_us(), deadline = begun + limit_ms * 1000LL, next = begun + patience_ms * 1000LL;

	while (flock(fd, how | LOCK_NB)) {
		if (errno != EWOULDBLOCK)
			fail(call, CNI_IO_FAILURE, "cannot lock %s: %s", path, errno_text(errno));
		if (now_us() >= deadline)
			fail(call, CNI_TRY_AGAIN_LATER, "another operation on this %s is still running: %s was "
			     "held for %d ms", scope, path, limit_ms);
		if (now_us() >= next) {
			abandoned_end(fd);
			next = now_us() + patience_ms * 1000LL;
		}
		await_ms(call, 10);
	}
}

/* Takes a lock, and keeps it until the process ends. The file may have been removed by its last holder
 * in the meantime; then the lock is on nothing, and it is taken again. Returns the file, or -1 when there
 * is no room for it. */
static int lock(struct call *call, const char *path, int how, const char *scope)
{
	int fd;

	for (;;) {
		fd = open_lock(call, path);
		if (fd < 0)
			return -1;
		wait_for(call, fd, how, path, scope);
		if (is_file(fd, path))
			return fd;
		close(fd);
	}
}

/* Takes the node's lock, on the state directory itself when there is no room for a file. */
static int lock_node(struct call *call, char path[PATH_SIZE], int how)
{
	int fd;

	print(path, PATH_SIZE, "%s/.gc.lock", call->state_dir);
	fd = lock(call, path, how, "node");
	if (fd >= 0)
		return fd;
	print(path, PATH_SIZE, "%s", call->state_dir);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fail(call, CNI_IO_FAILURE, "cannot lock %s: %s", path, errno_text(errno));
	wait_for(call, fd, how, path, "node");
	return fd;
}

/* Waits that long for the lock that delegates inherit. Returns whether others still hold it. */
static bool is_held(const struct call *call, int patience_ms)
{
	struct flock first_byte = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int64_t deadline = now_us() + patience_ms * 1000LL;

	while (fcntl(call->inherited_lock, F_OFD_SETLK, &first_byte)) {
		if (errno != EAGAIN && errno != EACCES)
			return false;
		if (now_us() >= deadline)
			return true;
		await_ms(call, 10);
	}
	return false;
}

/* Waits for what earlier delegates have left running, but not for ever: what hangs after its shim was
 * killed is ended then, and the daemon that a plugin may have started is left alone. What this call
 * runs is held against the next one. */
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

/* Shuts out every other operation on the same sandbox, and garbage collection, for this call. When there
 * is no room for the sandbox's lock file, as on a full disk, it shuts out those on all others, too: a DEL
 * must get through then. A call with a problem needs no lock: nothing can be attached under such a name. */
void lock_take(struct call *call)
{
	bool gc = call_is(call, "GC");
	char node[PATH_SIZE], sandbox[PATH_SIZE];
	int fd;

	if (call_is(call, "STATUS") || call->problem.len)
		return;
	fd = lock_node(call, node, gc ? LOCK_EX : LOCK_SH);
	if (gc) {
		call->node_lock = fd;
		return;
	}
	print(sandbox, sizeof sandbox, "%s/%s.lock", call->state_dir, call->container_id);
	call->lock = lock(call, sandbox, LOCK_EX, "sandbox");
	if (call->lock < 0) {
		wait_for(call, fd, LOCK_EX, node, "node");
		return;
	}
	strcpy(call->lock_file, sandbox);
	(void)fcntl(call->lock, F_DUPFD_CLOEXEC, HOLDER_LOCK); /* by which another shim knows the holder */
	await_stragglers(call);
}

/* Lets other operations run beside the rest of this garbage collection, but no other one of its kind: what is left of it
 * are DELs, which may hang, of sandboxes that the runtime has forgotten. */
void lock_share(struct call *call)
{
	int fd = call->node_lock;

	call->node_lock = -1;
	if (fd >= 0)
		wait_for(call, fd, LOCK_SH, call->state_dir, "node");
}

/* Removes the sandbox's lock file, at the end of the call, unless processes of its delegates still hold
 * it. The flock itself goes with the process. */
void lock_release(struct call *call)
{
	struct flock first_byte = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	if (!*call->lock_file)
		return;
	close(call->inherited_lock);
	if (fcntl(call->lock, F_OFD_GETLK, &first_byte) || first_byte.l_type == F_UNLCK)
		unlink(call->lock_file);
}
