import { networksAnnotation } from "#npwg/selection/selection.ts";
import { gatewaysOf, isGateway, isMistyped, type NetworkName } from "../node/networks.ts";
import type { SimulatedPod } from "../node/runtime.ts";
import type { Attached } from "../world/attached.ts";
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
  const hasMistyped = networks.some((name) => isMistyped(name) && !isOnceRight(stage, name));
  const routed = links.find(({ network }) => isGateway(network as NetworkName));
  if (!hasMistyped && routed?.network === networks.find(isGateway)) return [];
  const before = requestedBy(stage, pod);
  const status = api.networkStatus(`${pod.namespace}/${pod.name}`) ?? "";
  return links.filter(({ ifName, network }) => {
    const isRequested = before.some(
      (name, index) => name === network && interfaceName(scenario, index) === ifName,
    );
    return isRequested && status.includes(`"${ifName}"`) && status.includes(`/${network}"`);
  });
}
