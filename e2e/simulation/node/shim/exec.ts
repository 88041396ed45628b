import { constants } from "node:os";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import type { PluginLookup } from "#engine/ports/host.ts";
import { Process } from "../../world/schedule.ts";
import { world } from "../../world/world.ts";
import { startDelegate } from "../delegates.ts";
import type { ProcessGroup } from "../locks.ts";
import { hasPlugin } from "../plugins.ts";
import type { ShimCall } from "./call.ts";
import { lockOther, release, stragglerNote } from "./lock.ts";

/* Models shim/exec.c. */

/** For pipes to close after the delegate has ended, in microseconds. */
const graceUs = 2_000_000;
/** Until the shim notices that its delegate was killed, in microseconds. */
const noticeUs = 50;
const { SIGKILL } = constants.signals;

/** A delegate and what it leaves running. The shim's end kills only the delegate itself. */
class DelegateGroup implements ProcessGroup {
  readonly leader: Process;
  readonly #children: Process[] = [];

  constructor(type: string) {
    this.leader = new Process(`delegate ${type}`);
  }

  add(child: Process): void {
    this.#children.push(child);
  }

  kill(): void {
    const { schedule } = world();
    schedule.kill(this.leader);
    for (const child of this.#children) schedule.kill(child);
  }

  /** Calls a function when no process has the pipes any more, or after the grace period. */
  whenClosed(tell: () => void): void {
    const { schedule } = world();
    const { current } = schedule;
    let left = this.#children.filter(({ isAlive }) => isAlive).length;
    if (left === 0) {
      tell();
      return;
    }
    const grace = schedule.at(graceUs, tell);
    const closed = (): void => {
      left -= 1;
      if (left > 0) return;
      schedule.cancel(grace);
      schedule.at(1, tell, current);
    };
    for (const child of this.#children) if (child.isAlive) child.onEnd(closed);
  }
}

/** `plugin_find` */
export function findPlugin(type: string): PluginLookup {
  if (hasPlugin(type)) return { outcome: "found" };
  return { outcome: "missing", message: `no plugin "${type}"` };
}

/** `exec_order` */
export async function execOrder(
  call: ShimCall,
  order: DelegateCall,
  timeoutMs = order.timeoutMs,
): Promise<DelegateOutcome> {
  for (const required of order.requires ?? []) {
    const lookup = findPlugin(required);
    if (lookup.outcome !== "found") return unstarted(lookup.outcome, lookup.message);
  }
  const refusal = call.refusal(order);
  if (refusal !== undefined) return unstarted("refused", refusal);
  const found = findPlugin(order.type);
  if (found.outcome !== "found") return unstarted(found.outcome, found.message);
  if (world().unexecutable.has(order.type))
    return {
      ...unstarted("failed", `cannot execute ${order.type}`),
      code: constants.errno.ENOEXEC,
    };
  const complete = { ...order, env: { ...call.env, ...order.env } };
  return runLocked(call, complete, timeoutMs);
}

/** `run_locked` */
async function runLocked(
  call: ShimCall,
  order: DelegateCall,
  timeoutMs: number,
): Promise<DelegateOutcome> {
  const { CNI_COMMAND, CNI_CONTAINERID: id = "" } = order.env;
  const isOwn = id === call.containerId || CNI_COMMAND !== "DEL";
  const locked = isOwn ? call : lockOther(call, id);
  if (locked === undefined)
    return unstarted("refused", `another operation on container ${id} is running`);
  const outcome = await attend(call, order, { timeoutMs, locked });
  call.delegate = undefined;
  stragglerNote(locked, undefined);
  if (!isOwn) release(locked);
  return outcome;
}

function unstarted(outcome: "refused" | "missing" | "failed", message: string): DelegateOutcome {
  return { outcome, code: 0, stdout: "", stderr: "", message, elapsedUs: 0 };
}

/** `attend`: waits for the delegate's end and for its pipes, and kills it after the time limit. */
function attend(
  call: ShimCall,
  order: DelegateCall,
  { timeoutMs, locked }: { readonly timeoutMs: number; readonly locked: ShimCall },
): Promise<DelegateOutcome> {
  const { schedule } = world();
  const { inherited } = locked;
  const begunUs = schedule.nowUs;
  const group = new DelegateGroup(order.type);
  const problem = stragglerNote(locked, group);
  if (problem !== undefined && order.env.CNI_COMMAND === "ADD") {
    schedule.kill(group.leader);
    return Promise.resolve(unstarted("failed", `cannot execute ${order.type}: ${problem.code}`));
  }
  call.delegate = group;
  inherited?.pass(group.leader);
  return new Promise((resolve, reject) => {
    let hasEnded = false;
    const end = (outcome: DelegateOutcome): void => {
      if (hasEnded) return;
      hasEnded = true;
      schedule.cancel(timer);
      schedule.kill(group.leader);
      if (outcome.outcome !== "exited") group.kill();
      group.whenClosed(() => resolve({ ...outcome, elapsedUs: schedule.nowUs - begunUs }));
    };
    const timer = schedule.at(timeoutMs * 1000, () => {
      end(killed("timeout", 0, `still running after ${timeoutMs} ms; killed`));
    });
    const onChild = (child: Process): void => {
      group.add(child);
      inherited?.pass(child);
    };
    group.leader.onEnd(() => {
      const outcome = killed("signaled", SIGKILL, `killed by signal ${SIGKILL}`);
      if (!hasEnded) schedule.at(noticeUs, () => end(outcome), call.process);
    });
    startDelegate(order, group.leader, onChild).ended.then(end, reject);
  });
}

function killed(outcome: "timeout" | "signaled", code: number, message: string): DelegateOutcome {
  return { outcome, code, stdout: "", stderr: "", message, elapsedUs: 0 };
}
