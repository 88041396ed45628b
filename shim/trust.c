/* SPDX-License-Identifier: Apache-2.0
 * Which plugins may be run. An engine that was taken over must not get further than the plugins that
 * the node's administrator has installed.
 *
 * The directories of the call's own CNI_PATH are trusted as the runtime trusts them: whoever owns them,
 * with whatever links, and relative ones as well. Any other directory counts only where the file
 * /etc/plexus/plugin-dirs lists it, and where from the root of the file system down to the plugin there
 * is nothing that anybody but root can replace: no link, and every component root's and writable by root
 * alone. So nobody can change it between the check and the execution either. */
#include "shim.h"

#define LIST_CAP (64u << 10)

/* True when nobody but root decides what is at this absolute path, of which the first `dir` bytes name
 * the directory that counts. Where others may add entries but not replace root's, as in /tmp, it will do
 * only for what is above that directory. */
static bool is_roots(const char *path, size_t dir, mode_t type)
{
	char part[PATH_SIZE] = "/";
	struct stat s;
	size_t len = 0;

	for (;;) {
		if (lstat(part, &s) || s.st_uid || (s.st_mode & S_IFMT) != (len && !path[len] ? type : S_IFDIR))
			return false;
		if (s.st_mode & 022 && (len >= dir || !(s.st_mode & S_ISVTX)))
			return false;
		if (len && !path[len])
			return true;
		len += 1 + strcspn(path + len + 1, "/");
		print(part, sizeof part, "%.*s", (int)len, path);
	}
}

/* The length of a directory's name without slashes at its end. */
static size_t trimmed(const char *name, size_t len)
{
	while (len > 1 && name[len - 1] == '/')
		len--;
	return len;
}

/* True when the list has that directory as an entry. */
static bool list_has(const char *list, const char *separators, const char *dir, size_t len)
{
	size_t size;

	len = trimmed(dir, len);
	for (; *list; list += size + (list[size] != '\0')) {
		size = strcspn(list, separators);
		if (size && trimmed(list, size) == len && !memcmp(list, dir, len))
			return true;
	}
	return false;
}

/* True when the administrator's file lists the directory. Lines that do not begin with a slash, such as
 * comments, are never equal to an absolute path. */
static bool is_listed(const char *dir, size_t len)
{
	const char *path = setting("PLEXUS_PLUGIN_DIRS", PLUGIN_DIRS), *slash = strrchr(path, '/');
	struct buf list = { 0 };
	bool listed = false;
	int fd = -1;

	if (*path == '/' && *dir == '/' && is_roots(path, (size_t)(slash - path), S_IFREG))
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && !read_all(fd, &list, LIST_CAP, -1))
		listed = list_has(list.data, "\n", dir, len);
	close(fd);
	buf_free(&list);
	return listed;
}

/* True when what is at the path may be run, or used as a directory of plugins; the directory's name is
 * its first `dir` bytes. */
static bool is_trusted(const struct call *call, const char *path, size_t dir, mode_t type)
{
	return list_has(call->path, ":", path, dir) || (is_listed(path, dir) && is_roots(path, dir, type));
}

/* Appends the entries of a search path that the list does not have yet; of those that are not trusted,
 * only where `untrusted` says so. */
static void append(const struct call *call, const char *path, bool untrusted, struct buf *list)
{
	char dir[PATH_SIZE];
	size_t len;

	buf_add(list, "", 0);
	for (; *path; path += len + (path[len] == ':')) {
		len = strcspn(path, ":");
		print(dir, sizeof dir, "%.*s", (int)len, path);
		if (len == 0 || len >= PATH_MAX || list_has(list->data, ":", dir, len) ||
		    !(untrusted || is_trusted(call, dir, len, S_IFDIR)))
			continue;
		buf_add(list, ":", list->len ? 1 : 0);
		buf_add(list, dir, len);
	}
}

/* The directories to look in for an order: its own and, except where networks are attached, those of the
 * call, as plugins may have been moved between ADD and DEL. */
static void search_path(const struct call *call, const char *order, struct buf *list)
{
	append(call, order, true, list);
	if (!call_attaches(call))
		append(call, call->path, true, list);
}

/* Appends the CNI_PATH that a delegate gets, where it looks for plugins by itself: what is trusted of the
 * order's, then the call's. */
void trusted_path(const struct call *call, const char *order, struct buf *list)
{
	append(call, order, false, list);
	append(call, call->path, true, list);
}

/* Looks in the directories of a list; see plugin_find. */
static const char *find_in(const struct call *call, const char *type, const struct buf *list,
			   char path[PATH_SIZE], char message[PATH_SIZE])
{
	const char *outcome = "missing";
	struct stat file;
	size_t len;

	print(message, PATH_SIZE, "no plugin \"%s\" in \"%s\"", type, list->data);
	for (const char *dir = list->data; *dir; dir += len + (dir[len] == ':')) {
		len = strcspn(dir, ":");
		print(path, PATH_SIZE, "%.*s/%s", (int)len, dir, type);
		if (stat(path, &file) || !S_ISREG(file.st_mode))
			continue;
		if (is_trusted(call, path, len, S_IFREG))
			return "found";
		if (!strcmp(outcome, "missing"))
			print(message, PATH_SIZE, "directory %.*s of plugin \"%s\" is not trusted: it is not in "
				 "the runtime's CNI_PATH; %s must list it, and all of its path must be root's, "
				 "writable by root alone and without links", (int)len, dir, type,
				 setting("PLEXUS_PLUGIN_DIRS", PLUGIN_DIRS));
		outcome = "refused";
	}
	return outcome;
}

/* Finds a plugin as libcni does: the first regular file of that name in the search path, here among those
 * that may be run. Returns the outcome as FIND_RESULT has it, and either the plugin's path or why not. */
const char *plugin_find(const struct call *call, struct field type, const char *search, char path[PATH_SIZE],
			char message[PATH_SIZE])
{
	const char *name = type.data, *outcome;
	struct buf list = { 0 };

	if (!*name || !is_text(type) || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..")) {
		print(message, PATH_SIZE, "plugin type \"%s\" is not a plain file name", name);
		return "refused";
	}
	search_path(call, search, &list);
	outcome = find_in(call, name, &list, path, message);
	buf_free(&list);
	return outcome;
}
