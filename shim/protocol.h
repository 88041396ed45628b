/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between the shim and the engine (src/protocol/ is its other end).
 *
 *   frame   := length:u32be type:u8 field*        length counts type and fields
 *   field   := length:u32be bytes[length] 0x00    the NUL is not counted; it lets C use a field in place
 *
 * Numbers in fields are decimal ASCII. The shim sends one REQUEST and then carries out orders until
 * DONE, in the order in which they come; the engine may send the next one before it has the answer to
 * the last. Either side that sees a frame it does not know, or one that does not parse, gives up with
 * a clear error; the connection is the call's life. An engine answers a REQUEST of another version with
 * a DONE that carries a CNI error.
 *
 *   REQUEST        shim -> engine   version stdin (NAME=VALUE)*       its environment's CNI_*, and the below
 *   EXEC           engine -> shim   group type searchPath timeoutMs stdin (CNI_NAME=VALUE)*
 *   EXEC_RESULT    shim -> engine   outcome code stdout stderr message elapsedUs
 *   NETLINK        engine -> shim   netnsPath bytes                   NETLINK_ROUTE
 *   NETLINK_RESULT shim -> engine   errno bytes message stage         errno 0 = answered
 *   FIND           engine -> shim   searchPath type*                  runs nothing
 *   FIND_RESULT    shim -> engine   (outcome message)*                of each type, in their order
 *   FORGET         engine -> shim   containerID name*                 Multus's file of it, and results of it
 *   FORGET_RESULT  shim -> engine   errno message                     0 = they are gone
 *   DONE           engine -> shim   exitCode stdout stderr
 *
 * Beside the CNI variables a REQUEST has
 *   PLEXUS_NETNS=STATE        where CNI_NETNS is not empty. It is then the path of
 *                               ok       a network namespace other than the shim's
 *                               own      the shim's own network namespace, which is the runtime's
 *                               gone     nothing, or something that is no network namespace
 *                               unknown  what cannot be opened for another reason
 *   PLEXUS_TRACE=...          when it is set, and then also
 *   PLEXUS_STARTED_US=NUMBER  when the shim started, in microseconds of CLOCK_REALTIME
 * The command AGENT is that of `plexus agent`, which has no runtime: it carries orders for ever, as a DEL
 * without a container of its own.
 *
 * outcome of EXEC_RESULT, and what `code` then is:
 *   exited    exit status                    signaled  signal number; its process group was killed
 *   timeout   0: killed with its group       overflow  0: stdout passed the cap, killed with its group
 *   missing   0: no such plugin in the path  refused   0: the order breaks the rules of trust.c or rules.c
 *   failed    errno of what could not be done (fork, execve)
 * `message` is one line of why for every outcome but `exited`.
 *
 * outcome of FIND_RESULT: `found` with an empty message, `missing` or `refused` as above.
 *
 * stage of NETLINK_RESULT:
 *   done      the kernel answered
 *   open      the namespace could not be opened or entered
 *   request   the answer could not be had, or the order breaks the rules (EPERM)
 *
 * An attachment's file (`<stateDir>/<containerID>@<ifName>.record`) holds its teardown plan and the record
 * that the plan was made from, as frames:
 *   PLAN      version containerID ifName bootId attempted
 *   EXEC*     the DELs in the order to run them, those of a `group` one after another; after a
 *             failure the rest of the group is passed over (a chain stops at its first error),
 *             other groups go on. `group` is the number of the attachment, from 0, as they were made
 *   RECORD    schema json                      for the engine; the shim passes over it
 *   PLAN_END  count crc32                      the number of EXECs; of all bytes of the plan before this
 *                                              frame, 8 hex digits
 * An update is appended as another plan, and the last one that is whole counts. What was not written to its
 * end, or did not come through a power loss, is passed over. When that is the end of the file, what the
 * plan says of attempts may be older than what was done.
 * The file has mode 0600, and 0700 once a DEL of the sandbox has begun, or the undoing of its ADD without an engine: the
 * shim marks it so before anything else. An engine counts a record that stays marked as a teardown that failed.
 * The attachments below `attempted` have been tried; the others are passed over as long as the machine
 * has not been started again since (/proc/sys/kernel/random/boot_id is `bootId`), unless an update is passed
 * over.
 *
 * Earlier releases kept the plan in a file of its own, `<containerID>@<ifName>.teardown`, beside the record
 * (`.json`). It has no RECORD, version 2, or version 1, which ends its first frame with ifName and of which
 * all is run.
 *
 * `default.plan` is such a file without a RECORD, whose containerID, ifName and bootId are empty: the DELs of the
 * default network, for a sandbox without files of its own. They lack the container's variables, which come from the
 * shim's call.
 *
 * A plan of which a step failed is kept as it is, and the next DEL repeats all of it: CNI lets every
 * DEL be repeated. One that is done becomes `<containerID>@<ifName>.detached`, an empty file by which a
 * repeated DEL knows that there is nothing left to do.
 */
#ifndef PLEXUS_PROTOCOL_H
#define PLEXUS_PROTOCOL_H

#define PROTOCOL_VERSION "2"
#define PLAN_VERSION "3"
#define PLAN_VERSION_2 "2"
#define PLAN_VERSION_1 "1"
#define FRAME_MAX (16u << 20)
#define FIELDS_MAX 64  /* of any frame that the shim reads, and of a REQUEST; the engine reads 120 */
#define FIND_MAX 60    /* types in one FIND; its result has two fields of each */

#define SOCKET_PATH "/run/plexus/plexus.sock"
#define STATE_DIR "/var/lib/plexus"
#define PLUGIN_DIRS "/etc/plexus/plugin-dirs"
#define MULTUS_DIR "/var/lib/cni/multus"
#define STANDALONE_PATH "/opt/cni/bin/plexus-standalone"

enum frame_type {
	FRAME_REQUEST = 1, FRAME_EXEC = 2, FRAME_EXEC_RESULT = 3,
	FRAME_NETLINK = 4, FRAME_NETLINK_RESULT = 5, FRAME_DONE = 6,
	FRAME_PLAN = 7, FRAME_PLAN_END = 8,
	FRAME_FIND = 9, FRAME_FIND_RESULT = 10,
	FRAME_RECORD = 11,
	FRAME_FORGET = 12, FRAME_FORGET_RESULT = 13,
};

/* The fields of EXEC; further ones are ENV too. */
enum exec_field { EXEC_GROUP, EXEC_TYPE, EXEC_PATH, EXEC_TIMEOUT, EXEC_STDIN, EXEC_ENV };

#endif
