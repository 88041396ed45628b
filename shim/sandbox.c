/* SPDX-License-Identifier: Apache-2.0
 * The sandbox that a call is for: are its names safe as file names, and its lock. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "shim.h"

static char lock_path[PATH_MAX];

/* Tells what is wrong with CNI_CONTAINERID or CNI_IFNAME, NULL when both can be part of a path. */
const char *sandbox_problem(void)
{
	static const char alnum[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-";
	const char *id = setting("CNI_CONTAINERID", ""), *ifname = setting("CNI_IFNAME", "");

	if (!*id || !*ifname)
		return "required env variables [CNI_CONTAINERID,CNI_IFNAME] missing";
	if (strchr("_.-", *id) || id[strspn(id, alnum)])
		return "invalid characters in containerID";
	if (strlen(id) > 200)
		return "containerID is longer than 200 characters";
	if (strlen(ifname) > 15)
		return "interface name is too long";
	if (!strcmp(ifname, ".") || !strcmp(ifname, ".."))
		return "interface name is . or ..";
	if (strpbrk(ifname, "/: \t\n\v\f\r"))
		return "interface name contains / or : or whitespace characters";
	return NULL;
}

/* Builds the path of a file in the state directory. */
void state_path(char path[PATH_MAX], const char *format, ...)
{
	int dir = snprintf(path, PATH_MAX, "%s/", setting("PLEXUS_STATE_DIR", STATE_DIR));
	va_list args;

	if (dir > PATH_MAX - NAME_MAX)
		fail(4, "PLEXUS_STATE_DIR is too long for a path");
	va_start(args, format);
	vsnprintf(path + dir, NAME_MAX, format, args);
	va_end(args);
}

/* Takes a lock, waiting for its holders. The file may have been removed by its last holder in the
 * meantime; then the lock is on nothing, and it is taken again. A state directory that does not
 * exist means that nothing was ever attached here: then there is nothing to lock. */
static void lock(const char *path, int how, const char *scope)
{
	int limit = setting_ms("PLEXUS_LOCK_MS", 60000), fd;
	int64_t deadline = now_us() + (int64_t)limit * 1000;
	struct stat ours, there;

	for (;; close(fd)) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno == ENOENT)
			return;
		if (fd < 0)
			fail(5, "cannot open lock file %s: %s", path, why(errno));
		while (flock(fd, how | LOCK_NB)) {
			if (errno != EWOULDBLOCK && errno != EINTR)
				fail(5, "cannot lock %s: %s", path, why(errno));
			if (now_us() >= deadline)
				fail(11, "another operation on this %s is still running: %s was held for %d.%d s",
				     scope, path, limit / 1000, limit / 100 % 10);
			usleep(10000);
		}
		if (!fstat(fd, &ours) && !stat(path, &there) && ours.st_ino == there.st_ino &&
		    ours.st_dev == there.st_dev)
			return; /* held until the process ends */
	}
}

static void remove_lock(void)
{
	unlink(lock_path);
}

/* Shuts out every other operation on the same sandbox, and garbage collection, for this call. */
void sandbox_lock(const char *command)
{
	int gc = !strcmp(command, "GC");

	if (!gc && strcmp(command, "ADD") && strcmp(command, "DEL") && strcmp(command, "CHECK"))
		return;
	if (!gc && sandbox_problem())
		return; /* the engine says so in detail; nothing can be attached under such a name */
	state_path(lock_path, ".gc.lock");
	lock(lock_path, gc ? LOCK_EX : LOCK_SH, "node");
	if (gc)
		return;
	state_path(lock_path, "%s.lock", setting("CNI_CONTAINERID", ""));
	lock(lock_path, LOCK_EX, "sandbox");
	atexit(remove_lock);
}
