/* SPDX-License-Identifier: Apache-2.0
 * A complete DEL without an engine, from the teardown plan that was written before anything was attached. */
#include "shim.h"

#define FAILURE_MAX 300 /* bytes of a delegate's output that an error repeats */

/* Runs one step. Returns whether it succeeded, and appends the reason if not. Delegates print it on stdout. */
static bool run_step(struct call *call, struct frame *step, int timeout_ms, struct buf *failures)
{
	const struct exec_result *r = &call->result;
	const char *why = "it failed without a message";
	for (int i = EXEC_ENV; i < step->count; i++)
		if (!strncmp(step->fields[i].data, "CNI_NETNS=", 10))
			step->fields[i--] = step->fields[--step->count]; /* see run_steps */
	exec_order(call, step, timeout_ms);
	if (!strcmp(r->outcome, "exited") && r->code == 0)
		return true;
	if (r->message.len)
		why = r->message.data;
	else if (r->output.len)
		why = r->output.data;
	else if (r->errors.len)
		why = r->errors.data;
	buf_print(failures, "%s%s: %.*s", failures->len ? "; " : "", step->fields[EXEC_TYPE].data, FAILURE_MAX, why);
	return false;
}

/* Runs the steps of a checked plan and collects their failures. A failure skips the remaining steps of its group.
 * Delegates get the network namespace of this call, or none: some fail or do harm with a stale path, and none may
 * take the runtime's namespace for a pod's. Each step gets its share of the time that the runtime waits. */
static void run_steps(struct call *call, const struct plan *plan, struct buf *failures)
{
	int64_t deadline = now_us() + setting_ms("PLEXUS_REPLAY_MS", 90000) * 1000LL;
	enum netns netns = netns_state(call->netns);
	int failed = -1, left = plan->steps;
	size_t size, at = plan->first;
	struct frame step;
	if (netns == NETNS_OWN || netns == NETNS_GONE)
		putenv("CNI_NETNS=");
	for (; left && (size = plan_step(plan, at, &step)); at += size, left--) {
		int group = field_number(step.fields[EXEC_GROUP]), share_ms = ms_until(deadline) / left;
		int timeout_ms = field_number(step.fields[EXEC_TIMEOUT]);

		if (group >= plan->attempted || group == failed)
			continue;
		if (!run_step(call, &step, timeout_ms < share_ms ? timeout_ms : share_ms, failures))
			failed = group;
	}
}

/* Carries out a plan. If a step fails, the record stays as it is, and the next DEL repeats all steps. */
static enum cni_error replay(struct call *call, struct plan *plan, struct buf *failures)
{
	if (plan_is_of_other_boot(plan))
		plan->attempted = INT_MAX;
	plan_mark(call); /* for an ADD; a DEL has already done so */
	run_steps(call, plan, failures);
	if (failures->len)
		return CNI_NOT_DETACHED;
	if (!plan_forget(call))
		return CNI_OK;
	buf_print(failures, "everything is detached, but the record cannot be removed from %s: %s", call->state_dir,
		  errno_text(errno));
	return CNI_IO_FAILURE;
}

/* A DEL without a plan. A tombstone says that everything has been detached. Otherwise the sandbox is older than Plexus
 * on this node and has the default network, whose DEL plexusd keeps in default.plan. If the sandbox may have more
 * networks, only plexusd can find them. */
static enum cni_error without_plan(struct call *call, struct plan *plan, struct buf *failures)
{
	int error;
	if (!call_is(call, "DEL") || plan_has(call, plan_tombstone))
		return CNI_OK;
	const char *doubt = multus_has(call) ? "Multus has a file of it" : netns_doubt(call);
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

/* Carries out the call's plan. Returns CNI_OK if nothing is attached any more, else the error to report, with its text
 * in `failures`. */
enum cni_error plan_replay(struct call *call, struct buf *failures)
{
	struct plan plan = { 0 };
	char path[PATH_SIZE];
	enum cni_error code;
	int error;
	const char *problem = plan_load(call, plan_record, &plan, &error);
	if (!problem) {
		code = replay(call, &plan, failures);
	} else if (problem == plan_absent) {
		code = without_plan(call, &plan, failures);
	} else {
		plan_file(call, plan_record, path);
		code = error ? CNI_IO_FAILURE : CNI_DECODING_FAILURE;
		buf_print(failures, error ? "cannot read %s: %s" : "cannot use the teardown plan %s: %s; it is kept: start "
			  "plexusd to detach from the record, or detach manually", path, problem);
	}
	buf_free(&plan.bytes);
	return code;
}
