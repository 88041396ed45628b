/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the shim share. The process is short-lived and single-threaded: buffers that
 * live as long as the call are static in their file and used again, not freed.
 */
#ifndef PLEXUS_SHIM_H
#define PLEXUS_SHIM_H

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include "protocol.h"

/* Bytes that grow; the byte after the last is always NUL once something was added. */
struct buf { char *data; size_t len, cap; };
struct field { const char *data; size_t len; };
struct frame { int type, count; struct field fields[FIELDS_MAX]; };
struct order {
	struct field group, type, path, input;
	int timeout_ms, env_count;
	const struct field *env;
};
struct exec_result {
	const char *outcome;
	int code;
	struct buf out, err;
	char message[512];
	int64_t elapsed_us;
};
struct plan {
	size_t header, count;
	struct { size_t at, len; int failed; } step[PLAN_STEPS_MAX];
};
/* How a conversation with an engine ended, where not by DONE: that one exits. */
enum ending { NOTHING_DONE, LOST, MISUNDERSTOOD };

/* frame.c */
void buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_text(struct buf *b, const char *text);
size_t frame_begin(struct buf *b, int type);
void frame_field(struct buf *b, const void *data, size_t len);
void frame_number(struct buf *b, int64_t number);
void frame_end(struct buf *b, size_t start);
ssize_t frame_parse(const char *bytes, size_t len, struct frame *f);
int is_text(struct field f);
int field_number(struct field f);

/* io.c */
int64_t now_us(void);
int write_all(int fd, const void *data, size_t len);
int read_upto(int fd, struct buf *b, size_t cap, int wait_ms);
const char *setting(const char *name, const char *fallback);
int setting_ms(const char *name, int fallback);

/* fail.c */
extern char cni_version[32];
void find_version(const char *conf);
const char *why(int error);
_Noreturn void fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* exec.c */
_Noreturn void exec_become(const char *path, char **env, int report);
int order_parse(const struct frame *f, struct order *o);
void exec_order(const struct order *o, struct exec_result *r);

/* netlink.c */
int netns_open(const char *path);
int netlink_last_seq(const char *bytes, size_t len, uint32_t *seq);
int netlink_order(const struct frame *f, struct buf *reply, const char **message);

/* sandbox.c */
const char *sandbox_problem(void);
void state_path(char path[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
void sandbox_lock(const char *command);

/* plan.c */
const char *plan_parse(struct field file, struct field id, struct field ifname, struct plan *p);
int plan_replay(struct buf *text);

/* engine.c */
extern int orders_received;
enum ending engine_daemon(const struct buf *request, const char **reason);
enum ending engine_standalone(const struct buf *request, const char **trouble);

#endif
