import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import type { Operation } from "../chaos/fault.ts";
import type { Parts } from "../chaos/injector.ts";
import { type GateAction, gateOf } from "../chaos/lab/gates.ts";
import { problemOf, startCall } from "../chaos/lab/runtime-call.ts";
import { Random } from "../chaos/random.ts";
import { signal } from "../support/processes.ts";

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
  const podName = `soak-${number}`;
  const sandbox = {
    podName,
    podUid: `00000000-0000-4000-9000-${String(number).padStart(12, "0")}`,
    containerId: `soak${number}`,
    netns: `/run/netns/${podName}`,
  };
  await execa("ip", ["netns", "add", podName]);
  const annotations = {
    "k8s.v1.cni.cncf.io/networks": soakNetworks.map(({ nad }) => nad).join(","),
  };
  const metadata = { name: podName, namespace: "default", uid: sandbox.podUid, annotations };
  const pod = { apiVersion: "v1", kind: "Pod", metadata, spec: { nodeName: "chaos" } };
  node.api.put("pods", { ...pod, status: { phase: "Pending" } });
  const call = async (operation: Operation, hit?: CycleFault): Promise<string> => {
    const { binDir } = node.place;
    const options = { cniPath: [binDir], previousRelease: false, standalone: false };
    const gate = hit && armGate(node, { ...sandbox, random }, hit);
    const running = startCall(node.contender.command(operation, sandbox, options), callLimitMs);
    if (hit?.action === "shim") setTimeout(() => kill(running), hit.afterMs);
    const outcome = await running.outcome;
    if (gate !== undefined) node.gates.release(gate);
    return outcome.exitCode === 0 ? "ok" : problemOf(outcome);
  };
  await call("ADD", fault?.operation === "ADD" ? fault : undefined);
  let said = await call("DEL", fault?.operation === "DEL" ? fault : undefined);
  for (let n = 1; said !== "ok" && n < delLimit; n++) {
    await sleep(50 * 2 ** n);
    said = await call("DEL");
  }
  await execa("ip", ["netns", "del", podName]);
  node.api.delete("pods", `default/${podName}`);
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

function kill(running: { readonly pid: number; hasEnded(): boolean }): void {
  if (!running.hasEnded()) signal(running.pid, "SIGKILL");
}
