/* SPDX-License-Identifier: Apache-2.0
 * The files of an attachment in the state directory, and those that Multus keeps of its container. */
#include <dirent.h>
#include <stdio.h> /* rename */
#include "shim.h"

#define PLAN_CAP (64u << 20)
#define MODE 0600
#define MODE_OF_DEL 0700 /* of a record whose DEL has begun */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

const char plan_record[] = "%s@%s.record", plan_tombstone[] = "%s@%s.detached", plan_default[] = "default.plan";
const char plan_absent[] = "it does not exist";

/* The path of one of the attachment's files in the state directory. */
void plan_file(const struct call *call, const char *format, char path[PATH_SIZE])
{
	char name[NAME_MAX + 1];
	print(name, sizeof name, format, call->container_id, call->ifname);
	print(path, PATH_SIZE, "%s/%s", call->state_dir, name);
}

bool plan_has(const struct call *call, const char *format)
{
	char path[PATH_SIZE];
	plan_file(call, format, path);
	return !access(path, F_OK);
}

/* Opens one of the attachment's files. Returns -1 with errno; ELOOP if another user may have written the file. */
static int open_own(const struct call *call, const char *format, mode_t *mode)
{
	char path[PATH_SIZE];
	plan_file(call, format, path);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -1;
	struct stat s = { 0 };
	fstat(fd, &s);
	*mode = s.st_mode & 07777;
	if (S_ISREG(s.st_mode) && !s.st_uid && s.st_nlink == 1 && (*mode == MODE || *mode == MODE_OF_DEL))
		return fd;
	close(fd);
	errno = ELOOP;
	return -1;
}

/* Marks the record, if there is one, before a DEL. A runtime may kill the call at any time and never repeat it, so
 * plexusd detaches the attachments of marked records. The mark is in the mode: it needs no disk space and no sync, and
 * is removed with the record. After a power loss it may be missing, but the record is then from an earlier boot. */
void plan_mark(const struct call *call)
{
	mode_t mode;
	int fd = open_own(call, plan_record, &mode);
	if (fd >= 0 && mode == MODE)
		(void)!fchmod(fd, MODE_OF_DEL);
	close(fd);
}

/* Reads and checks a plan. Returns what is wrong with it, or NULL if it can be used. `*error` is the errno of a file
 * that could not be read, else 0. */
const char *plan_load(const struct call *call, const char *format, struct plan *plan, int *error)
{
	bool is_default = format == plan_default;
	mode_t mode;
	plan->bytes.len = 0;
	int fd = open_own(call, format, &mode), cause = 0;
	if (fd < 0 || read_all(fd, &plan->bytes, PLAN_CAP, -1))
		cause = errno;
	close(fd);
	*error = cause == ENOENT || cause == ELOOP ? 0 : cause;
	if (cause == ENOENT)
		return plan_absent;
	if (cause == ELOOP)
		return "it is not a regular file of root's with mode 0600 or 0700 and one link";
	if (cause)
		return errno_text(cause);
	if (!plan_parse(plan, is_default ? "" : call->container_id, is_default ? "" : call->ifname))
		return "it is truncated, altered, of another attachment, or of a plan version other than " PLAN_VERSION;
	return NULL;
}

/* True if the machine was restarted since the plan was made: what it says of attempts may then be outdated. */
bool plan_is_of_other_boot(const struct plan *plan)
{
	int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	struct buf now = { 0 };
	bool other = true;
	if (fd >= 0 && !read_all(fd, &now, PATH_SIZE, -1)) {
		now.data[strcspn(now.data, "\n")] = '\0';
		other = !field_is(plan->boot_id, now.data);
	}
	close(fd);
	buf_free(&now);
	return other;
}

/* Replaces the record with the tombstone, an empty file. Until then there is a plan, so that a DEL that is killed can
 * be repeated. plexusd can write to the state directory, so a link in place of the tombstone is not followed. Returns
 * -1 on failure. */
int plan_forget(const struct call *call)
{
	char path[PATH_SIZE], tombstone[PATH_SIZE];
	plan_file(call, plan_tombstone, tombstone);
	plan_file(call, plan_record, path);
	if (rename(path, tombstone) && errno != ENOENT)
		return -1;
	int fd = open(tombstone, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return fd < 0 ? -1 : close(fd);
}

static void multus_path(const char *name, char path[PATH_SIZE])
{
	print(path, PATH_SIZE, "%s/%s", setting("PLEXUS_MULTUS_DIR", MULTUS_DIR), name);
}

/* True unless it is certain that Multus keeps no file of the call's container. */
bool multus_has(const struct call *call)
{
	char path[PATH_SIZE];
	multus_path(call->container_id, path);
	return !access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR);
}

/* Removes what Multus keeps of the call's container, once a record has replaced it. plexusd, which makes that record,
 * can only read these files. */
void multus_clean(const struct call *call)
{
	char path[PATH_SIZE], part[NAME_MAX + 1];
	struct dirent *entry;
	DIR *results;
	if (!multus_has(call) || !(plan_has(call, plan_record) || plan_has(call, plan_tombstone)))
		return;
	multus_path("results", path);
	print(part, sizeof part, "-%s-", call->container_id);
	results = opendir(path);
	while (results && (entry = readdir(results)))
		if (strstr(entry->d_name, part))
			unlinkat(dirfd(results), entry->d_name, 0);
	if (results)
		closedir(results);
	multus_path(call->container_id, path);
	unlink(path);
}
