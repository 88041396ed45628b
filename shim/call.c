/* SPDX-License-Identifier: Apache-2.0
 * The call as the runtime made it, and its end with an error of the shim. */
#include "shim.h"

#define MESSAGE_MAX 4096

/* An environment variable, or the fallback if it is not set. One that is set but empty stays empty. */
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

/* Fills in the settings of the environment. The call is all zeros before. */
void call_init(struct call *call)
{
	const char *override = setting("CNI_NETNS_OVERRIDE", "");
	call->command = setting("CNI_COMMAND", "");
	call->container_id = setting("CNI_CONTAINERID", "");
	call->ifname = setting("CNI_IFNAME", "");
	call->netns = setting("CNI_NETNS", "");
	call->path = setting("CNI_PATH", "");
	call->netns_override = !strcmp(override, "1") || !strcasecmp(override, "true");
	call->state_dir = setting("PLEXUS_STATE_DIR", STATE_DIR);
	call->silence_ms = setting_ms("PLEXUS_SILENCE_MS", SILENCE_MS);
	call->idle = call->inherited_lock = call->node_lock = call->docker_lock = -1;
	call->started_us = now_us();
	strcpy(call->cni_version, "1.1.0");
}

/* Finds the version to answer with: the first "cniVersion" that is one. No JSON parser, as runtimes ignore that field. */
void call_find_version(struct call *call, const char *conf)
{
	static const char key[] = "\"cniVersion\"";
	while ((conf = strstr(conf, key))) {
		conf += sizeof key - 1;
		conf += strspn(conf, ": \t\r\n");
		size_t len = *conf == '"' ? strspn(conf + 1, "0123456789.") : 0;
		if (len && len < sizeof call->cni_version && conf[1 + len] == '"') {
			print(call->cni_version, len + 1, "%s", conf + 1);
			return;
		}
	}
}

/* True for a container ID that CNI allows and that fits into a file name. */
bool is_container_id(const char *id)
{
	static const char allowed[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-";
	return !strchr("_.-", *id) && !id[strspn(id, allowed)] && strlen(id) <= 200;
}

/* Checks CNI_COMMAND and the names that become parts of paths. Writes what is wrong to `problem`. */
void call_check(struct call *call)
{
	const char *id = call->container_id, *ifname = call->ifname;
	struct buf *problem = &call->problem;
	if (call_is(call, "GC") || call_is(call, "STATUS"))
		return;
	if (!call_attaches(call) && !call_is(call, "DEL"))
		buf_print(problem, "unknown CNI_COMMAND: %s", call->command);
	else if (!*id || !*ifname)
		buf_print(problem, "required env variables [CNI_CONTAINERID,CNI_IFNAME] missing");
	else if (!is_container_id(id))
		buf_print(problem, "invalid characters in containerID, or more than 200 characters");
	else if (strlen(ifname) > 15 || !strcmp(ifname, ".") || !strcmp(ifname, ".."))
		buf_print(problem, "interface name is too long, or . or ..");
	else if (strpbrk(ifname, "/: \t\n\v\f\r"))
		buf_print(problem, "interface name contains / or : or whitespace characters");
}

/* Ends the process as the signal does. A signal alone does not end process 1 of a container. */
_Noreturn void end_by_signal(int number)
{
	raise(number);
	_exit(128 + number);
}

/* The shim's end of the runtime's pipe. Polled for no event, it reports that the runtime was killed. The call then ends,
 * as the next one would wait for it. A DEL continues, as it still detaches. The agent has no runtime. */
struct pollfd caller_end(const struct call *call)
{
	return (struct pollfd){ .fd = call_is(call, "DEL") || call->is_agent ? -1 : STDOUT_FILENO };
}

/* Waits. Ends the call when its runtime is killed. */
void await_ms(const struct call *call, int ms)
{
	struct pollfd caller = caller_end(call);
	if (poll(&caller, 1, ms) > 0)
		end_by_signal(SIGTERM);
}

/* As strerror, except for the text that must not reach containerd (see fail). */
const char *errno_text(int error)
{
	return error == ENOENT ? "it does not exist" : error == ESPIPE ? "it is not a regular file; remove it" : strerror(error);
}

/* Ends the call with a CNI error on stdout. containerd takes a DEL error with certain words for "already detached"
 * and does not retry, so these words are broken up, also a plugin's. `details` has a reason of src/lib/reasons.ts. */
_Noreturn void fail(const struct call *call, enum cni_error code, const char *format, ...)
{
	const char *reason = code == CNI_INVALID_ENVIRONMENT ? "InvalidEnvironmentVariables"
		: code == CNI_IO_FAILURE ? "IoFailure" : code == CNI_DECODING_FAILURE ? "DecodingFailure"
		: code == CNI_NOT_DETACHED ? "TeardownIncomplete" : code == CNI_INTERNAL ? "Internal"
		: call->trouble ? "DaemonUnavailable" : "TryAgainLater";
	struct buf message = { 0 }, error = { 0 };
	char *at;
	BUF_VPRINT(&message, format);
	if (message.len > MESSAGE_MAX)
		message.data[MESSAGE_MAX] = '\0';
	buf_print(&error, "{\"cniVersion\":\"%s\",\"code\":%d,\"msg\":\"", call->cni_version, (int)code);
	buf_json(&error, message.data);
	while ((at = strcasestr(error.data, "not found")) || (at = strcasestr(error.data, "no such file or")))
		at[strcspn(at, " ")] = '-';
	buf_print(&error, "\",\"details\":\"reason=%s\"}\n", reason);
	exit(write_all(1, error.data, error.len) ? 2 : 1);
}
