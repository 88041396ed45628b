/* SPDX-License-Identifier: Apache-2.0
 * Which plugins may be run. A compromised engine must reach only the plugins that the node's administrator installed.
 *
 * The directories of a runtime's CNI_PATH are trusted as the runtime trusts them: with any owner, or relative. So are those
 * of an agent with --any-owner. Others must be in the agent's CNI_PATH, or be listed in /etc/plexus/plugin-dirs, and every
 * component of the plugin's path must be root's and writable by root alone. So no other user can replace it between the
 * check and the execution. */
#include "shim.h"

#define LIST_CAP (64u << 10)

/* Replaces the link at the path's first `len` bytes by its target. Returns false if that cannot be read. */
bool link_resolve(char path[PATH_SIZE], size_t len)
{
	char link[PATH_SIZE], target[PATH_SIZE];
	print(link, sizeof link, "%.*s", (int)len, path);
	ssize_t size = readlink(link, target, sizeof target - 1);
	if (size <= 0)
		return false;
	target[size] = '\0';
	struct buf whole = { 0 };
	if (*target != '/')
		buf_print(&whole, "%.*s/", (int)(strrchr(link, '/') - link), link);
	buf_print(&whole, "%s%s", target, path + len);
	print(path, PATH_SIZE, "%s", whole.data);
	buf_free(&whole);
	return true;
}

/* True if only root decides what is at this absolute path, and where its links lead. Root's group counts as root, as archives
 * of plugins make their directory writable by it. Above the directory, others may add entries if they cannot replace
 * root's, as in /tmp. */
static bool is_roots(const char *name, mode_t type)
{
	char path[PATH_SIZE], part[PATH_SIZE] = "/";
	int links = 0;
	struct stat s;
	print(path, sizeof path, "%s", name);
	for (size_t len = 0;;) {
		size_t dir = type == S_IFDIR ? strlen(path) : (size_t)(strrchr(path, '/') - path);
		bool is_last = len && !path[len];
		if (lstat(part, &s) || s.st_uid)
			return false;
		if (S_ISLNK(s.st_mode)) {
			if (++links > LINKS_MAX || !link_resolve(path, len))
				return false;
			len = 0;
			strcpy(part, "/");
			continue;
		}
		if ((s.st_mode & S_IFMT) != (is_last ? type : S_IFDIR))
			return false;
		if (s.st_mode & (s.st_gid ? 022 : 002) && (len >= dir || !(s.st_mode & S_ISVTX)))
			return false;
		if (is_last)
			return true;
		len += 1 + strcspn(path + len + 1, "/");
		print(part, sizeof part, "%.*s", (int)len, path);
	}
}

/* The length of a directory's name without slashes at its end. */
static size_t trimmed(const char *name, size_t len)
{
	while (len && name[len - 1] == '/')
		len--;
	return len;
}

static bool list_has(const char *list, const char *separators, const char *dir, size_t len)
{
	len = trimmed(dir, len);
	for (size_t size; *list; list += size + (list[size] != '\0')) {
		size = strcspn(list, separators);
		if (size && trimmed(list, size) == len && !memcmp(list, dir, len))
			return true;
	}
	return false;
}

/* True if the administrator's file lists the directory. Comments never equal an absolute path. */
static bool is_listed(const char *dir, size_t len)
{
	const char *path = setting("PLEXUS_PLUGIN_DIRS", PLUGIN_DIRS);
	struct buf list = { 0 };
	bool listed = *path == '/' && *dir == '/' && is_roots(path, S_IFREG) && !read_file(path, &list, LIST_CAP) &&
		list_has(list.data, "\n", dir, len);
	buf_free(&list);
	return listed;
}

static bool is_known(const struct call *call, const char *dir, size_t len)
{
	return list_has(call->path, ":", dir, len) || is_listed(dir, len);
}

/* True if a plugin, or a directory of plugins, may be used. Its first `dir` bytes name the directory. */
static bool is_trusted(const struct call *call, const char *path, size_t dir, mode_t type)
{
	if (!call->checks_owners && list_has(call->path, ":", path, dir))
		return true;
	return *path == '/' && is_known(call, path, dir) && is_roots(path, type);
}

/* Appends the entries of a search path that the list lacks; untrusted ones only if `untrusted`. */
static void append(const struct call *call, const char *path, bool untrusted, struct buf *list)
{
	char dir[PATH_SIZE];
	buf_add(list, "", 0);
	for (size_t len; *path; path += len + (path[len] == ':')) {
		len = strcspn(path, ":");
		print(dir, sizeof dir, "%.*s", (int)len, path);
		if (len == 0 || len >= PATH_MAX || list_has(list->data, ":", dir, len))
			continue;
		if (untrusted || is_trusted(call, dir, len, S_IFDIR))
			buf_print(list, "%s%s", list->len ? ":" : "", dir);
	}
}

/* Appends the CNI_PATH of a delegate: the trusted part of the order's, then the call's. What the agent attaches, the runtime
 * detaches, so its plugins find others only where the order says that those of the runtime do. */
void trusted_path(const struct call *call, const char *order, struct buf *list)
{
	append(call, order, false, list);
	if (!call->is_agent || !call_attaches(call))
		append(call, call->path, false, list);
}

/* Finds a plugin as libcni does: the first regular file of that name in the order's search path that may be run. Calls
 * that attach nothing search the call's directories too, as plugins may have been moved since the ADD. Looks only into the
 * call's directories and the listed ones, so that an engine does not learn which files exist. Returns NULL, with
 * the plugin's path, or the outcome of FIND_RESULT, with a message. */
const char *plugin_find(const struct call *call, struct field type, const char *search, char path[PATH_SIZE],
			struct buf *message)
{
	const char *name = type.data, *outcome = "missing";
	struct buf list = { 0 };
	struct stat file;
	if (!*name || !is_text(type) || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..")) {
		buf_print(message, "plugin type \"%s\" is not a plain file name", name);
		return "refused";
	}
	append(call, search, true, &list);
	if (!call_attaches(call))
		append(call, call->path, true, &list);
	size_t len;
	for (const char *dir = list.data; *dir && outcome; dir += len + (dir[len] == ':')) {
		len = strcspn(dir, ":");
		print(path, PATH_SIZE, "%.*s/%s", (int)len, dir, name);
		bool may_be = is_known(call, dir, len);
		if (may_be && (stat(path, &file) || !S_ISREG(file.st_mode)))
			continue;
		outcome = is_trusted(call, path, len, S_IFREG) ? NULL : "refused";
		if (!outcome || message->len)
			continue;
		if (may_be)
			buf_print(message, "plugin \"%s\" in %.*s is not trusted: make every component of its path root's and "
				  "writable by root alone%s", name, (int)len, dir,
				  list_has(call->path, ":", dir, len) ? ", or start plexus agent with --any-owner" : "");
		else
			buf_print(message, "directory %.*s of plugin \"%s\" is not trusted: add it to the %s's CNI_PATH, or list "
				  "it in %s", (int)len, dir, name, call->is_agent ? "agent" : "runtime",
				  setting("PLEXUS_PLUGIN_DIRS", PLUGIN_DIRS));
	}
	if (outcome && !message->len)
		buf_print(message, "no plugin \"%s\" in \"%s\"", name, list.data);
	buf_free(&list);
	return outcome;
}
