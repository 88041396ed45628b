/* SPDX-License-Identifier: Apache-2.0
 * Teardown plans: a complete DEL with no engine. They are written before anything is attached. */
#include "shim.h"

#define PLAN_CAP (64u << 20)

/* As zlib's: the polynomial of IEEE 802.3, reflected. */
static uint32_t crc32(const char *bytes, size_t len)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* Reads the plan's step at `at`. Returns its size, 0 when there is none. */
static size_t step_parse(struct field file, size_t at, struct frame *step)
{
	ssize_t size = frame_parse(file.data + at, file.len - at, step);

	return size > 0 && is_exec(step) ? (size_t)size : 0;
}

/* Checks a whole plan, before any of it is carried out. Returns what is wrong with it, or NULL, and
 * where its first step is. Each plan has one spelling, so its ends are compared, not parsed. */
const char *plan_problem(struct field file, const char *id, const char *ifname, size_t *first)
{
	struct field name[] = { text(PROTOCOL_VERSION), text(id), text(ifname) };
	char digits[NUMBER_SIZE], crc[9];
	struct buf spelling = { 0 };
	const char *problem = NULL;
	struct frame step;
	size_t at, size;
	int steps = 0;

	frame_write(&spelling, FRAME_PLAN, name, 3);
	*first = at = spelling.len;
	if (file.len < at || memcmp(file.data, spelling.data, at)) {
		problem = "it is no plan of this version for this attachment";
	} else {
		for (; (size = step_parse(file, at, &step)); at += size)
			steps++;
		snprintf(crc, sizeof crc, "%08x", crc32(file.data, at));
		spelling.len = 0;
		frame_write(&spelling, FRAME_PLAN_END, (struct field[]){ number(digits, steps), text(crc) }, 2);
		if (file.len - at != spelling.len || memcmp(file.data + at, spelling.data, spelling.len))
			problem = "it is cut short or altered";
	}
	buf_free(&spelling);
	return problem;
}

/* Runs one step. Returns true when it is done; else appends why not. Delegates print it on stdout. */
static bool run_step(struct call *call, struct frame *step, struct buf *failures)
{
	const struct exec_result *r = &call->result;
	const char *text = "it failed and said nothing";

	for (int i = EXEC_ENV; i < step->count; i++)
		if (!strncmp(step->fields[i].data, "CNI_NETNS=", 10))
			step->fields[i--] = step->fields[--step->count]; /* see run_steps */
	exec_order(call, step);
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
 * call, or none: some fail or worse on a stale path. */
static void run_steps(struct call *call, struct field plan, size_t at, struct buf *failures)
{
	int netns = netns_open(call->netns);
	struct field group, failed = { "", SIZE_MAX };
	struct frame step;
	size_t size;

	if (netns < 0)
		putenv("CNI_NETNS=");
	close(netns);
	for (; (size = step_parse(plan, at, &step)); at += size) {
		group = step.fields[EXEC_GROUP];
		if (group.len == failed.len && !memcmp(group.data, failed.data, group.len))
			continue;
		if (!run_step(call, &step, failures))
			failed = group;
	}
}

/* Carries out a plan, which is then removed together with the record. When a step fails both are
 * left as they are: DELs can be repeated. */
static enum cni_error replay(struct call *call, struct field plan, const char *path, struct buf *failures)
{
	char record[PATH_SIZE];
	const char *problem;
	size_t first;

	problem = plan_problem(plan, call->container_id, call->ifname, &first);
	if (problem) {
		buf_print(failures, "teardown plan %s is damaged: %s; it was kept: start plexusd to detach "
			  "from the record, or detach by hand", path, problem);
		return CNI_DECODING_FAILURE;
	}
	run_steps(call, plan, first, failures);
	if (failures->len)
		return CNI_NOT_DETACHED;
	snprintf(record, sizeof record, "%s/%s@%s.json", call->state_dir, call->container_id, call->ifname);
	if ((unlink(record) && errno != ENOENT) || unlink(path)) {
		buf_print(failures, "all detached, but cannot remove %s: %s", path, errno_text(errno));
		return CNI_IO_FAILURE;
	}
	return CNI_OK;
}

/* Carries out what the call's plan holds; one that does not exist is of no steps. Returns CNI_OK when
 * nothing is attached any more, else the error to report, with its text in `failures`. */
enum cni_error plan_replay(struct call *call, struct buf *failures)
{
	struct buf plan = { 0 };
	char path[PATH_SIZE];
	enum cni_error code;
	int fd;

	snprintf(path, sizeof path, "%s/%s@%s.teardown", call->state_dir, call->container_id, call->ifname);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return CNI_OK;
	if (fd < 0 || read_all(fd, &plan, PLAN_CAP, -1)) {
		buf_print(failures, "cannot read %s: %s", path, errno_text(errno));
		code = CNI_IO_FAILURE;
	} else {
		code = replay(call, content(&plan), path, failures);
	}
	buf_free(&plan);
	close(fd);
	return code;
}
