/* SPDX-License-Identifier: Apache-2.0
 * The protocol between the shim and the engine (the other end is src/protocol/).
 *
 *   frame   := length:u32be type:u8 field*        length counts type and fields
 *   field   := length:u32be bytes[length] 0x00    the NUL is not counted; C can use the field in place
 *
 * Numbers are decimal ASCII. The shim sends one REQUEST and then carries out orders, in sequence, until DONE. The engine may
 * send an order before the last one is answered. An unknown or malformed frame ends the session with an error. The answer to
 * a REQUEST of another version declines the call.
 *
 *   REQUEST        shim -> engine   version stdin (NAME=VALUE)*       CNI_* of its environment, and those below
 *   REQUIRE        engine -> shim   searchPath type*                  has no answer
 *   EXEC           engine -> shim   group type searchPath timeoutMs stdin (CNI_NAME=VALUE)*
 *   EXEC_RESULT    shim -> engine   outcome code stdout stderr message elapsedUs
 *   NETLINK        engine -> shim   netnsPath bytes                   NETLINK_ROUTE
 *   NETLINK_RESULT shim -> engine   errno bytes message stage
 *   FIND           engine -> shim   searchPath type*                  runs nothing
 *   FIND_RESULT    shim -> engine   (outcome message)*                of each type: `found` and "", `missing` or `refused`
 *   OCCUPANTS      engine -> shim   netnsPath                         reads records only
 *   OCCUPANTS_RESULT  shim -> engine  records                         NAME/NAME/, each containerID@ifName
 *   SANDBOX        engine -> shim   containerID ifName netnsPath [use]  of `plexus agent --attach` only
 *   SANDBOX_RESULT shim -> engine   outcome message links             links: NAME/NAME/
 *   ALIVE          engine -> shim                                     of plexus-standalone only
 *   DONE           engine -> shim   exitCode stdout stderr
 *
 * Until its first EXEC, of an ADD until its first EXEC of an ADD, the call has not begun: if the engine leaves or is silent,
 * another one gets the REQUEST. Afterwards, the shim replays the plan of an ADD or DEL. The engine of an ADD writes its plan
 * before that EXEC, after it has detached what an earlier plan says.
 *
 * A DONE with exit code 75 (EX_TEMPFAIL) declines a call that has not begun, with a CNI error: another engine may serve it. The
 * shim replays the plan of a DEL. It tries the engines again for another call, and prints the error if none serves it in time.
 *
 * A REQUEST also has
 *   PLEXUS_NETNS=STATE        if CNI_NETNS is not empty. `ok`: a network namespace. `own`: the shim's, which is the runtime's.
 *                             `gone`: none. `unknown`: a file that cannot be opened for another reason
 *   PLEXUS_NETNS_PROCESS=ID   if the path leads to the namespace of a process or thread: START-net:[NUMBER], or empty if unknown
 *   PLEXUS_LINKS=NAME/NAME/   for an ADD, if the state is ok: the links of that namespace. Absent if they cannot be read
 *   PLEXUS_TRACE=...          if it is set
 *   PLEXUS_STARTED_MONOTONIC_US=NUMBER  then, and for a GC or DEL: when the shim started
 *   PLEXUS_BUSY=ID/ID/        for a GC: the containers on which operations ran when it began. Absent if there were none
 *   PLEXUS_ALIVE=yes          then plexus-standalone sends an ALIVE at once, and each second. Five seconds without one end it
 *   PLEXUS_AGENT=attach       for a session of `plexus agent --attach`; `once` for `plexus agent --once`
 * `plexus agent` has the command AGENT. Its orders obey the rules of a DEL without a container.
 *
 * A SANDBOX locks a sandbox whose record has a DEL in that network namespace. The session's further orders obey the rules of
 * an ADD of it, until DONE. A session that got an order ends with its engine; the agent has another one that waits.
 *
 * Outcomes of SANDBOX_RESULT. Each but `ok` ends the session:
 *   ok        the sandbox is locked           busy     another operation on the sandbox, or a GC, runs
 *   gone      its namespace is gone, its record is gone, damaged or another's, or its DEL has begun
 *   refused   the agent may not attach, cannot lock the sandbox, or the path is not where a pod's namespace is mounted
 * The agent waits up to 10 s for processes that earlier plugins have left. If the use is `inspect`, the engine only reads, and
 * the agent does not wait: the sandbox is `busy` if they are of a shim that was killed.
 *
 * A REQUIRE names plugins that the next EXEC needs besides its own. If one of them may not be run, the EXEC runs nothing,
 * and returns the result of the missing or refused plugin.
 *
 * The records of an OCCUPANTS_RESULT are those whose sandbox may be in the network namespace to which the path leads: by any
 * path to it, or because a record cannot be used. If the DEL of another container has begun, its sandbox is over.
 *
 * Outcomes of EXEC_RESULT, with the meaning of `code`. Each but `exited` has a `message` of one line.
 *   exited    exit status                    signaled  signal number; its process group was killed
 *   timeout   0; killed with its group       overflow  0; stdout exceeded the cap, killed with its group
 *   missing   0; no such plugin in the path  refused   0; the order breaks the rules of trust.c or rules.c
 *   failed    errno of what failed (fork, execve)
 *
 * Stages of NETLINK_RESULT:
 *   done      the kernel answered; errno 0   open  the namespace could not be opened or entered
 *   request   the kernel did not answer, or the order breaks the rules (EPERM)
 *
 * An attachment's file, `<stateDir>/<containerID>@<ifName>.record`, holds its teardown plan and the record from which
 * the plan was made:
 *   PLAN      version containerID ifName bootId attempted
 *   EXEC*     the DELs in the order to run them. `group` numbers the attachments from 0, as they were made. A failure
 *             skips the remaining DELs of its group (a chain stops at its first error)
 *   RECORD    schema json                      for the engine
 *   PLAN_END  count crc32                      of the EXECs; of the plan's bytes before this frame, 8 hex digits
 * Each update is appended as another plan, and the last whole plan counts. If a plan follows that is not whole, as
 * after a crash or a power loss, `attempted` may be outdated. Readers refuse unknown versions, which all have a PLAN_END.
 *
 * Only attachments below `attempted` may have been tried. The others are skipped, unless `attempted` may be outdated: then, and
 * after a restart of the machine (/proc/sys/kernel/random/boot_id is not `bootId`), all are run.
 *
 * The file's mode is 0600. Before a DEL, and before it rolls back an ADD without an engine, the shim changes it to 01600.
 * To an engine, a record that keeps this mark is a failed teardown.
 *
 * If a step fails, the file stays as it is, and the next DEL repeats all steps: CNI DELs are idempotent. After success
 * it becomes `<containerID>@<ifName>.detached`, an empty file that tells a repeated DEL that nothing is left.
 *
 * While an empty `<containerID>@<ifName>.engine-only` exists, the shim replays nothing: another sandbox may have a device.
 * `default.plan` holds the DELs of the default network, for a sandbox without a file. It has no RECORD, and its
 * containerID, ifName and bootId are empty. The container's variables are those of the shim's call.
 */
#ifndef PLEXUS_PROTOCOL_H
#define PLEXUS_PROTOCOL_H

#define PROTOCOL_VERSION "4"
#define PLAN_VERSION "3"
#define FRAME_MAX (16u << 20)
#define FIELDS_MAX 64  /* of frames that the shim reads, and of a REQUEST; the engine reads 120 */
#define FIND_MAX 60    /* types in one FIND; its result has two fields for each */

#define SOCKET_PATH "/run/plexus/plexus.sock"
#define STATE_DIR "/var/lib/plexus"
#define PLUGIN_DIRS "/etc/plexus/plugin-dirs"
#define MULTUS_DIR "/var/lib/cni/multus"
#define STANDALONE_PATH "/opt/cni/bin/plexus-standalone"

enum frame_type {
	FRAME_REQUEST = 1, FRAME_EXEC = 2, FRAME_EXEC_RESULT = 3, FRAME_NETLINK = 4, FRAME_NETLINK_RESULT = 5,
	FRAME_DONE = 6, FRAME_PLAN = 7, FRAME_PLAN_END = 8, FRAME_FIND = 9, FRAME_FIND_RESULT = 10, FRAME_RECORD = 11,
	FRAME_REQUIRE = 12, FRAME_SANDBOX = 13, FRAME_SANDBOX_RESULT = 14, FRAME_OCCUPANTS = 15,
	FRAME_OCCUPANTS_RESULT = 16, FRAME_ALIVE = 17,
};

#define DECLINED 75 /* the exit code of a DONE */

enum exec_field { EXEC_GROUP, EXEC_TYPE, EXEC_PATH, EXEC_TIMEOUT, EXEC_STDIN, EXEC_ENV /* and further ones */ };

#endif
