import { networksAnnotation } from "#npwg/selection/selection.ts";
import {
  deviceCounts,
  gatewaysOf,
  isGateway,
  isInvalid,
  type NetworkName,
} from "../node/networks.ts";
import type { SimulatedPod } from "../node/runtime.ts";
import type { Attached } from "../world/attached.ts";
import type { PodScenario, Scenario } from "./scenario.ts";
import type { Stage } from "./stage.ts";

/** An interface of a requested network. */
type Requested = Pick<Attached, "ifName"> & { readonly network: NetworkName };

/**
 * The interfaces of requested networks. Where annotations are edited, they name those of networks
 * that have one; others get free names.
 */
export function interfacesOf(
  { hotPlug }: Pick<Scenario, "hotPlug">,
  networks: readonly NetworkName[],
): Requested[] {
  const named = networks.map((network, index) => ({ network, name: `if${index}` }));
  const all = named.flatMap((each) => Array(deviceCounts[each.network] ?? 1).fill(each));
  return all.map(({ network, name }, i) => ({
    network,
    ifName: hotPlug && !hasFreeNames(network) ? name : `net${i + 1}`,
  }));
}

/** Whether an element cannot name the interfaces of a network. */
export function hasFreeNames(network: string): boolean {
  return network === "rails";
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
    ...{ name, interface: hasFreeNames(name) ? undefined : `if${index}` },
    ...(isGateway(name) && { "default-route": gatewaysOf(name) }),
  }));
  if (networks.some(isGateway)) return JSON.stringify(elements);
  return elements.map((each) => [each.name, each.interface ?? []].flat().join("@")).join(",");
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
  const hasMoved =
    edited.get(pod.uid)?.hasMoved === true ||
    requestedBy(stage, pod).find(isGateway) !== networks.find(isGateway);
  edited.set(pod.uid, { networks, kept: keptBy(stage, pod, networks), hasMoved });
  if (value === undefined) delete pod.annotations[networksAnnotation];
  else pod.annotations[networksAnnotation] = value;
  api.annotatePod(key, { [networksAnnotation]: value ?? null });
}

/** Whether a definition becomes right for a time: it can be attached meanwhile. */
export function isOnceRight({ scenario }: Pick<Stage, "scenario">, name: NetworkName): boolean {
  return scenario.mischief.some(
    (each) => each.kind === "definition changed" && each.network === name,
  );
}

/** What an edit must not remove as it is refused: all that was requested before, and is attached and shown. */
function keptBy(stage: Stage, pod: SimulatedPod, networks: readonly NetworkName[]): Attached[] {
  const { world, api, runtime, scenario } = stage;
  const sandbox = [...runtime.sandboxes.values()].find((each) => each.pod === pod);
  const links = world.kernel.attachedOf(sandbox?.id ?? "").filter(({ kind }) => kind === "link");
  const hasInvalid = networks.some((name) => isInvalid(name) && !isOnceRight(stage, name));
  const routed = links.find(({ network }) => isGateway(network as NetworkName));
  if (!hasInvalid && routed?.network === networks.find(isGateway)) return [];
  const before = interfacesOf(scenario, requestedBy(stage, pod));
  const status = api.networkStatus(`${pod.namespace}/${pod.name}`) ?? "";
  return links.filter(({ ifName, network }) => {
    const isRequested = before.some(
      (each) => each.network === network && (hasFreeNames(network) || each.ifName === ifName),
    );
    return isRequested && status.includes(`"${ifName}"`) && status.includes(`/${network}"`);
  });
}
