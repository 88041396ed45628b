/* SPDX-License-Identifier: Apache-2.0
 * The sandbox that a call is for: are its names safe as file names, and its lock. */
#include <sys/file.h>
#include "shim.h"

/* Tells what is wrong with the call's CNI_COMMAND, CNI_CONTAINERID or CNI_IFNAME, NULL when nothing
 * is: then the names can be part of a path. */
const char *sandbox_problem(const char *command)
{
	static struct buf unknown;
	static const char word[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-";
	const char *id = setting("CNI_CONTAINERID", ""), *ifname = setting("CNI_IFNAME", "");

	if (!strcmp(command, "GC") || !strcmp(command, "STATUS"))
		return NULL;
	unknown.len = 0;
	if (strcmp(command, "ADD") && strcmp(command, "DEL") && strcmp(command, "CHECK"))
		return buf_print(&unknown, "unknown CNI_COMMAND: %s", command);
	if (!*id || !*ifname)
		return "required env variables [CNI_CONTAINERID,CNI_IFNAME] missing";
	if (strchr("_.-", *id) || id[strspn(id, word)] || strlen(id) > 200)
		return "invalid characters in containerID, or more than 200";
	if (strlen(ifname) > 15 || !strcmp(ifname, ".") || !strcmp(ifname, ".."))
		return "interface name is too long, or . or ..";
	if (strpbrk(ifname, "/: \t\n\v\f\r"))
		return "interface name contains / or : or whitespace characters";
	return NULL;
}

/* Takes a lock, waiting for its holders. The file may have been removed by its last holder in the
 * meantime; then the lock is on nothing, and it is taken again. A state directory that does not
 * exist means that nothing was ever attached here: then there is nothing to lock. */
static void lock(const char *path, int how, const char *scope)
{
	int limit = setting_ms("PLEXUS_LOCK_MS", 60000), fd;
	int64_t deadline = now_us() + limit * 1000LL;

	for (;; close(fd)) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno == ENOENT)
			return;
		while (fd < 0 || flock(fd, how | LOCK_NB)) {
			if (errno != EWOULDBLOCK)
				fail(5, "cannot lock %s: %s", path, why(errno));
			if (now_us() >= deadline)
				fail(11, "another operation on this %s is still running: %s was held "
					 "for %d ms", scope, path, limit);
			usleep(10000);
		}
		if (is_file(fd, path))
			return; /* held until the process ends */
	}
}

static struct buf sandbox_file;

static void remove_lock(void)
{
	unlink(sandbox_file.data);
}

/* Shuts out every other operation on the same sandbox, and garbage collection, for this call. */
void sandbox_lock(const char *command)
{
	const char *dir = setting("PLEXUS_STATE_DIR", STATE_DIR);
	static struct buf node_file;
	int gc = !strcmp(command, "GC");

	if (!strcmp(command, "STATUS") || sandbox_problem(command))
		return; /* an engine tells problems in detail; nothing can be attached under such a name */
	lock(buf_print(&node_file, "%s/.gc.lock", dir), gc ? LOCK_EX : LOCK_SH, "node");
	if (gc)
		return;
	lock(buf_print(&sandbox_file, "%s/%s.lock", dir, setting("CNI_CONTAINERID", "")), LOCK_EX, "sandbox");
	atexit(remove_lock);
}
