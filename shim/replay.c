/* SPDX-License-Identifier: Apache-2.0
 * A complete DEL without an engine, from the teardown plan that was written before anything was attached. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h> /* rename */
#include "shim.h"

#define PLAN_CAP (64u << 20)
#define RESULT_CAP (4u << 20)
#define FAILURE_MAX 300  /* bytes of a delegate's output that an error repeats */
#define DECISION_US 1000000 /* after this time, another sandbox may have got what this one had */
#define MODE 0600
#define MODE_OF_DEL 01600 /* of a record whose DEL has begun: no chmod -R of a directory makes it */
#define MODE_OF_USER 0700 /* by chmod -R, or of a DEL of an earlier release */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static const char plan_record[] = "%s/%s@%s.record", plan_tombstone[] = "%s/%s@%s.detached";
static const char plan_engine_only[] = "%s/%s@%s.engine-only", plan_default[] = "%s/default.plan";

static const char *plan_file(const struct call *call, const char *format, char path[PATH_SIZE])
{
	return print(path, PATH_SIZE, format, call->state_dir, call->container_id, call->ifname);
}

/* Whether a file of any kind exists. Whether a link's target does is not for a compromised plexusd to learn. */
static bool plan_has(const struct call *call, const char *format)
{
	char path[PATH_SIZE];
	struct stat s;
	return !lstat(plan_file(call, format, path), &s);
}

/* Opens one of the attachment's files and reads the plan in it, if it is a regular file. Returns the descriptor, or -1. */
static int plan_open(const struct call *call, const char *format, struct plan *plan)
{
	bool is_record = format == plan_record;
	char path[PATH_SIZE];
	struct stat s;
	*plan = (struct plan){ .bytes = { plan->bytes.data, 0, plan->bytes.cap } };
	int fd = open(plan_file(call, format, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0) {
		plan->error = errno;
	} else if (!fstat(fd, &s) && S_ISREG(s.st_mode)) {
		int error = read_all(fd, &plan->bytes, PLAN_CAP, -1) ? errno : 0;
		plan->is_whole = !error && plan_parse(plan, is_record ? call->container_id : "", is_record ? call->ifname : "");
		mode_t mode = s.st_mode & 07777;
		plan->error = error;
		plan->is_marked = mode == MODE_OF_DEL;
		plan->is_roots = !s.st_uid && s.st_nlink == 1 && (mode == MODE || mode == MODE_OF_DEL || mode == MODE_OF_USER);
	}
	plan->is_record = is_record;
	return fd;
}

/* Reads a plan. Returns what is wrong with it, or NULL. */
static const char *plan_load(const struct call *call, const char *format, struct plan *plan)
{
	close(plan_open(call, format, plan));
	if (!plan->is_roots)
		return "it is not a regular file of root's with mode 0600, 0700 or 1600 and one link";
	if (!plan->is_whole)
		return "it is truncated, altered, of another attachment, or of a plan version other than " PLAN_VERSION;
	return NULL;
}

/* True if a plan detaches in the network namespace that is open as `pod`, or in that at this path. */
static bool plan_leads(const struct plan *plan, int pod, const char *netns)
{
	struct frame step;
	for (size_t size, at = plan->first; (size = plan_step(plan, at, &step)); at += size) {
		const char *path = order_variable(&step, "CNI_NETNS");
		if (!strcmp(path, netns) || (pod >= 0 && is_file(pod, path)))
			return true;
	}
	return false;
}

/* True if the sandbox has a whole record that detaches it in the call's network namespace, and no DEL of it has begun. */
bool plan_is_live(const struct call *call)
{
	static struct plan plan;
	int pod = netns_open(call->netns);
	bool is_live = !plan_load(call, plan_record, &plan) && !plan.is_marked && plan_leads(&plan, pod, call->netns);
	close(pod);
	return is_live;
}

/* True if the machine was restarted since the plan was made: what it says of attempts may then be outdated. */
static bool plan_is_of_other_boot(const struct plan *plan)
{
	static struct buf now;
	struct field of_plan = plan->boot_id;
	if (read_file(BOOT_ID, &now, PATH_SIZE))
		return true;
	return of_plan.len != strcspn(now.data, "\n") || memcmp(of_plan.data, now.data, of_plan.len);
}

/* Makes the record the tombstone in one step, so that a killed DEL can be repeated. Follows no link. -1: failure. */
static int plan_forget(const struct call *call)
{
	char path[PATH_SIZE], tombstone[PATH_SIZE];
	plan_file(call, plan_tombstone, tombstone);
	if (rename(plan_file(call, plan_record, path), tombstone) && errno != ENOENT)
		return -1;
	int fd = open(tombstone, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	return fd < 0 ? -1 : close(fd);
}

/* Makes the path of Multus's file of the call's container. Returns true unless it certainly does not exist. */
static bool multus_has(const struct call *call, char path[PATH_SIZE])
{
	print(path, PATH_SIZE, "%s/%s", setting("PLEXUS_MULTUS_DIR", MULTUS_DIR), call->container_id);
	return !access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR);
}

/* Runs one step. Returns whether it succeeded, and appends the reason if not. Delegates print it on stdout. */
static bool run_step(struct call *call, struct frame *step, int timeout_ms, struct buf *failures)
{
	const struct exec_result *r = &call->result;
	for (int i = EXEC_ENV; i < step->count; i++)
		if (!strncmp(step->fields[i].data, "CNI_NETNS=", 10))
			step->fields[i--] = step->fields[--step->count]; /* see run_steps */
	exec_order(call, step, timeout_ms);
	if (!strcmp(r->outcome, "exited") && r->code == 0)
		return true;
	const char *why = r->message.len ? r->message.data : r->output.len ? r->output.data
		: r->errors.len ? r->errors.data : "it failed without a message";
	buf_print(failures, "%s%s: %.*s", failures->len ? "; " : "", step->fields[EXEC_TYPE].data, FAILURE_MAX, why);
	return false;
}

/* True if delegates get this call's network namespace. Some do harm with a stale path, or with the runtime's namespace. A
 * process's may be another container's by a DEL. */
static bool has_netns(const struct call *call)
{
	enum netns netns = netns_inspect(call, call->netns, NULL);
	return netns == NETNS_OK || netns == NETNS_UNKNOWN || (netns == NETNS_OK_PROCESS && !call_is(call, "DEL"));
}

/* True if a plan is of a sandbox in another network namespace than the call's, which exists: it may run there. */
static bool is_elsewhere(const struct call *call, const struct plan *plan)
{
	struct frame step;
	if (!*call->netns || plan_leads(plan, -1, call->netns) || !plan_step(plan, plan->first, &step))
		return false;
	const char *own = order_variable(&step, "CNI_NETNS");
	int pod = netns_open(call->netns);
	bool leads = plan_leads(plan, pod, call->netns);
	close(pod);
	return !leads && netns_inspect(call, own, NULL) == NETNS_OK;
}

/* Marks the record before a DEL. A runtime may kill the call and never repeat it, so plexusd detaches marked records. The
 * mark is in the mode, which needs no disk space. A power loss may remove it, but the record is then of another boot. An
 * earlier sandbox's DEL, which may be late, marks nothing. */
void plan_mark(const struct call *call)
{
	static struct plan plan;
	int fd = plan_open(call, plan_record, &plan);
	if (fd >= 0 && plan.is_roots && !plan.is_marked && !(plan.is_whole && is_elsewhere(call, &plan)))
		(void)!fchmod(fd, MODE_OF_DEL);
	close(fd);
}

/* False if a record certainly belongs to no sandbox in a network namespace (see plan_leads). An unreadable record may belong
 * to any, and one with a wrong owner or mode is believed. If the DEL of another container has begun, its sandbox is over. */
static bool may_lead(const struct call *record, const struct call *call, int pod, const char *netns)
{
	static struct plan plan;
	close(plan_open(record, plan_record, &plan));
	if (plan.error == ENOENT)
		return false;
	bool is_over = plan.is_marked && strcmp(record->container_id, call->container_id);
	return !is_over && (!plan.is_whole || plan_leads(&plan, pod, netns));
}

/* Appends the names of the records whose sandbox may be in a network namespace, each with a slash, which no name contains. */
void plan_occupants(const struct call *call, const char *netns, struct buf *names)
{
	struct call record = *call;
	char id[NAME_MAX + 1];
	int pod = netns_open(netns);
	DIR *dir = opendir(call->state_dir);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		print(id, sizeof id, "%s", entry->d_name);
		char *at = strchr(id, '@'), *end = strrchr(id, '.');
		if (!at || !end || end < at || strcmp(end, ".record"))
			continue;
		*at = *end = '\0';
		record.ifname = at + 1;
		if (is_container_id(record.container_id = id) && may_lead(&record, call, pod, netns))
			buf_print(names, "%s@%s/", id, record.ifname);
	}
	if (dir)
		closedir(dir);
	close(pod);
}

/* True if no other sandbox ever has the path: it ends in a UUID, as those of pods do. */
static bool is_made_once(const char *netns)
{
	static const char uuid[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t len = strlen(netns), i = sizeof uuid - 1;
	while (i && len && (uuid[i - 1] == '-' ? netns[len - 1] == '-' : isxdigit((unsigned char)netns[len - 1])))
		i--, len--;
	return !i;
}

/* Copies the name of another sandbox's record if delegates would get its network namespace. A runtime uses a path again, and
 * repeats a DEL. Only an engine can tell which of both was attached later. */
static void find_other(const struct call *call, const struct plan *plan, char name[NAME_MAX + 1])
{
	struct buf names = { 0 };
	char prefix[NAME_MAX + 1];
	bool is_own = plan->is_record && plan_leads(plan, -1, call->netns) && is_made_once(call->netns);
	print(prefix, sizeof prefix, "%s@", call->container_id);
	if (has_netns(call) && !is_own)
		plan_occupants(call, call->netns, &names);
	for (char *list = names.data, *each; !*name && (each = strsep(&list, "/"));)
		if (strncmp(each, prefix, strlen(prefix)))
			print(name, NAME_MAX + 1, "%s", each);
	buf_free(&names);
}

/* True if a plan could take what another sandbox has; then appends why. */
static bool is_doubtful(const struct call *call, const struct plan *plan, struct buf *failures)
{
	const char *separator = failures->len ? "; " : "";
	char other[NAME_MAX + 1] = "";
	bool is_del = call_is(call, "DEL");
	if (is_del)
		find_other(call, plan, other);
	if (*other)
		buf_print(failures, "%sthe sandbox of %s/%s.record may have its network namespace", separator, call->state_dir, other);
	else if (is_del && plan->is_record && is_elsewhere(call, plan))
		buf_print(failures, "%sits sandbox may run in another network namespace than CNI_NETNS=%s", separator, call->netns);
	else if (plan_has(call, plan_engine_only))
		buf_print(failures, "%sanother sandbox may have a device of this one", separator);
	else
		return false;
	buf_print(failures, ", and only plexusd can tell what to leave (%s)", call->trouble);
	return true;
}

/* Runs the steps of a checked plan, unless that could take what another sandbox has; after a slow step, it may have got that
 * meanwhile. A failure skips the rest of its group. Each step gets its share of the call's time. */
static enum cni_error run_steps(struct call *call, const struct plan *plan, struct buf *failures)
{
	int64_t deadline = now_us() + setting_ms("PLEXUS_REPLAY_MS", 90000) * 1000LL;
	int failed = -1, left = plan->steps;
	size_t size, at = plan->first;
	struct frame step;
	int64_t decided = now_us();
	if (is_doubtful(call, plan, failures))
		return CNI_TRY_AGAIN_LATER;
	plan_mark(call); /* for an ADD; a DEL has already done so */
	if (!has_netns(call))
		putenv("CNI_NETNS=");
	for (; left && (size = plan_step(plan, at, &step)); at += size, left--) {
		int group = field_number(step.fields[EXEC_GROUP]), share_ms = ms_until(deadline) / left;
		int timeout_ms = field_number(step.fields[EXEC_TIMEOUT]);
		if (group >= plan->attempted || group == failed)
			continue;
		if (now_us() - decided > DECISION_US) {
			if (is_doubtful(call, plan, failures))
				return CNI_TRY_AGAIN_LATER;
			decided = now_us();
		}
		if (!run_step(call, &step, timeout_ms < share_ms ? timeout_ms : share_ms, failures))
			failed = group;
	}
	return failures->len ? CNI_NOT_DETACHED : CNI_OK;
}

/* A DEL without a plan. A tombstone says that everything has been detached. Otherwise the sandbox is older than Plexus
 * on this node. default.plan detaches its default network, but only plexusd can find others. */
static enum cni_error without_plan(struct call *call, struct plan *plan, struct buf *failures)
{
	char path[PATH_SIZE];
	if (!call_is(call, "DEL") || plan_has(call, plan_tombstone))
		return CNI_OK;
	const char *doubt = multus_has(call, path) ? "Multus has a file of it" : netns_doubt(call);
	if (!doubt && plan_load(call, plan_default, plan))
		doubt = "there is no usable default.plan";
	if (doubt) {
		buf_print(failures, "there is no record of this sandbox, and only plexusd can tell what to detach, "
			  "as %s (%s)", doubt, call->trouble);
		return CNI_TRY_AGAIN_LATER;
	}
	plan->attempted = INT_MAX;
	return run_steps(call, plan, failures);
}

/* Carries out the call's plan. Returns CNI_OK if nothing is attached any more, else an error, described in `failures`. */
enum cni_error plan_replay(struct call *call, struct buf *failures)
{
	static struct plan plan;
	char path[PATH_SIZE];
	const char *problem = plan_load(call, plan_record, &plan);
	if (plan.error == ENOENT)
		return without_plan(call, &plan, failures);
	plan_file(call, plan_record, path);
	if (plan.error && plan.error != ELOOP) {
		buf_print(failures, "cannot read %s: %s", path, errno_text(plan.error));
		return CNI_IO_FAILURE;
	}
	if (problem) {
		buf_print(failures, "cannot use the teardown plan %s: %s; it is kept: start plexusd to detach from the record, or "
			  "detach manually", path, problem);
		return CNI_DECODING_FAILURE;
	}
	if (plan_is_of_other_boot(&plan))
		plan.attempted = INT_MAX;
	enum cni_error code = run_steps(call, &plan, failures);
	if (code != CNI_OK || !plan_forget(call))
		return code;
	buf_print(failures, "everything is detached, but the record cannot be removed from %s: %s", call->state_dir,
		  errno_text(errno));
	return CNI_IO_FAILURE;
}

/* Removes what libcni keeps of the call's container in a directory of results, whose path has Multus's directory. The name
 * NETWORK-ID-INTERFACE of another container's file may contain this one's ID, so the content has to name it. */
static void results_clean(const struct call *call, const char *format)
{
	char results[PATH_SIZE], path[PATH_SIZE], part[NAME_MAX + 1], own[NAME_MAX + 1];
	struct buf content = { 0 };
	print(part, sizeof part, "-%s-", call->container_id);
	print(own, sizeof own, "\"containerId\":\"%s\"", call->container_id);
	DIR *dir = opendir(print(results, sizeof results, format, setting("PLEXUS_MULTUS_DIR", MULTUS_DIR)));
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		print(path, sizeof path, "%s/%s", results, entry->d_name);
		content.len = 0;
		if (strstr(entry->d_name, part) && !read_file(path, &content, RESULT_CAP) && strstr(content.data, own))
			unlink(path);
	}
	if (dir)
		closedir(dir);
	buf_free(&content);
}

/* Removes what Multus keeps of the call's container once plexusd, which can only read it, has made a record of it. The
 * runtime's own result goes too: it has the name of Multus's network, under which nothing looks for it any more. */
void multus_clean(const struct call *call)
{
	char path[PATH_SIZE];
	if (!multus_has(call, path) || !(plan_has(call, plan_record) || plan_has(call, plan_tombstone)))
		return;
	results_clean(call, "%s/results");
	results_clean(call, "%s/../results");
	unlink(path);
}
