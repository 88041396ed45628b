import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import type { Sandbox } from "../chaos/contenders/contender.ts";
import { editNetworks, shownNetworks } from "../chaos/edits/pod-networks.ts";
import type { Operation } from "../chaos/fault.ts";
import { killIfRuns, type Parts } from "../chaos/injector.ts";
import { type GateAction, gateOf } from "../chaos/lab/gates.ts";
import { startCall } from "../chaos/lab/runtime-call.ts";
import { Random } from "../chaos/random.ts";
import { addPod, sandboxOf } from "../chaos/run.ts";
import { poll, waitUntil } from "../support/wait.ts";

const callLimitMs = 30_000;
const delLimit = 10;
const reachedLimitMs = 5000;
/** Beside those of a plugin: the runtime kills the executable. */
const actions = ["fail", "fail", "kill", "kill", "garbage", "flood", "hang", "shim"] as const;

interface CycleFault {
  readonly operation: Operation;
  /** Whether it happens while a network is unplugged or plugged, and not in the runtime's call. */
  readonly isInEdit: boolean;
  readonly action: GateAction | "shim";
  readonly afterMs: number;
}

interface SoakNetwork {
  readonly ifName: string;
  readonly nad: string;
}

/** The networks of a pod beside its default network. */
export const soakNetworks: readonly SoakNetwork[] = [1, 2, 3, 4].map((n) => ({
  ifName: `net${n}`,
  nad: `soak-${n}`,
}));

/**
 * Attaches a pod, unplugs one of its networks, plugs it again, and detaches the pod; every second
 * number has a fault.
 * @throws Error when the edits do not complete, or the DEL does not succeed however often it is repeated
 */
export async function cycle(node: Parts, seed: string, number: number): Promise<void> {
  const random = new Random(`${seed}:${number}`);
  const fault = number % 2 === 0 ? undefined : pickFault(random);
  const sandbox = sandboxOf(number);
  const wanted = soakNetworks.map(({ nad }) => nad);
  await addPod(node, sandbox, wanted);
  const options = { cniPath: [node.place.binDir], previousRelease: false, standalone: false };
  const call = async (operation: Operation, hit?: CycleFault): Promise<string> => {
    const isOwn = hit?.operation === operation && !hit.isInEdit;
    const gate = isOwn ? armGate(node, { ...sandbox, random }, hit) : undefined;
    const running = startCall(node.contender.command(operation, sandbox, options), callLimitMs);
    if (isOwn && hit.action === "shim") setTimeout(() => killIfRuns(running), hit.afterMs);
    const said = await running.outcome;
    if (gate !== undefined) node.gates.release(gate);
    return said;
  };
  const added = await call("ADD", fault);
  if (added === "ok") await plugAgain(node, { ...sandbox, random }, fault);
  let said = await call("DEL", fault);
  for (let n = 1; said !== "ok" && n < delLimit; n++) {
    await sleep(50 * 2 ** n);
    said = await call("DEL");
  }
  await execa("ip", ["netns", "del", sandbox.podName]);
  node.api.delete("pods", `default/${sandbox.podName}`);
  if (said !== "ok") throw new Error(`cycle ${number}: DEL never succeeded: ${said}`);
}

interface ArmedPod {
  readonly containerId: string;
  readonly random: Random;
  /** @default any */
  readonly network?: SoakNetwork;
}

/** What a pod's annotation requests from now on, and what happens meanwhile. */
interface PodEdit extends ArmedPod {
  readonly podName: string;
  readonly wanted: readonly SoakNetwork[];
  readonly hit: CycleFault | undefined;
}

function pickFault(random: Random): CycleFault {
  return {
    operation: random.pick(["ADD", "DEL"]),
    isInEdit: random.chance(0.3),
    action: random.pick(actions),
    afterMs: Math.floor(random.next() * 200),
  };
}

/** Unplugs one of the pod's networks and plugs it again, as a user does who edits its annotation twice. */
async function plugAgain(
  node: Parts,
  pod: Pick<Sandbox, "podName" | "containerId"> & { readonly random: Random },
  fault: CycleFault | undefined,
): Promise<void> {
  const network = pod.random.pick(soakNetworks);
  const others = soakNetworks.filter((each) => each !== network);
  const hitBy = (operation: Operation): CycleFault | undefined =>
    fault?.isInEdit === true && fault.operation === operation ? fault : undefined;
  await edit(node, { ...pod, network, wanted: others, hit: hitBy("DEL") });
  await edit(node, { ...pod, network, wanted: [...others, network], hit: hitBy("ADD") });
}

/** The fault may prevent the change for as long as its gate is set. */
async function edit(node: Parts, { podName, wanted, hit, ...pod }: PodEdit): Promise<void> {
  const names = wanted.map(({ nad }) => nad);
  const shown = wanted.map(({ nad, ifName }) => `${nad}@${ifName}`).toSorted();
  const isDone = (): boolean => shownNetworks(node.api, podName).join() === shown.join();
  const gate = hit && armGate(node, pod, hit);
  if (gate !== undefined) {
    editNetworks(node.api, podName, names);
    await poll(() => node.gates.reached(gate), { timeoutMs: reachedLimitMs, ended: isDone });
    node.gates.release(gate);
  }
  const isDoneAfterEdit = (): boolean => {
    // Again: the API server repeats no events, so plexusd may have missed one during an outage.
    editNetworks(node.api, podName, names);
    return isDone();
  };
  await waitUntil(`pod ${podName} has ${names}`, isDoneAfterEdit, { intervalMs: 100 });
}

/** Sets the gate of one of the pod's plugins, or of its address plugin; the runtime's own faults need none. */
function armGate(
  node: Parts,
  { containerId, random, network }: ArmedPod,
  { operation, action }: CycleFault,
): string | undefined {
  if (action === "shim") return undefined;
  const { ifName } = network ?? random.pick(soakNetworks);
  const moment = random.pick(["before", "after", "ipam"] as const);
  const gate = gateOf(containerId, { operation, step: { moment, ifName, plugin: "macvlan" } });
  node.gates.set(gate, action);
  return gate;
}
