import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import type { Operation } from "../chaos/fault.ts";
import { killIfRuns, type Parts } from "../chaos/injector.ts";
import { type GateAction, gateOf } from "../chaos/lab/gates.ts";
import { startCall } from "../chaos/lab/runtime-call.ts";
import { Random } from "../chaos/random.ts";
import { addPod, sandboxOf } from "../chaos/run.ts";

const callLimitMs = 30_000;
const delLimit = 10;
/** Beside those of a plugin: the runtime kills the executable. */
const actions = ["fail", "fail", "kill", "kill", "garbage", "flood", "hang", "shim"] as const;

interface CycleFault {
  readonly operation: Operation;
  readonly action: GateAction | "shim";
  readonly afterMs: number;
}

/** The networks of a pod beside its default network. */
export const soakNetworks = [1, 2, 3, 4].map((n) => ({ ifName: `net${n}`, nad: `soak-${n}` }));

/**
 * Attaches a pod and detaches it again; every second number has a fault.
 * @throws Error when the DEL does not succeed however often it is repeated
 */
export async function cycle(node: Parts, seed: string, number: number): Promise<void> {
  const random = new Random(`${seed}:${number}`);
  const fault = number % 2 === 0 ? undefined : pickFault(random);
  const sandbox = sandboxOf(number);
  const wanted = soakNetworks.map(({ nad }) => nad);
  await addPod(node, sandbox, wanted);
  const options = { cniPath: [node.place.binDir], previousRelease: false, standalone: false };
  const call = async (operation: Operation, hit?: CycleFault): Promise<string> => {
    const isOwn = hit?.operation === operation;
    const gate = isOwn ? armGate(node, { ...sandbox, random }, hit) : undefined;
    const running = startCall(node.contender.command(operation, sandbox, options), callLimitMs);
    if (isOwn && hit.action === "shim") setTimeout(() => killIfRuns(running), hit.afterMs);
    const said = await running.outcome;
    if (gate !== undefined) node.gates.release(gate);
    return said;
  };
  await call("ADD", fault);
  let said = await call("DEL", fault);
  for (let n = 1; said !== "ok" && n < delLimit; n++) {
    await sleep(50 * 2 ** n);
    said = await call("DEL");
  }
  await execa("ip", ["netns", "del", sandbox.podName]);
  node.api.delete("pods", `default/${sandbox.podName}`);
  if (said !== "ok") throw new Error(`cycle ${number}: DEL never succeeded: ${said}`);
}

function pickFault(random: Random): CycleFault {
  return {
    operation: random.pick(["ADD", "DEL"]),
    action: random.pick(actions),
    afterMs: Math.floor(random.next() * 200),
  };
}

/** Sets the gate of one of the pod's plugins, or of its address plugin; the runtime's own faults need none. */
function armGate(
  node: Parts,
  { containerId, random }: { containerId: string; random: Random },
  { operation, action }: CycleFault,
): string | undefined {
  if (action === "shim") return undefined;
  const { ifName } = random.pick(soakNetworks);
  const moment = random.pick(["before", "after", "ipam"] as const);
  const gate = gateOf(containerId, { operation, step: { moment, ifName, plugin: "macvlan" } });
  node.gates.set(gate, action);
  return gate;
}
