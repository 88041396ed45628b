/* SPDX-License-Identifier: Apache-2.0
 * Which orders a call, or its teardown plan, may carry. The runtime decides what is done to which container. */
#include "shim.h"

/* The commands that each call may order. Calls that attach nothing may also detach leftovers of earlier calls. */
static const struct { const char *call, *commands[5]; } rules[] = {
	{ "ADD", { "ADD", "CHECK", "DEL", "VERSION" } }, { "CHECK", { "ADD", "CHECK", "DEL", "VERSION" } },
	{ "DEL", { "DEL", "VERSION" } }, { "GC", { "DEL", "GC", "VERSION" } },
	{ "STATUS", { "DEL", "STATUS", "VERSION" } }, { "AGENT", { "DEL", "VERSION" } },
};

/* The value that the delegate gets for this variable: the order's, else the shim's. */
const char *order_variable(const struct frame *order, const char *name)
{
	size_t len = strlen(name);
	for (int i = order->count - 1; i >= EXEC_ENV; i--)
		if (!strncmp(order->fields[i].data, name, len) && order->fields[i].data[len] == '=')
			return order->fields[i].data + len + 1;
	return setting(name, "");
}

/* Orders may set CNI variables only. Returns the position of an entry that is none, or 0. */
static int foreign_variable(const struct frame *order)
{
	for (int i = EXEC_ENV; i < order->count; i++) {
		struct field entry = order->fields[i];
		if (strncmp(entry.data, "CNI_", 4) || !is_text(entry) || !strchr(entry.data, '='))
			return i - EXEC_ENV + 1;
	}
	return 0;
}

static bool may_order(const struct call *call, const char *command)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		for (const char *const *each = rules[i].commands; call_is(call, rules[i].call) && *each; each++)
			if (!strcmp(*each, command))
				return true;
	return false;
}

/* True if a pod's network namespace is mounted at exactly that path. A compromised engine can make links, which could lead
 * elsewhere once the delegate opens the path, but no mounts. /var/run is a link of the system. */
bool is_mounted_at(const char *path)
{
	char target[PATH_SIZE];
	close(netns_target(path, target));
	return *target && (!strcmp(target, path) || (!strncmp(path, "/var/run/", 9) && !strcmp(target, path + 4)));
}

/* Replaces a path of another container's namespace that contains a link, `//` or `..` by the path where it is mounted. */
static bool resolve_netns(struct call *call, const char *path)
{
	char target[PATH_SIZE];
	close(netns_target(path, target));
	print(call->netns_entry, sizeof call->netns_entry, "CNI_NETNS=%s", target);
	return *target == '/' && is_mounted_at(target);
}

/* Checks the order's network namespace. A delegate never gets the runtime's, unless the runtime asked for it. The path must
 * be checked each time unless the runtime named it. A VERSION concerns no namespace: libcni passes a placeholder. */
static bool is_netns_allowed(struct call *call, bool is_version, bool is_own_container, const char *path)
{
	if (!*path || is_version)
		return !*path || !strcmp(path, "dummy");
	if (is_own_container && strcmp(path, call->netns))
		return false;
	if (is_own_container && !call->is_agent)
		return call->netns_override || netns_inspect(call, path, NULL) != NETNS_OWN;
	return is_mounted_at(path) || (!is_own_container && resolve_netns(call, path));
}

/* Returns whether the call may carry this EXEC order; appends the reason if not. */
bool order_allowed(struct call *call, const struct frame *order, struct buf *message)
{
	const char *command = order_variable(order, "CNI_COMMAND"), *netns = order_variable(order, "CNI_NETNS");
	const char *id = order_variable(order, "CNI_CONTAINERID");
	bool is_version = !strcmp(command, "VERSION"), is_own = !strcmp(id, call->container_id);
	int foreign = foreign_variable(order);
	*call->netns_entry = '\0';
	if (foreign)
		buf_print(message, "environment entry %d is not CNI_NAME=VALUE", foreign);
	else if (!may_order(call, command))
		buf_print(message, "CNI_COMMAND=%s cannot be part of %s", command, call->command);
	else if (!is_own && !is_version && (call_attaches(call) || strcmp(command, "DEL") || !is_container_id(id)))
		buf_print(message, "CNI_CONTAINERID=%s is not the container of this call", id);
	else if (!is_netns_allowed(call, is_version, is_own || call_attaches(call), netns))
		buf_print(message, "CNI_NETNS=%s is %s, or is the runtime's own", netns,
			  is_own || call_attaches(call) ? "not the network namespace of this call"
							: "not where a network namespace is mounted");
	return !message->len;
}
