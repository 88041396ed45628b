/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the shim share. The process is short-lived and single-threaded: buffers that
 * live as long as the call are static in their function and used again, not freed. No call that
 * blocks is ever interrupted (EINTR) but ppoll: SIGCHLD, the one signal with a handler, is blocked.
 */
#ifndef PLEXUS_SHIM_H
#define PLEXUS_SHIM_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include "protocol.h"

#define OWN_NETNS "/proc/self/ns/net"
#define CHUNK 65536

/* Bytes that grow; the byte after the last is always NUL once something was added. */
struct buf { char *data; size_t len, cap; };
struct field { char *data; size_t len; };
#define CONTENT(b) ((struct field){ (b).data, (b).len })
struct frame { int type, count; struct field fields[FIELDS_MAX]; };
struct exec_result {
	const char *outcome;
	int code;
	struct buf message, said[STDERR_FILENO + 1];
	int64_t elapsed_us;
};
struct nlmsghdr;
/* How a conversation with an engine ended, where not by DONE: that one exits. A CNI error code. */
enum ending { NOTHING_DONE = 0, LOST = 11, MISUNDERSTOOD = 999 };

/* frame.c */
void buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *data, size_t len);
char *buf_print(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct field text(const char *s);
struct field number(char digits[24], int64_t n);
int is_text(struct field f);
int field_number(struct field f);
void frame_write(struct buf *b, int type, const struct field *fields, int count);
ssize_t frame_parse(const char *bytes, size_t len, struct frame *f);

/* io.c */
int64_t clock_us(clockid_t clock);
#define now_us() clock_us(CLOCK_MONOTONIC)
ssize_t read_some(int fd, struct buf *b);
int read_all(int fd, struct buf *b, size_t cap, int patience_ms);
int write_all(int fd, const void *data, size_t len);
const char *setting(const char *name, const char *fallback);
int setting_ms(const char *name, int fallback);
int is_file(int fd, const char *path);

/* fail.c */
extern char cni_version[32];
void find_version(const char *conf);
const char *why(int error);
_Noreturn void fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* exec.c */
void launch_prepare(void);
pid_t launch(char *path, const int *fds, int count, const struct frame *order);
int is_exec(const struct frame *f);
void exec_order(const struct frame *f, struct exec_result *r);

/* netlink.c */
int netns_open(const char *path);
int netlink_last(const char *bytes, size_t len, struct nlmsghdr *last);
int netlink_order(const struct frame *f, struct buf *reply, const char **message);

/* sandbox.c */
const char *sandbox_problem(const char *command);
void sandbox_lock(const char *command);

/* plan.c */
const char *plan_problem(struct field file, const char *id, const char *ifname, size_t *first);
int plan_replay(struct buf *why_not);

/* engine.c */
extern int orders_received;
extern const char *trouble;
enum ending engine_daemon(const struct buf *request);
enum ending engine_standalone(const struct buf *request);

#endif
