/* SPDX-License-Identifier: Apache-2.0
 * What the parts of the shim share. The process serves one call, in one thread. `struct call` holds its state; the
 * kernel holds the rest, such as the environment. Memory lives as long as the call unless a function frees it. No
 * blocking call is ever interrupted (EINTR), as no signal handler returns. */
#ifndef PLEXUS_SHIM_H
#define PLEXUS_SHIM_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "protocol.h"

#define OWN_NETNS "/proc/self/ns/net"
#define SOCKET_PATH_SIZE ((int)sizeof ((struct sockaddr_un *)0)->sun_path)
#define CHUNK 65536
#define SILENCE_MS 30000
#define ALIVE_MS 5000            /* of silence after which a plexus-standalone that sends ALIVE is ended */
#define END_MS 1000              /* for killed processes to end */
#define DELEGATE_LOCK 3          /* the descriptor as which delegates inherit the sandbox's lock file */
#define ENGINE_LISTENER 4        /* the descriptor as which plexus-standalone gets its socket for further calls */
#define HOLDER_LOCK 100          /* the shim's descriptor of it while it holds the lock */
#define LINKS_MAX 40             /* as the kernel's */
#define NUMBER_SIZE 24           /* for the digits of any number */
#define PATH_SIZE (2 * PATH_MAX) /* a path that is truncated here is too long for the kernel, too */

/* Bytes that grow. Once something was added, a NUL follows the last byte. */
struct buf { char *data; size_t len, cap; };
struct field { char *data; size_t len; };
struct frame { int type, count; struct field fields[FIELDS_MAX]; };

/* The codes of the CNI specification, and Plexus's own from 100 on. */
enum cni_error {
	CNI_OK = 0, CNI_INVALID_ENVIRONMENT = 4, CNI_IO_FAILURE = 5, CNI_DECODING_FAILURE = 6,
	CNI_TRY_AGAIN_LATER = 11, CNI_PLUGIN_NOT_AVAILABLE = 50, CNI_NOT_DETACHED = 102, CNI_INTERNAL = 999,
};

/* How a session with an engine ended. */
enum session_end {
	SESSION_OPEN,          /* it has not */
	SESSION_ANSWERED,      /* by DONE: the engine's answer is printed */
	SESSION_UNREACHABLE,   /* there is no engine, or it left or declined before the call had begun: another one may serve it */
	SESSION_LOST,          /* the engine left after the call had begun */
	SESSION_MISUNDERSTOOD, /* the engine sent something that is no order */
};

/* What a path is, as PLEXUS_NETNS says. The path of a process or thread may later lead to another container's. */
enum netns { NETNS_OK, NETNS_OK_PROCESS, NETNS_OWN, NETNS_GONE, NETNS_UNKNOWN };

/* How a delegate ended; the names are those of EXEC_RESULT. */
struct exec_result {
	const char *outcome;
	int code;
	struct buf output, errors, message;
	int64_t elapsed_us;
};

struct netlink_result { int error; const char *message, *stage; struct buf reply; };

struct call {
	const char *command, *container_id, *ifname, *netns, *path; /* the CNI variables; "" if not set */
	bool netns_override;       /* CNI_NETNS may be the runtime's network namespace */
	bool is_agent;             /* no runtime made the call; the engine names the sandbox, if any */
	bool checks_owners;        /* whether plugins of CNI_PATH must be root's */
	int idle;                  /* a pipe's end by which a session of the agent reports its first order; or -1 */
	const char *state_dir;
	char cni_version[32];      /* for answers: the input's, once it is known */
	int64_t started_us;        /* CLOCK_MONOTONIC */
	int wait_ms;               /* for an engine */
	int silence_ms;            /* after which the engine counts as gone; 0: never */
	struct buf conf;           /* stdin */
	struct buf request;        /* the REQUEST frame */
	struct buf busy;           /* of a GC, for the REQUEST: the containers on which operations ran when it began */
	struct buf problem;        /* what is wrong with the variables that name the sandbox, or empty */
	char lock_file[PATH_SIZE]; /* of the sandbox */
	int node_lock;             /* a GC's open state directory while it excludes others, else -1 */
	int docker_lock;           /* a GC's open directory of the Docker driver's records, likewise */
	int lock;                  /* the sandbox's open lock file */
	int inherited_lock;        /* the same file opened again, for delegates to inherit; or -1 */
	const char *unmet;         /* the outcome for a plugin that the next EXEC requires, if it may not be run */
	struct buf unmet_message;  /* why */
	char netns_entry[PATH_SIZE + 10]; /* CNI_NETNS of the next delegate, if it differs from the order's */
	bool is_begun;             /* a plugin was run; in an ADD, one for its ADD: the record is this ADD's only then */
	const char *trouble;       /* why no engine has answered the call */
	struct buf declined;       /* the CNI error of the engine that declined it last */
	pid_t standalone;          /* the plexus-standalone that was tried, or 0 */
	bool sends_alive;          /* the session's engine does */
	bool is_silent;            /* the last engine did not answer in time */
	int exit_status;           /* of an answered call */
	struct exec_result result; /* of the last delegate */
	int exec_errno;            /* why the last child could not become its executable */
	bool is_unnoted;           /* as the lock file could not be written */
};
struct nlmsghdr;

/* bytes.c */
#define FORMAT(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
/* In a function with variable arguments: appends them. */
#define BUF_VPRINT(b, format) \
	do { va_list args; va_start(args, format); buf_vprint(b, format, &args); va_end(args); } while (0)
static inline struct field text(const char *s) { return (struct field){ (char *)s, strlen(s) }; }
static inline struct field content(const struct buf *b) { return (struct field){ b->data, b->len }; }
/* True if the field can be used as a C string: it contains no NUL. */
static inline bool is_text(struct field f) { return strlen(f.data) == f.len; }
static inline bool field_is(struct field f, const char *s) { return f.len == strlen(s) && !memcmp(f.data, s, f.len); }
void buf_add(struct buf *b, const void *data, size_t len);
void buf_free(struct buf *b);
struct field number(char digits[NUMBER_SIZE], int64_t n);
void buf_vprint(struct buf *b, const char *format, va_list *args) FORMAT(2, 0);
void buf_print(struct buf *b, const char *format, ...) FORMAT(2, 3);
char *print(char *to, size_t size, const char *format, ...) FORMAT(3, 4);
size_t utf8_length(const char *s);
void buf_json(struct buf *b, const char *text);
int field_number(struct field f);
bool is_exec(const struct frame *f);
void frame_write(struct buf *b, int type, const struct field *fields, int count);
ssize_t frame_parse(const char *bytes, size_t len, struct frame *f);

/* io.c */
int64_t clock_us(clockid_t clock);
static inline int64_t now_us(void) { return clock_us(CLOCK_MONOTONIC); }
int ms_until(int64_t deadline);
ssize_t read_some(int fd, struct buf *b);
int read_all(int fd, struct buf *b, size_t cap, int patience_ms);
int read_file(const char *path, struct buf *b, size_t cap);
int write_all(int fd, const void *data, size_t len);
int say(int fd, const char *format, ...) FORMAT(2, 3);
int open_again(int fd, int flags);
void process_start(const char *file, struct buf *to);
bool is_file(int fd, const char *path);

/* call.c */
const char *setting(const char *name, const char *fallback);
int setting_ms(const char *name, int fallback);
void call_init(struct call *call);
static inline bool call_is(const struct call *call, const char *command) { return !strcmp(call->command, command); }
/* True for the commands whose orders may concern only the call's container. */
static inline bool call_attaches(const struct call *call) { return call_is(call, "ADD") || call_is(call, "CHECK"); }
void call_find_version(struct call *call, const char *conf);
bool is_container_id(const char *id);
void call_check(struct call *call);
_Noreturn void end_by_signal(int number);
struct pollfd caller_end(const struct call *call);
void await_ms(const struct call *call, int ms);
const char *errno_text(int error);
_Noreturn void fail(const struct call *call, enum cni_error code, const char *format, ...) FORMAT(3, 4);

/* lock.c */
bool straggler_note(int lock, pid_t group);
void lock_take(struct call *call);
void lock_share(struct call *call);
bool lock_other(struct call *other, const char *container_id);
void unlock_other(const struct call *other);
bool lock_try(struct call *call, bool only_reads);

/* trust.c */
bool link_resolve(char path[PATH_SIZE], size_t len);
void trusted_path(const struct call *call, const char *order, struct buf *list);
const char *plugin_find(const struct call *call, struct field type, const char *search, char path[PATH_SIZE],
			struct buf *message);

/* rules.c */
const char *order_variable(const struct frame *order, const char *name);
bool is_mounted_at(const char *path);
bool order_allowed(struct call *call, const struct frame *order, struct buf *message);

/* exec.c */
void spawn_prepare(void);
const char *exec_text(const char *path, int error);
pid_t spawn(struct call *call, const char *path, const int *fds, int count, const struct frame *order);
void exec_order(struct call *call, const struct frame *f, int timeout_ms);

/* netlink.c */
static inline bool is_own_netns(int fd) { return is_file(fd, OWN_NETNS); }
int netns_open(const char *path);
int netns_target(const char *path, char target[PATH_SIZE]);
void netns_process(const char *path, struct buf *id);
int netlink_last(const char *bytes, size_t len, struct nlmsghdr *last);
bool netlink_allowed(const char *bytes, size_t len, bool *only_reads);
void netlink_order(const struct call *call, const struct frame *f, struct netlink_result *r);
int netlink_here(const struct call *call);
enum netns netns_inspect(const struct call *call, const char *path, struct buf *names);
const char *netns_doubt(const struct call *call);

/* plan.c */
uint32_t crc32(const char *bytes, size_t len);
struct plan {
	struct buf bytes;
	struct field boot_id;
	size_t first;         /* where its first step is */
	int steps, attempted; /* groups from `attempted` on were never tried; INT_MAX: all may have been */
	int error;            /* why its file could not be read, or 0 */
	bool is_whole;
	bool is_record;       /* not default.plan */
	bool is_roots;        /* no other user may have written the file */
	bool is_marked;       /* a DEL has begun */
};
bool plan_parse(struct plan *plan, const char *id, const char *ifname);
size_t plan_step(const struct plan *plan, size_t at, struct frame *step);

/* replay.c */
void plan_mark(const struct call *call);
bool plan_is_live(const struct call *call);
void plan_occupants(const struct call *call, const char *netns, struct buf *names);
enum cni_error plan_replay(struct call *call, struct buf *failures);
void multus_clean(const struct call *call);

/* session.c */
void session_request(struct call *call);
enum session_end converse(struct call *call, int fd);
int connect_to(struct call *call, const char *path, pid_t *listener);
enum session_end session_with_daemon(struct call *call);

/* standalone.c */
enum session_end session_with_standalone(struct call *call);

/* agent.c */
void agent_busy(struct call *call);
const char *agent_enter(struct call *call, const struct frame *f, struct buf *links, const char **problem);
_Noreturn void agent(struct call *call, char *const options[]);

#endif
