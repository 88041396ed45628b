/* SPDX-License-Identifier: Apache-2.0
 * A complete DEL with no engine, from the teardown plan that was written before anything was attached. */
#include "shim.h"

#define FAILURE_MAX 300 /* bytes of what a delegate says that an error repeats */

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
	buf_print(failures, "%s%s: %.*s", failures->len ? "; " : "", step->fields[EXEC_TYPE].data,
		  FAILURE_MAX, text);
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

/* Carries out a plan. When a step fails, it and the record are left as they are: DELs can be repeated. */
static enum cni_error replay(struct call *call, struct plan *plan, struct buf *failures)
{
	if (plan_is_of_other_boot(plan))
		plan->attempted = INT_MAX;
	plan_mark(call); /* an ADD's; a DEL has done so */
	run_steps(call, plan, failures);
	if (failures->len)
		return CNI_NOT_DETACHED;
	if (!plan_forget(call))
		return CNI_OK;
	buf_print(failures, "all detached, but cannot remove the record and plan from %s: %s", call->state_dir,
		  errno_text(errno));
	return CNI_IO_FAILURE;
}

/* Where there is no plan, nothing was attached, or all of it has been detached, as a tombstone says. Or the
 * sandbox is older than Plexus on this node: it has the default network, whose DEL plexusd keeps in a plan of its
 * own. That is enough unless something says that the sandbox has more, which only plexusd can find out. */
static enum cni_error without_plan(struct call *call, struct plan *plan, struct buf *failures)
{
	char tombstone[PATH_SIZE];
	const char *doubt;
	int error;

	plan_file(call, plan_tombstone, tombstone);
	if (!call_is(call, "DEL") || !access(tombstone, F_OK))
		return CNI_OK;
	doubt = multus_has(call->container_id) ? "Multus has a file of it" : netns_doubt(call);
	if (!doubt && plan_load(call, plan_default, plan, &error))
		doubt = "there is no usable default.plan";
	if (doubt) {
		buf_print(failures, "there is no record of this sandbox, and only plexusd can tell what to detach, "
			  "as %s (%s)", doubt, call->trouble);
		return CNI_TRY_AGAIN_LATER;
	}
	plan->attempted = INT_MAX;
	run_steps(call, plan, failures);
	return failures->len ? CNI_NOT_DETACHED : CNI_OK;
}

/* Carries out what the call's plan holds. Returns CNI_OK when nothing is attached any more, else the
 * error to report, with its text in `failures`. A plan of an earlier release that was being updated counts
 * as it was made at first, and all of it is run. */
enum cni_error plan_replay(struct call *call, struct buf *failures)
{
	const char *format = plan_record, *problem;
	struct plan plan = { 0 };
	char path[PATH_SIZE];
	enum cni_error code;
	int error;

	problem = plan_load(call, format, &plan, &error);
	if (problem == plan_absent) {
		format = plan_old;
		problem = plan_load(call, format, &plan, &error);
		plan_file(call, plan_old_latest, path);
		if (!problem && !access(path, F_OK))
			plan.attempted = INT_MAX;
	}
	if (!problem) {
		code = replay(call, &plan, failures);
	} else if (problem == plan_absent) {
		code = without_plan(call, &plan, failures);
	} else {
		plan_file(call, format, path);
		code = error ? CNI_IO_FAILURE : CNI_DECODING_FAILURE;
		buf_print(failures, error ? "cannot read %s: %s" : "teardown plan %s is damaged: %s; it was kept: start "
			  "plexusd to detach from the record, or detach by hand", path, problem);
	}
	buf_free(&plan.bytes);
	return code;
}
