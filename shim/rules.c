/* SPDX-License-Identifier: Apache-2.0
 * Which orders a call may carry. The runtime decides what is done to which container; an engine only
 * decides how. Steps of a teardown plan obey the same rules. */
#include "shim.h"

/* The commands that each call may order. What was attached can be detached again in any call, and what
 * earlier calls have left over in those that attach nothing. */
static const struct { const char *call, *commands[5]; } rules[] = {
	{ "ADD", { "ADD", "CHECK", "DEL", "VERSION" } }, { "CHECK", { "ADD", "CHECK", "DEL", "VERSION" } },
	{ "DEL", { "DEL", "VERSION" } }, { "GC", { "DEL", "GC", "VERSION" } },
	{ "STATUS", { "DEL", "STATUS", "VERSION" } }, { "AGENT", { "DEL", "VERSION" } },
};

/* What the delegate gets as this variable: the order's, else the shim's own. */
const char *order_variable(const struct frame *order, const char *name)
{
	size_t len = strlen(name);

	for (int i = order->count - 1; i >= EXEC_ENV; i--)
		if (!strncmp(order->fields[i].data, name, len) && order->fields[i].data[len] == '=')
			return order->fields[i].data + len + 1;
	return setting(name, "");
}

/* Orders may replace CNI's variables only. */
static bool has_cni_variables(const struct frame *order, char message[PATH_SIZE])
{
	struct field entry;

	for (int i = EXEC_ENV; i < order->count; i++) {
		entry = order->fields[i];
		if (!strncmp(entry.data, "CNI_", 4) && is_text(entry) && strchr(entry.data, '='))
			continue;
		print(message, PATH_SIZE, "environment entry %d is not CNI_NAME=VALUE", i - EXEC_ENV + 1);
		return false;
	}
	return true;
}

static bool may_order(const struct call *call, const char *command)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		for (const char *const *each = rules[i].commands; call_is(call, rules[i].call) && *each; each++)
			if (!strcmp(*each, command))
				return true;
	return false;
}

/* True when a pod's network namespace is mounted at just that path. The engine chooses the paths of other containers'
 * namespaces: were there a link on the way, it could lead elsewhere once the delegate opens it. An engine that was
 * taken over can make links, but no mounts. /var/run is a link of the system's own. */
static bool is_mounted_at(const char *path)
{
	char link[64], target[PATH_SIZE] = "";
	int fd = netns_open(path);
	bool is_pod = fd >= 0 && !is_file(fd, OWN_NETNS);

	print(link, sizeof link, "/proc/self/fd/%d", fd);
	if (!is_pod || readlink(link, target, sizeof target - 1) < 0)
		is_pod = false;
	close(fd);
	return is_pod && (!strcmp(target, path) || (!strncmp(path, "/var/run/", 9) && !strcmp(target, path + 4)));
}

/* Checks the order's network namespace. The runtime's own is never given to a delegate, unless the
 * runtime has asked for just that. A VERSION is about no namespace: libcni's placeholder stands for it. */
static bool is_netns_allowed(const struct call *call, bool is_version, bool is_own_container, const char *path)
{
	if (!*path || is_version)
		return !*path || !strcmp(path, "dummy");
	if (is_own_container)
		return !strcmp(path, call->netns) && (call->netns_override || netns_state(path) != NETNS_OWN);
	return is_mounted_at(path);
}

/* Returns false, and why in one line, when the call may not carry this EXEC order. */
bool order_allowed(const struct call *call, const struct frame *order, char message[PATH_SIZE])
{
	const char *command = order_variable(order, "CNI_COMMAND"), *netns = order_variable(order, "CNI_NETNS");
	const char *id = order_variable(order, "CNI_CONTAINERID");
	bool is_version = !strcmp(command, "VERSION"), is_own = !strcmp(id, call->container_id);

	if (!has_cni_variables(order, message))
		return false;
	if (!may_order(call, command))
		print(message, PATH_SIZE, "CNI_COMMAND=%s cannot be part of %s", command, call->command);
	else if (!is_own && !is_version && (call_attaches(call) || strcmp(command, "DEL")))
		print(message, PATH_SIZE, "CNI_CONTAINERID=%s is another container than this call's", id);
	else if (!is_netns_allowed(call, is_version, is_own || call_attaches(call), netns))
		print(message, PATH_SIZE, "CNI_NETNS=%s is %s", netns, is_own || call_attaches(call)
			 ? "another network namespace than this call's, or the runtime's own"
			 : "not where a network namespace is mounted, or the runtime's own");
	else
		return true;
	return false;
}
