import { constants } from "node:os";
import { CniError } from "#cni/error.ts";
import { NetnsError } from "#engine/ports/host.ts";
import { type EngineProcess, type SandboxToEnter, world } from "../../world/world.ts";
import { agentEnter } from "./agent-enter.ts";
import { netnsState, type ShimAnswer, type ShimCall } from "./call.ts";
import { Connection, type EngineMessage } from "./connection.ts";
import { execOrder, findPlugin } from "./exec.ts";
import { lockShare } from "./lock.ts";
import { planOccupants } from "./replay.ts";

/* Models shim/session.c. */

/** How a session with an engine ended: with its answer, before the call had begun, or after. */
export type SessionEnd = ShimAnswer | "unreachable" | "lost";

/** `session_request`: the input and the CNI variables. */
function sessionRequest({
  command,
  env,
  netns,
  startedMs,
  busy,
  stdin,
}: ShimCall): Connection["request"] {
  const variables: Record<string, string> = {};
  if (netns !== "") variables.PLEXUS_NETNS = netnsState(netns);
  const process = world().kernel.processAt(netns);
  if (process !== undefined) variables.PLEXUS_NETNS_PROCESS = process;
  if (command === "ADD" && variables.PLEXUS_NETNS === "ok")
    variables.PLEXUS_LINKS = world()
      .kernel.linkNames(netns)
      .map((name) => `${name}/`)
      .join("");
  if (command === "AGENT" && env.PLEXUS_AGENT !== undefined)
    variables.PLEXUS_AGENT = env.PLEXUS_AGENT;
  if (busy.length > 0) variables.PLEXUS_BUSY = busy.map((id) => `${id}/`).join("");
  if (command === "GC" || command === "DEL")
    variables.PLEXUS_STARTED_MONOTONIC_US = String(startedMs * 1000);
  for (const name in env) if (name.startsWith("CNI_")) variables[name] = env[name] as string;
  return { env: variables, stdin };
}

/** `session_with_daemon` */
export async function sessionWithDaemon(call: ShimCall): Promise<SessionEnd> {
  const { daemon } = world();
  if (daemon === undefined || !daemon.process.isAlive) {
    call.trouble = "connection refused";
    return "unreachable";
  }
  return converse(call, daemon);
}

/** `session_with_standalone` */
export async function sessionWithStandalone(call: ShimCall): Promise<SessionEnd> {
  const { startStandalone, standalones } = world();
  if (startStandalone === undefined) return "unreachable";
  const shared = standalones.get(call.runtime);
  if (shared?.process.isAlive) {
    const end = await converse(call, shared);
    if (end !== "unreachable") return end;
    if (call.isSilent && standalones.get(call.runtime) === shared) standalones.delete(call.runtime);
  }
  const engine = startStandalone();
  const isShared = standalones.get(call.runtime)?.process.isAlive !== true;
  if (isShared) standalones.set(call.runtime, engine);
  const end = await converse(call, engine);
  if (typeof end !== "string") return end;
  if (!isShared || call.isSilent) world().schedule.kill(engine.process);
  if (end === "unreachable") call.trouble = "plexus-standalone ended early";
  return "lost";
}

/** `converse`: serves orders until the end. */
async function converse(call: ShimCall, engine: EngineProcess): Promise<SessionEnd> {
  const silenceUs = call.settingMs("PLEXUS_SILENCE_MS", 30_000) * 1000;
  const connection = new Connection(call.process, sessionRequest(call), engine);
  for (;;) {
    const message = await connection.next(silenceUs);
    if (message.kind === "done") return finish(message);
    if (message.kind === "closed" || message.kind === "silent") {
      connection.close();
      return lost(call, message.kind);
    }
    if (!call.isBusy) call.onOrder?.();
    call.isBusy = true;
    if (message.kind !== "sandbox") await serveOrder(call.entered ?? call, connection, message);
    else if (!answerSandbox(call, connection, message.sandbox)) return lost(call, "closed");
  }
}

function finish({ answer }: Extract<EngineMessage, { kind: "done" }>): ShimAnswer {
  return { status: answer.exitCode, stdout: answer.stdout };
}

/** The end of `read_more` */
function lost(call: ShimCall, kind: "closed" | "silent"): SessionEnd {
  const isSilent = kind === "silent";
  call.isSilent = isSilent;
  if (call.isBegun) {
    call.trouble = `plexusd ${isSilent ? "stopped answering" : "closed the connection"} during the call`;
    return "lost";
  }
  call.trouble = isSilent ? "it did not answer in time" : "it closed the connection early";
  return "unreachable";
}

/** The agent runs where the mounts of namespaces are hidden. */
const hidden = new NetnsError("no such file or directory", constants.errno.ENOENT);

type Order = Exclude<EngineMessage, { kind: "sandbox" | "done" | "closed" | "silent" }>;

/** `answer_sandbox` @returns whether the session has its sandbox; otherwise it ends */
function answerSandbox(call: ShimCall, connection: Connection, sandbox: SandboxToEnter): boolean {
  const answer = agentEnter(call, sandbox);
  connection.answer(({ resolve }) => resolve(answer));
  return answer.outcome === "ok";
}

/** `serve_order` */
async function serveOrder(call: ShimCall, connection: Connection, order: Order): Promise<void> {
  switch (order.kind) {
    case "exec": {
      const command = order.call.env.CNI_COMMAND ?? call.command;
      call.isBegun ||= call.command !== "ADD" || command === "ADD";
      if (command === "DEL") await lockShare(call);
      const outcome = await execOrder(call, order.call);
      return connection.answer(({ resolve }) => resolve(outcome));
    }
    case "find": {
      const found = order.types.map(findPlugin);
      return connection.answer(({ resolve }) => resolve(found));
    }
    case "occupants": {
      const names = planOccupants(call, order.netns);
      return connection.answer(({ resolve }) => resolve(names));
    }
    case "netlink": {
      try {
        if (world().isAgentBlind && call.command === "AGENT") throw hidden;
        const reply = netlinkOrder(call, order.netns, order.messages);
        return connection.answer(({ resolve }) => resolve(reply));
      } catch (error) {
        return connection.answer(({ reject }) => reject(error));
      }
    }
  }
}

/** What `netlink_allowed` passes, without attributes: gets of links, addresses and routes, and changes of routes. */
const [reads, changes] = [
  [18, 22, 26],
  [24, 25],
];

/** `netlink_order` of shim/netlink.c @throws NetnsError, CniError as `DelegateHost.netlink` */
function netlinkOrder(call: ShimCall, netns: string, messages: Uint8Array): Uint8Array {
  const types = messageTypes(messages);
  if (!types.every((type) => [...reads, ...changes].includes(type)))
    refuse("a netlink message or an attribute that Plexus does not use");
  if (netns === "") refuse("the order names no network namespace");
  if (netns !== call.netns && !types.every((type) => reads.includes(type)))
    refuse("an order may change only the call's own network namespace");
  return world().kernel.netlink(netns, messages);
}

function refuse(message: string): never {
  throw new CniError("IoFailure", `refused: ${message}`);
}

function messageTypes(messages: Uint8Array): number[] {
  const view = new DataView(messages.buffer, messages.byteOffset, messages.byteLength);
  const types: number[] = [];
  for (let at = 0; at + 16 <= messages.length; ) {
    types.push(view.getUint16(at + 4, true));
    at += Math.max(16, (view.getUint32(at, true) + 3) & ~3);
  }
  return types;
}
