import { networksAnnotation } from "#npwg/selection/selection.ts";
import {
  gatewaysOf,
  isGateway,
  isMistyped,
  isRefused,
  type NetworkName,
} from "../node/networks.ts";
import type { SimulatedPod } from "../node/runtime.ts";
import type { Attached } from "../world/attached.ts";
import { mayInterrupt } from "./draw/mischief.ts";
import type { PodScenario, Scenario } from "./scenario.ts";
import type { Stage } from "./stage.ts";

/** The interface of a requested network. Where annotations are edited, they name it. */
export function interfaceName({ hotPlug }: Pick<Scenario, "hotPlug">, index: number): string {
  return hotPlug ? `if${index}` : `net${index + 1}`;
}

/** The value of a pod's networks annotation; none for a pod without networks. */
export function annotationsOf(
  scenario: Pick<Scenario, "hotPlug">,
  networks: readonly NetworkName[],
): Record<string, string> {
  if (networks.length === 0) return {};
  return { [networksAnnotation]: elementsOf(scenario, networks) };
}

function elementsOf(scenario: Pick<Scenario, "hotPlug">, networks: readonly NetworkName[]): string {
  if (!scenario.hotPlug) return networks.join(",");
  const elements = networks.map((name, index) => ({
    ...{ name, interface: interfaceName(scenario, index) },
    ...(isGateway(name) && { "default-route": gatewaysOf(name) }),
  }));
  if (networks.some(isGateway)) return JSON.stringify(elements);
  return elements.map((each) => `${each.name}@${each.interface}`).join(",");
}

/** The networks that a pod requests. */
export function requestedBy(
  { scenario, edited }: Pick<Stage, "scenario" | "edited">,
  { uid }: SimulatedPod,
): readonly NetworkName[] {
  const atStart = scenario.pods[Number(uid.split("-").at(-1))]?.networks ?? [];
  return edited.get(uid)?.networks ?? atStart;
}

/** Has the pod's annotation edited while it lives. */
export function scheduleEdits(stage: Stage, pod: SimulatedPod, { edits }: PodScenario): void {
  for (const { afterMs, networks } of edits) {
    stage.world.schedule.at(afterMs * 1000, () => edit(stage, pod, networks));
  }
}

function edit(stage: Stage, pod: SimulatedPod, networks: readonly NetworkName[]): void {
  const { api, faults, kubelet, scenario, edited } = stage;
  const key = `${pod.namespace}/${pod.name}`;
  const isThere = kubelet.pods.includes(pod) && api.pod(key)?.metadata.uid === pod.uid;
  if (faults.isOver || api.isDown || !isThere) return;
  const value = annotationsOf(scenario, networks)[networksAnnotation];
  edited.set(pod.uid, { networks, kept: keptBy(stage, pod, networks) });
  if (value === undefined) delete pod.annotations[networksAnnotation];
  else pod.annotations[networksAnnotation] = value;
  api.annotatePod(key, { [networksAnnotation]: value ?? null });
}

/**
 * What an edit must not remove: what has the interface of an element that cannot be attached. If
 * that is known before, what no element requests stays, too; otherwise the network must come back,
 * unless it has moved, or something interrupts that. A definition that changes for a time can be
 * attached meanwhile.
 */
function keptBy(
  { world, api, runtime, edited, scenario }: Stage,
  pod: SimulatedPod,
  networks: readonly NetworkName[],
): Attached[] {
  const isOnceRight = (name: NetworkName): boolean =>
    scenario.mischief.some((each) => each.kind === "definition changed" && each.network === name);
  const hasMistyped = networks.some((name) => isMistyped(name) && !isOnceRight(name));
  const isUndisturbed = !scenario.mischief.some(mayInterrupt);
  const before = requestedBy({ scenario, edited }, pod);
  const sandbox = [...runtime.sandboxes.values()].find((each) => each.pod === pod);
  const status = api.networkStatus(`${pod.namespace}/${pod.name}`) ?? "";
  return world.kernel.attachedOf(sandbox?.id ?? "").filter(({ kind, ifName, network }) => {
    const index = before.findIndex((_, each) => interfaceName(scenario, each) === ifName);
    const isShown = status.includes(`"${ifName}"`) && status.includes(`/${network}"`);
    if (kind !== "link" || before[index] !== network || !isShown) return false;
    const wanted = networks[index];
    if (wanted === undefined || wanted === network) return hasMistyped;
    if (isOnceRight(wanted)) return false;
    const hasMoved = networks.some((name, each) => name === network && before[each] !== network);
    return isMistyped(wanted) || (isRefused(wanted) && isUndisturbed && !hasMoved);
  });
}
