/* SPDX-License-Identifier: Apache-2.0
 * The locks that keep operations apart: one of each sandbox, one of the node for garbage collection. */
#include <sys/file.h>
#include "shim.h"

/* Takes a lock, waiting for its holders, and keeps it until the process ends. The file may have been
 * removed by its last holder in the meantime; then the lock is on nothing, and it is taken again.
 * False when the state directory does not exist: then nothing was ever attached here, and there is
 * nothing to lock. */
static bool lock(struct call *call, const char *path, int how, const char *scope)
{
	int limit_ms = setting_ms("PLEXUS_LOCK_MS", 60000), fd;
	int64_t deadline = now_us() + limit_ms * 1000LL;

	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno == ENOENT)
			return false;
		while (fd < 0 || flock(fd, how | LOCK_NB)) {
			if (fd < 0 || errno != EWOULDBLOCK)
				fail(call, CNI_IO_FAILURE, "cannot lock %s: %s", path, errno_text(errno));
			if (now_us() >= deadline)
				fail(call, CNI_TRY_AGAIN_LATER, "another operation on this %s is still "
				     "running: %s was held for %d ms", scope, path, limit_ms);
			usleep(10000);
		}
		if (is_file(fd, path))
			return true;
		close(fd);
	}
}

/* Shuts out every other operation on the same sandbox, and garbage collection, for this call. A call
 * with a problem needs no lock: nothing can be attached under such a name. */
void lock_take(struct call *call)
{
	bool gc = call_is(call, "GC");
	char path[PATH_SIZE];

	if (call_is(call, "STATUS") || call->problem.len)
		return;
	snprintf(path, sizeof path, "%s/.gc.lock", call->state_dir);
	lock(call, path, gc ? LOCK_EX : LOCK_SH, "node");
	if (gc)
		return;
	snprintf(path, sizeof path, "%s/%s.lock", call->state_dir, call->container_id);
	if (lock(call, path, LOCK_EX, "sandbox"))
		strcpy(call->lock_file, path);
}

/* Removes the sandbox's lock file, at the end of the call. The lock itself goes with the process. */
void lock_release(struct call *call)
{
	if (*call->lock_file)
		unlink(call->lock_file);
}
