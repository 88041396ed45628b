/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between the shim and the engine (src/protocol/ is its other end).
 *
 *   frame   := length:u32be type:u8 field*        length counts type and fields
 *   field   := length:u32be bytes[length] 0x00    the NUL is not counted; it lets C use a field in place
 *
 * Numbers in fields are decimal ASCII. The shim sends one REQUEST and then answers orders, one at
 * a time, until DONE. Either side that sees a frame it does not know, or one that does not parse,
 * gives up with a clear error; the connection is the call's life.
 *
 *   REQUEST        shim -> engine   version stdin (NAME=VALUE)*       its environment's CNI_*, and the below
 *   EXEC           engine -> shim   group type searchPath timeoutMs stdin (CNI_NAME=VALUE)*
 *   EXEC_RESULT    shim -> engine   outcome code stdout stderr message elapsedUs
 *   NETLINK        engine -> shim   netnsPath bytes                   NETLINK_ROUTE; "" = the shim's own
 *   NETLINK_RESULT shim -> engine   errno bytes message               errno 0 = answered
 *   DONE           engine -> shim   exitCode stdout stderr
 *
 * Beside the CNI variables a REQUEST has
 *   PLEXUS_NETNS_IS_OWN=1     when CNI_NETNS opens as the network namespace that the shim itself is in
 *   PLEXUS_TRACE=...          when it is set, and then also
 *   PLEXUS_STARTED_US=NUMBER  when the shim started, in microseconds of CLOCK_REALTIME
 *
 * outcome of EXEC_RESULT, and what `code` then is:
 *   exited    exit status                    signaled  signal number
 *   timeout   0: killed with its group       overflow  0: stdout passed the cap, killed with its group
 *   missing   0: no such plugin in the path  refused   0: name or directory breaks the safety rules
 *   failed    errno of what could not be done (fork, execve)
 * `message` is one line of why for every outcome but `exited`.
 *
 * A teardown plan (`<stateDir>/<containerID>@<ifName>.teardown`) is a file of frames:
 *   PLAN      version containerID ifName
 *   EXEC*     the DELs in the order to run them, those of a `group` one after another; after a
 *             failure the rest of the group is passed over (a chain stops at its first error),
 *             other groups go on
 *   PLAN_END  count crc32                      of all bytes before this frame, 8 hex digits
 *
 * A plan of which a step failed is kept as it is, and the next DEL repeats all of it: CNI lets every
 * DEL be repeated.
 */
#ifndef PLEXUS_PROTOCOL_H
#define PLEXUS_PROTOCOL_H

#define PROTOCOL_VERSION "1"
#define FRAME_MAX (16u << 20)
#define FIELDS_MAX 64 /* of any frame */

#define SOCKET_PATH "/run/plexus/plexus.sock"
#define STATE_DIR "/var/lib/plexus"
#define STANDALONE_PATH "/opt/cni/bin/plexus-standalone"

enum frame_type {
	FRAME_REQUEST = 1, FRAME_EXEC = 2, FRAME_EXEC_RESULT = 3,
	FRAME_NETLINK = 4, FRAME_NETLINK_RESULT = 5, FRAME_DONE = 6,
	FRAME_PLAN = 7, FRAME_PLAN_END = 8,
};

/* The fields of EXEC; further ones are ENV too. */
enum exec_field { EXEC_GROUP, EXEC_TYPE, EXEC_PATH, EXEC_TIMEOUT, EXEC_STDIN, EXEC_ENV };

#endif
