/* SPDX-License-Identifier: Apache-2.0
 * The call as the runtime made it, and the REQUEST that carries it to an engine. */
#include "shim.h"

/* An environment variable, or the fallback when it is not set; set but empty stays empty. */
const char *setting(const char *name, const char *fallback)
{
	const char *value = getenv(name);

	return value ? value : fallback;
}

int setting_ms(const char *name, int fallback)
{
	int ms = field_number(text(setting(name, "")));

	return ms < 0 ? fallback : ms;
}

/* Fills in what the environment holds; the call is all zeros before. */
void call_init(struct call *call)
{
	call->command = setting("CNI_COMMAND", "");
	call->container_id = setting("CNI_CONTAINERID", "");
	call->ifname = setting("CNI_IFNAME", "");
	call->netns = setting("CNI_NETNS", "");
	call->path = setting("CNI_PATH", "");
	call->netns_override = !strcmp(setting("CNI_NETNS_OVERRIDE", ""), "1") ||
			       !strcasecmp(setting("CNI_NETNS_OVERRIDE", ""), "true");
	call->state_dir = setting("PLEXUS_STATE_DIR", STATE_DIR);
	call->inherited_lock = -1;
	call->node_lock = -1;
	call->started_us = clock_us(CLOCK_REALTIME);
	strcpy(call->cni_version, "1.1.0");
}

bool call_is(const struct call *call, const char *command)
{
	return !strcmp(call->command, command);
}

/* True for the commands whose orders are about the call's own container alone. */
bool call_attaches(const struct call *call)
{
	return call_is(call, "ADD") || call_is(call, "CHECK");
}

/* Takes the version to answer with from the configuration's text: the first "cniVersion" key
 * with a version for a value. No parser: a wrong guess only changes a field that callers ignore. */
void call_find_version(struct call *call, const char *conf)
{
	static const char key[] = "\"cniVersion\"";
	size_t len;

	while ((conf = strchr(conf, '"'))) {
		if (strncmp(conf++, key, sizeof key - 1))
			continue;
		conf += sizeof key - 2;
		conf += strspn(conf, ": \t\r\n");
		if (*conf != '"')
			continue;
		len = strspn(conf + 1, "0123456789.");
		if (len && len < sizeof call->cni_version && conf[1 + len] == '"') {
			memcpy(call->cni_version, conf + 1, len);
			call->cni_version[len] = '\0';
			return;
		}
	}
}

/* True for what CNI allows as a container's ID, within the length that file names have room for. */
bool is_container_id(const char *id)
{
	static const char allowed[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-";

	return *id && !strchr("_.-", *id) && !id[strspn(id, allowed)] && strlen(id) <= 200;
}

/* Checks CNI_COMMAND, and the names that become parts of paths; what is wrong goes into `problem`. */
void call_check(struct call *call)
{
	const char *id = call->container_id, *ifname = call->ifname, *problem = "";

	if (call_is(call, "GC") || call_is(call, "STATUS"))
		return;
	if (!call_is(call, "ADD") && !call_is(call, "DEL") && !call_is(call, "CHECK")) {
		buf_print(&call->problem, "unknown CNI_COMMAND: %s", call->command);
		return;
	}
	if (!*id || !*ifname)
		problem = "required env variables [CNI_CONTAINERID,CNI_IFNAME] missing";
	else if (!is_container_id(id))
		problem = "invalid characters in containerID, or more than 200";
	else if (strlen(ifname) > 15 || !strcmp(ifname, ".") || !strcmp(ifname, ".."))
		problem = "interface name is too long, or . or ..";
	else if (strpbrk(ifname, "/: \t\n\v\f\r"))
		problem = "interface name contains / or : or whitespace characters";
	buf_print(&call->problem, "%s", problem);
}

/* The one frame that the shim sends unasked: the input and the CNI variables. */
void call_request(struct call *call, struct buf *request)
{
	static const char *const netns[] = {
		[NETNS_OK] = "PLEXUS_NETNS=ok", [NETNS_OWN] = "PLEXUS_NETNS=own",
		[NETNS_GONE] = "PLEXUS_NETNS=gone", [NETNS_UNKNOWN] = "PLEXUS_NETNS=unknown",
	};
	struct frame f = { .count = 2, .fields = { text(PROTOCOL_VERSION), content(&call->conf) } };
	char started[64], digits[NUMBER_SIZE];

	if (*call->netns)
		f.fields[f.count++] = text(netns[netns_state(call->netns)]);
	if (call_is(call, "AGENT") && *setting("PLEXUS_AGENT", ""))
		f.fields[f.count++] = text("PLEXUS_AGENT=once");
	if (getenv("PLEXUS_TRACE")) {
		print(started, sizeof started, "PLEXUS_STARTED_US=%s", number(digits, call->started_us).data);
		f.fields[f.count++] = text(started);
	}
	for (char **e = environ; *e; e++) {
		if (strncmp(*e, "CNI_", 4) && strncmp(*e, "PLEXUS_TRACE=", 13))
			continue;
		if (f.count == FIELDS_MAX)
			fail(call, CNI_INVALID_ENVIRONMENT, "there are more than %d CNI variables", FIELDS_MAX - 5);
		f.fields[f.count++] = text(*e);
	}
	frame_write(request, FRAME_REQUEST, f.fields, f.count);
}
