/* SPDX-License-Identifier: Apache-2.0
 * The files of an attachment in the state directory, of which the shim needs the plan only. */
#include <stdio.h> /* rename */
#include "shim.h"

#define PLAN_CAP (64u << 20)
#define MODE 0600
#define MODE_OF_DEL 0700 /* of a record whose DEL has begun */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

const char plan_record[] = "%s@%s.record", plan_tombstone[] = "%s@%s.detached";
const char plan_default[] = "default.plan"; /* names no attachment: it is for those without a record */
/* Of an earlier release: record and plan, and an update beside each. */
const char plan_old[] = "%s@%s.teardown", plan_old_latest[] = "%s@%s.teardown.latest";
static const char *const old_files[] = { "%s@%s.json.latest", "%s@%s.json", plan_old_latest, plan_old };
const char plan_absent[] = "it does not exist";

/* The path of one of the attachment's files in the state directory. */
void plan_file(const struct call *call, const char *format, char path[PATH_SIZE])
{
	char name[NAME_MAX + 1];

	print(name, sizeof name, format, call->container_id, call->ifname);
	print(path, PATH_SIZE, "%s/%s", call->state_dir, name);
}

/* True for a file that nobody but root can have written. */
static bool is_own(const struct stat *s)
{
	return S_ISREG(s->st_mode) && !s->st_uid && s->st_nlink == 1 &&
	       ((s->st_mode & 07777) == MODE || (s->st_mode & 07777) == MODE_OF_DEL);
}

/* Marks the record, where there is one: its sandbox is to be detached. A runtime may end this call at any time and
 * never repeat it; plexusd detaches what is marked. The mark is in the mode, as that needs no room on the disk and no
 * sync, and goes with the record. A power loss may take it away: then the record is from an earlier boot. */
void plan_mark(const struct call *call)
{
	char path[PATH_SIZE];
	struct stat s;
	int fd;

	plan_file(call, plan_record, path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	if (!fstat(fd, &s) && is_own(&s) && (s.st_mode & 07777) == MODE)
		(void)!fchmod(fd, MODE_OF_DEL);
	close(fd);
}

/* Reads and checks a plan that nobody but root can have written. Returns what is wrong with it, NULL when
 * it can be used; `*error` is the errno of one that could not be read, else 0. */
const char *plan_load(const struct call *call, const char *format, struct plan *plan, int *error)
{
	const char *problem = "it is not a regular file of root's, of mode 0600 or 0700 and with one link";
	char path[PATH_SIZE];
	bool is_default = format == plan_default;
	struct stat s;
	int fd;

	plan_file(call, format, path);
	plan->bytes.len = 0;
	*error = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return plan_absent;
	if (fd < 0 && errno == ELOOP)
		return problem;
	if (fd < 0 || fstat(fd, &s)) {
		*error = errno;
		problem = errno_text(errno);
	} else if (is_own(&s)) {
		*error = read_all(fd, &plan->bytes, PLAN_CAP, -1) ? errno : 0;
		problem = *error ? errno_text(*error) :
			  plan_parse(plan, is_default ? "" : call->container_id, is_default ? "" : call->ifname) ? NULL : "it is cut short, altered, "
			  "or of another attachment or release";
	}
	close(fd);
	return problem;
}

/* True when the machine was started again since the plan was made: what it says of attempts may then be
 * older than what happened. */
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

/* Makes an empty file, but empties none that somebody else has linked to in its place: plexusd can write to the state
 * directory, and must not reach further by way of a link there. */
static int empty(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

	return fd < 0 ? -1 : close(fd);
}

/* Makes the record the sign that all of it is detached. Until the last moment there is a plan, so that a DEL
 * that is cut short can be repeated. Returns -1 when that failed. */
int plan_forget(const struct call *call)
{
	char path[PATH_SIZE], tombstone[PATH_SIZE];

	plan_file(call, plan_tombstone, tombstone);
	plan_file(call, plan_record, path);
	if (rename(path, tombstone) && errno != ENOENT)
		return -1;
	if (empty(tombstone))
		return -1;
	for (size_t i = 0; i < sizeof old_files / sizeof *old_files; i++) {
		plan_file(call, old_files[i], path);
		if (unlink(path) && errno != ENOENT)
			return -1;
	}
	return 0;
}
