/* SPDX-License-Identifier: Apache-2.0
 * Carrying out the orders of a session, and answering them. */
#include "shim.h"

/* Prints the engine's answer: exit status, stdout and stderr of the call. */
static enum session_end finish(struct call *call, const struct frame *f)
{
	int status = f->count == 3 ? field_number(f->fields[0]) : -1;

	if (status < 0 || status > 255)
		return SESSION_MISUNDERSTOOD;
	(void)!write_all(2, f->fields[2].data, f->fields[2].len);
	if (write_all(1, f->fields[1].data, f->fields[1].len) && !status)
		status = 1; /* without its result an ADD has not succeeded */
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
		text(r->message), number(elapsed, r->elapsed_us) }, 6);
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
	struct buf whys[FIND_MAX] = { 0 };
	char path[PATH_SIZE], message[PATH_SIZE];
	const char *outcome;
	int types = f->count - 1;

	for (int i = 0; i < types; i++) {
		*message = '\0';
		outcome = plugin_find(call, f->fields[i + 1], f->fields[0].data, path, message);
		buf_print(&whys[i], "%s", strcmp(outcome, "found") ? message : "");
		results[2 * i] = text(outcome);
		results[2 * i + 1] = content(&whys[i]);
	}
	frame_write(answer, FRAME_FIND_RESULT, results, 2 * types);
	for (int i = 0; i < types; i++)
		buf_free(&whys[i]);
}

static void answer_forget(const struct call *call, const struct frame *f, struct buf *answer)
{
	char code[NUMBER_SIZE];
	int error = forget_order(call, f);

	frame_write(answer, FRAME_FORGET_RESULT, (struct field[]){
		number(code, error), text(error ? errno_text(error) : "") }, 2);
}

static bool is_forget(const struct frame *f)
{
	for (int i = 0; i < f->count; i++)
		if (!is_text(f->fields[i]))
			return false;
	return f->type == FRAME_FORGET && f->count;
}

/* Carries out one order and sends its answer. A write that fails is not an error by itself: the
 * engine may have sent DONE before it went away, and if it has not, the next read shows it. */
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
	else if (is_forget(f))
		answer_forget(call, f, &answer);
	else
		return SESSION_MISUNDERSTOOD;
	if (f->type != FRAME_FIND)
		call->orders++;
	(void)!write_all(fd, answer.data, answer.len);
	buf_free(&answer);
	return SESSION_OPEN;
}
