/* SPDX-License-Identifier: Apache-2.0
 * A complete DEL with no engine, from the teardown plan that was written before anything was attached. */
#include "shim.h"

#define PLAN_CAP (64u << 20)
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define LATEST ".teardown.latest"
#define DURABLE ".teardown"

static const char absent[] = "it does not exist";

/* The path of one of the attachment's files in the state directory. */
static void name_file(const struct call *call, const char *suffix, char path[PATH_SIZE])
{
	snprintf(path, PATH_SIZE, "%s/%s@%s%s", call->state_dir, call->container_id, call->ifname, suffix);
}

/* Reads and checks a plan that nobody but root can have written. Returns what is wrong with it, NULL when
 * it can be used; `*error` is the errno of one that could not be read, else 0. */
static const char *load(const struct call *call, const char *suffix, struct plan *plan, int *error)
{
	const char *problem = "it is not a regular file of root's, of mode 0600 and with one link";
	char path[PATH_SIZE];
	struct stat s;
	int fd;

	name_file(call, suffix, path);
	plan->bytes.len = 0;
	*error = 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return absent;
	if (fd < 0 && errno == ELOOP)
		return problem;
	if (fd < 0 || fstat(fd, &s)) {
		*error = errno;
		problem = errno_text(errno);
	} else if (S_ISREG(s.st_mode) && !s.st_uid && (s.st_mode & 07777) == 0600 && s.st_nlink == 1) {
		*error = read_all(fd, &plan->bytes, PLAN_CAP, -1) ? errno : 0;
		problem = *error ? errno_text(*error) : plan_parse(plan, call->container_id, call->ifname);
	}
	close(fd);
	return problem;
}

/* True when the machine was started again since the plan was made: what it says of attempts may then be
 * older than what happened. */
static bool is_of_other_boot(const struct plan *plan)
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

/* Runs one step. Returns true when it is done; else appends why not. Delegates print it on stdout. */
static bool run_step(struct call *call, struct frame *step, int timeout_ms, struct buf *failures)
{
	const struct exec_result *r = &call->result;
	const char *text = "it failed and said nothing";

	for (int i = EXEC_ENV; i < step->count; i++)
		if (!strncmp(step->fields[i].data, "CNI_NETNS=", 10))
			step->fields[i--] = step->fields[--step->count]; /* see run_steps */
	exec_order(call, step, timeout_ms);
	if (!strcmp(r->outcome, "exited") && r->code == 0)
		return true;
	if (*r->message)
		text = r->message;
	else if (r->output.len)
		text = r->output.data;
	else if (r->errors.len)
		text = r->errors.data;
	buf_print(failures, "%s%s: %.300s", failures->len ? "; " : "", step->fields[EXEC_TYPE].data, text);
	return false;
}

/* Runs the steps of a checked plan and collects their failures. The steps of a group follow one
 * another: what is left of it after a failure is passed over. Delegates get the namespace of today's
 * call, or none: some fail or worse on a stale path, and none may take the runtime's own for a pod's.
 * The runtime does not wait for ever, so that each step gets its share of the time that is left. */
static void run_steps(struct call *call, const struct plan *plan, struct buf *failures)
{
	int64_t deadline = now_us() + setting_ms("PLEXUS_REPLAY_MS", 90000) * 1000LL, share;
	enum netns netns = netns_state(call->netns);
	struct field group, failed = { "", SIZE_MAX };
	int left = plan->steps, timeout_ms;
	size_t size, at = plan->first;
	struct frame step;

	if (netns == NETNS_OWN || netns == NETNS_GONE)
		putenv("CNI_NETNS=");
	for (; left && (size = plan_step(plan, at, &step)); at += size, left--) {
		group = step.fields[EXEC_GROUP];
		if (plan->attempted != INT_MAX && field_number(group) >= plan->attempted)
			continue;
		if (group.len == failed.len && !memcmp(group.data, failed.data, group.len))
			continue;
		share = (deadline - now_us()) / 1000 / left;
		timeout_ms = field_number(step.fields[EXEC_TIMEOUT]);
		if (timeout_ms > share)
			timeout_ms = share < 0 ? 0 : (int)share;
		if (!run_step(call, &step, timeout_ms, failures))
			failed = group;
	}
}

/* Removes the record, and makes the plan the sign that all of it is detached. Until the last moment there
 * is a plan, so that a DEL that is cut short can be repeated. Returns -1 when that failed. */
static int forget(const struct call *call)
{
	static const char *const records[] = { ".json.latest", ".json" };
	char path[PATH_SIZE], latest[PATH_SIZE], tombstone[PATH_SIZE];

	for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
		name_file(call, records[i], path);
		if (unlink(path) && errno != ENOENT)
			return -1;
	}
	name_file(call, DURABLE, path);
	name_file(call, LATEST, latest);
	name_file(call, ".detached", tombstone);
	if (rename(path, tombstone) && (errno != ENOENT || rename(latest, tombstone)))
		return -1;
	if (unlink(latest) && errno != ENOENT)
		return -1;
	return truncate(tombstone, 0);
}

/* Carries out a plan. When a step fails, it and the record are left as they are: DELs can be repeated. */
static enum cni_error replay(struct call *call, struct plan *plan, struct buf *failures)
{
	if (is_of_other_boot(plan))
		plan->attempted = INT_MAX;
	run_steps(call, plan, failures);
	if (failures->len)
		return CNI_NOT_DETACHED;
	if (!forget(call))
		return CNI_OK;
	buf_print(failures, "all detached, but cannot remove the record and plan from %s: %s", call->state_dir,
		  errno_text(errno));
	return CNI_IO_FAILURE;
}

/* Where there is no plan, nothing was attached, or all of it has been detached. A DEL can tell that only
 * from what the last one left: a pod that is older than Plexus on this node has a default network, too,
 * and no record. */
static enum cni_error without_plan(const struct call *call, struct buf *failures)
{
	char tombstone[PATH_SIZE];

	name_file(call, ".detached", tombstone);
	if (!call_is(call, "DEL") || !access(tombstone, F_OK))
		return CNI_OK;
	buf_print(failures, "there is no record of this sandbox, and only plexusd can detach it from the default "
		  "network (%s)", call->trouble);
	return CNI_TRY_AGAIN_LATER;
}

/* Carries out what the call's plan holds. Returns CNI_OK when nothing is attached any more, else the
 * error to report, with its text in `failures`. An update that is damaged leaves the plan as it was made
 * at first, of which then all is run. */
enum cni_error plan_replay(struct call *call, struct buf *failures)
{
	const char *suffix = LATEST, *problem, *first;
	struct plan plan = { 0 };
	char path[PATH_SIZE];
	enum cni_error code;
	int error;

	first = problem = load(call, LATEST, &plan, &error);
	if (problem && !error) {
		problem = load(call, DURABLE, &plan, &error);
		if (!problem && first != absent)
			plan.attempted = INT_MAX;
		if (problem != absent || first == absent)
			suffix = DURABLE;
		else
			problem = first;
	}
	if (!problem) {
		code = replay(call, &plan, failures);
	} else if (problem == absent) {
		code = without_plan(call, failures);
	} else {
		name_file(call, suffix, path);
		code = error ? CNI_IO_FAILURE : CNI_DECODING_FAILURE;
		buf_print(failures, error ? "cannot read %s: %s" : "teardown plan %s is damaged: %s; it was kept: start "
			  "plexusd to detach from the record, or detach by hand", path, problem);
	}
	buf_free(&plan.bytes);
	return code;
}
