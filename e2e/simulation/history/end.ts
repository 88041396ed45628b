import { tryParseJson } from "#cni/document.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { isJsonObject } from "#lib/json.ts";
import { decodeRecord } from "#protocol/plan.ts";
import type { networks } from "../node/networks.ts";
import type { Sandbox } from "../node/runtime.ts";
import type { Disk } from "../world/disk.ts";
import { inProcess } from "../world/remote.ts";
import type { Mischief } from "./scenario.ts";
import type { Stage } from "./stage.ts";

/** A status write waits at most this long before it is tried again. */
const statusUs = 150e6;

/** What holds for the pods that run once everything is repaired. */
export async function checkRunning(stage: Stage): Promise<void> {
  const { kubelet, runtime, properties, faults, scenario } = stage;
  if (kubelet.pods.length === 0) return;
  for (const sandbox of runningSandboxes(stage)) checkAttached(stage, sandbox);
  const isOk = await inProcess(runtime.process, () => runtime.check()).catch(() => true);
  if (!isOk) properties.violate("never what runs", "a CHECK fails");
  const unseen = await lastProblem(stage, () => watchProblem(stage));
  if (unseen !== undefined) properties.violate("watched", unseen);
  const problem = await lastProblem(stage, () =>
    runningSandboxes(stage)
      .map((sandbox) => statusProblem(stage, sandbox))
      .find((each) => each !== undefined),
  );
  // Nothing remembers a status that neither the API server nor the disk took.
  const isForgotten = faults.hasRefused && scenario.mischief.some(isOfApi);
  if (isForgotten) return;
  if (problem !== undefined) stage.properties.violate("status eventually", problem);
}

/** Waits until there is no problem, as long as writes and watches may take. */
async function lastProblem(
  { world }: Stage,
  problem: () => string | undefined,
): Promise<string | undefined> {
  const endUs = world.schedule.nowUs + statusUs;
  while (problem() !== undefined && world.schedule.nowUs < endUs) await world.schedule.sleep(1e6);
  return problem();
}

function watchProblem({ plexusd, api }: Stage): string | undefined {
  const seen = plexusd?.seenPods.toSorted().join();
  const there = Array.from(api.pods(), ({ metadata }) => metadata.uid)
    .toSorted()
    .join();
  return seen === there ? undefined : `plexusd sees the pods ${seen}, there are ${there}`;
}

function isOfApi({ kind }: Mischief): boolean {
  return ["API down", "API restart", "request", "watch"].includes(kind);
}

/** The sandboxes of pods that are to run. */
function runningSandboxes({ api, runtime, kubelet, world }: Stage): Sandbox[] {
  const wanted = new Set(kubelet.pods);
  return [...runtime.sandboxes.values()].filter(
    ({ pod, state, netns }) =>
      wanted.has(pod) &&
      api.pod(`default/${pod.name}`)?.metadata.uid === pod.uid &&
      state === "ready" &&
      world.kernel.hasNamespace(netns),
  );
}

/** Everything that is to be attached for a pod: `INTERFACE NETWORK`. */
function expected({ scenario }: Stage, { pod }: Sandbox): string[] {
  const requested = scenario.pods[Number(pod.uid.split("-").at(-1))]?.networks ?? [];
  return [
    `eth0 ${scenario.defaultNetwork}`,
    ...requested.map((name, index) => `net${index + 1} ${name}`),
  ];
}

function checkAttached(stage: Stage, sandbox: Sandbox): void {
  const { world, properties } = stage;
  const attached = world.kernel.attachedOf(sandbox.id);
  for (const each of expected(stage, sandbox)) {
    const [ifName, network] = each.split(" ") as [string, keyof typeof networks];
    const isThere = attached.some(
      (thing) => thing.kind === "link" && thing.ifName === ifName && thing.network === network,
    );
    if (!isThere) properties.violate("never what runs", `${sandbox.id} lacks ${each}`);
  }
}

function statusProblem(stage: Stage, sandbox: Sandbox): string | undefined {
  const { name } = sandbox.pod;
  const text = stage.api.networkStatus(`default/${name}`);
  const status = text === undefined ? [] : tryParseJson(text);
  const entries = Array.isArray(status) ? status.filter(isJsonObject) : [];
  const shown = entries.map(
    (entry) => `${entry.interface} ${String(entry.name).split("/").at(-1)}`,
  );
  const wanted = expected(stage, sandbox);
  if (wanted.join() === shown.join()) return undefined;
  return `pod ${name} has ${wanted.join()}, its status shows ${shown.join()}`;
}

/** What holds when all pods are gone. */
export async function checkEnd(stage: Stage): Promise<void> {
  const { world, properties, kubelet, scenario, plexusd } = stage;
  const { kernel, disk, schedule } = world;
  if (kubelet.unsettled > 0)
    properties.violate("in the end", `${kubelet.unsettled} pods cannot be deleted`);
  const left = kernel.attached().filter((made) => !properties.mayStay(made));
  if (left.length > 0) properties.violate("in the end", `still there: ${JSON.stringify(left)}`);
  await schedule.sleep(2e6);
  const names = stateFiles(disk);
  const records = usableRecords(disk);
  if (records.length > 0) properties.violate("in the end", `still recorded: ${records.join()}`);
  const others = names.filter((name) => !/\.detached$|^default\.plan$|\.record$/.test(name));
  // What is killed leaves at most a temporary file, and a lock per pod, which are swept later.
  if (others.length > (1 + scenario.pods.length) * scenario.mischief.length)
    properties.violate("bounded", `files remain: ${others.join()}`);
  const openFiles = (): number => (plexusd === undefined ? 0 : disk.openCount(plexusd.process));
  // A disk that is busy takes seconds for a sync.
  for (let tries = 0; tries < 20 && openFiles() > 0; tries++) await schedule.sleep(0.3e6);
  const open = openFiles();
  if (open > 0) properties.violate("bounded", `plexusd has ${open} open files`);
  const waiting = await lastProblem(stage, () => {
    const count = stage.plexusd?.pendingStatuses ?? 0;
    return count === 0 ? undefined : `${count} writes of statuses wait`;
  });
  if (waiting !== undefined) properties.violate("bounded", waiting);
}

function stateFiles(disk: Disk): string[] {
  return disk.list(defaultPaths.stateDir).map(([name]) => name);
}

/**
 * The records with content. One whose content was lost with the power, during an ADD that the
 * runtime then forgot, stays until an administrator removes it: nothing is attached for it.
 */
export function usableRecords(disk: Disk): string[] {
  const isRecord = (name: string): boolean => name.endsWith(".record");
  return stateFiles(disk).filter((name) => isRecord(name) && isUsable(disk, name));
}

function isUsable(disk: Disk, name: string): boolean {
  try {
    decodeRecord(disk.readFile(`${defaultPaths.stateDir}/${name}`));
    return true;
  } catch {
    return false;
  }
}
