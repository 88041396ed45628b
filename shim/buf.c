/* SPDX-License-Identifier: Apache-2.0
 * Buffers that grow. */
#include "shim.h"

/* Ends the call, without any memory. The lock's file stays, unlocked, for the next call to remove. */
static _Noreturn void out_of_memory(void)
{
	static const char error[] = "{\"cniVersion\":\"1.1.0\",\"code\":999,\"msg\":\"out of memory\"}\n";

	(void)!write(1, error, sizeof error - 1);
	_exit(1);
}

/* Makes room for `more` bytes and a NUL. */
void buf_reserve(struct buf *b, size_t more)
{
	if (b->len + more < b->cap)
		return;
	b->cap = b->len + more + 1 + b->len / 2;
	b->data = realloc(b->data, b->cap);
	if (!b->data)
		out_of_memory();
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	buf_reserve(b, len);
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

/* Takes bytes off the front. */
void buf_drop(struct buf *b, size_t len)
{
	b->len -= len;
	memmove(b->data, b->data + len, b->len);
}

void buf_free(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ 0 };
}
