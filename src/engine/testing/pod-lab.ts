import { expect } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { EngineLab, type LabOptions, network } from "./engine-lab.ts";

/** The options of a call for the pod of {@link podLab}. */
export const web = { pod: "default/web" };

/** The options of a call whose network namespace is gone. */
export const gone = { env: { PLEXUS_NETNS: "gone" } };

/** A plugin that is not installed, for {@link EngineLab.plugins}. */
export const missing = { outcome: "missing", message: "no such plugin" } as const;

interface PodLabOptions extends LabOptions {
  /** Before the pod is attached. */
  readonly prepare?: (lab: EngineLab) => void;
}

/** Plugins by the name of their network. */
type Networks = Readonly<Record<string, readonly string[]>>;

const twoNetworks: Networks = { a: ["bridge"], b: ["macvlan"] };

/** A lab with a pod `web`, and for each NAME of networks a definition `default/NAME` of the network `net-NAME`. */
export function podLab(
  annotation: string,
  networks: Networks = twoNetworks,
  { prepare, ...options }: PodLabOptions = {},
): EngineLab {
  const lab = new EngineLab(options);
  for (const [name, types] of Object.entries(networks)) {
    lab.source.addNad(`default/${name}`, network(`net-${name}`, ...types));
  }
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: annotation } });
  prepare?.(lab);
  return lab;
}

/** The same with the pod attached, and empty journals. */
export function attachedPod(...options: Parameters<typeof podLab>): Promise<EngineLab> {
  return attach(podLab(...options), web);
}

/** A lab with a sandbox that is attached to one network, and empty journals. */
export function attachedTo(conf: JsonObject, options: LabOptions = {}): Promise<EngineLab> {
  return attach(new EngineLab({ conf: { delegates: [conf] }, ...options }));
}

async function attach(lab: EngineLab, call: { pod?: string } = {}): Promise<EngineLab> {
  expect(await lab.add(call)).toMatchObject({ exitCode: 0 });
  const { journal, plugins, source, events } = lab;
  for (const entries of [journal, plugins.calls, source.asked, events.recorded]) entries.length = 0;
  return lab;
}

/** A network `default-net` of a plugin with addresses, and of others after it. */
export function withIpam(type: string, ...chained: string[]): JsonObject {
  const plugins = [
    { type, ipam: { type: "host-local" } },
    ...chained.map((each) => ({ type: each })),
  ];
  return { cniVersion: "1.0.0", name: "default-net", plugins };
}
