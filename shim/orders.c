/* SPDX-License-Identifier: Apache-2.0
 * Carries out the orders of a session and answers them. */
#include "shim.h"

/* Prints the engine's answer: exit status, stdout and stderr of the call. */
static enum session_end finish(struct call *call, const struct frame *f)
{
	int status = f->count == 3 ? field_number(f->fields[0]) : -1;
	if (status < 0 || status > 255)
		return SESSION_MISUNDERSTOOD;
	(void)!write_all(2, f->fields[2].data, f->fields[2].len);
	if (write_all(1, f->fields[1].data, f->fields[1].len) && !status)
		status = 1; /* an ADD has not succeeded if the runtime lacks its result */
	call->exit_status = status;
	return SESSION_ANSWERED;
}

static void answer_exec(struct call *call, const struct frame *f, struct buf *answer)
{
	struct exec_result *r = &call->result;
	char code[NUMBER_SIZE], elapsed[NUMBER_SIZE];
	if (!strcmp(order_variable(f, "CNI_COMMAND"), "DEL"))
		lock_share(call);
	exec_order(call, f, field_number(f->fields[EXEC_TIMEOUT]));
	frame_write(answer, FRAME_EXEC_RESULT, (struct field[]){
		text(r->outcome), number(code, r->code), content(&r->output), content(&r->errors),
		content(&r->message), number(elapsed, r->elapsed_us) }, 6);
}

static void answer_netlink(struct call *call, const struct frame *f, struct buf *answer)
{
	struct buf reply = { 0 };
	const char *message, *stage;
	char code[NUMBER_SIZE];
	int error = netlink_order(call, f, &reply, &message, &stage);
	frame_write(answer, FRAME_NETLINK_RESULT, (struct field[]){
		number(code, error), content(&reply), text(message), text(stage) }, 4);
	buf_free(&reply);
}

static void answer_find(const struct call *call, const struct frame *f, struct buf *answer)
{
	struct field results[2 * FIND_MAX] = { 0 };
	struct buf messages[FIND_MAX] = { 0 };
	char path[PATH_SIZE];
	int types = f->count - 1;
	for (int i = 0; i < types; i++) {
		results[2 * i] = text(plugin_find(call, f->fields[i + 1], f->fields[0].data, path, &messages[i]));
		if (!field_is(results[2 * i], "found"))
			results[2 * i + 1] = content(&messages[i]);
	}
	frame_write(answer, FRAME_FIND_RESULT, results, 2 * types);
	for (int i = 0; i < types; i++)
		buf_free(&messages[i]);
}

/* Carries out one order and sends its answer. A failed write is no error by itself: the engine may have sent DONE
 * before it closed the connection. If it has not, the next read fails. */
enum session_end orders_serve(struct call *call, int fd, const struct frame *f)
{
	struct buf answer = { 0 };
	if (f->type == FRAME_DONE)
		return finish(call, f);
	if (is_exec(f))
		answer_exec(call, f, &answer);
	else if (f->type == FRAME_NETLINK && f->count == 2 && is_text(f->fields[0]))
		answer_netlink(call, f, &answer);
	else if (f->type == FRAME_FIND && f->count >= 1 && f->count <= 1 + FIND_MAX && is_text(f->fields[0]))
		answer_find(call, f, &answer);
	else
		return SESSION_MISUNDERSTOOD;
	if (f->type != FRAME_FIND)
		call->orders++;
	(void)!write_all(fd, answer.data, answer.len);
	buf_free(&answer);
	return SESSION_OPEN;
}
