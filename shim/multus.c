/* SPDX-License-Identifier: Apache-2.0
 * What Multus keeps of the containers that it attached. plexusd may only read it: it has it removed once a
 * record of its own has taken its place. */
#include "shim.h"

static int remove_file(const char *format, const char *name)
{
	char path[PATH_SIZE];

	print(path, sizeof path, format, setting("PLEXUS_MULTUS_DIR", MULTUS_DIR), name);
	return unlink(path) && errno != ENOENT && errno != ENOTDIR ? errno : 0;
}

/* Carries out one FORGET order: removes the files of one container, none of which need exist. Only a call that
 * attaches nothing may do that. Returns errno, 0 when they are gone. */
int forget_order(const struct call *call, const struct frame *f)
{
	const char *id = f->fields[0].data;
	char part[256];
	int error = 0;

	if (call_attaches(call) || !is_container_id(id))
		return EPERM;
	print(part, sizeof part, "-%s-", id);
	for (int i = 1; i < f->count; i++)
		if (strchr(f->fields[i].data, '/') || !strstr(f->fields[i].data, part))
			return EPERM;
	for (int i = 1; i < f->count && !error; i++)
		error = remove_file("%s/results/%s", f->fields[i].data);
	return error ? error : remove_file("%s/%s", id);
}

/* True unless it is certain that Multus keeps no file of the container. */
bool multus_has(const char *id)
{
	char path[PATH_SIZE];

	print(path, sizeof path, "%s/%s", setting("PLEXUS_MULTUS_DIR", MULTUS_DIR), id);
	return !access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR);
}
