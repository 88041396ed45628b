import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";
import { recordFileName } from "#lib/files/state-files.ts";
import { decodePlan } from "#protocol/plan.ts";
import type { Attached } from "./world/attached.ts";
import { world } from "./world/world.ts";

const stickyBit = 0o1000;

export function hasRecord(containerId: string): boolean {
  return world().disk.exists(recordPath(containerId));
}

/** Whether it has a record that no DEL has marked. */
export function isLive(containerId: string): boolean {
  if (!hasRecord(containerId)) return false;
  return (world().disk.stat(recordPath(containerId)).mode & stickyBit) === 0;
}

/** Why the record of a sandbox would not lead to a DEL of an ADD that begins; undefined: it does. */
export function recordProblem({ type, env }: DelegateCall): string | undefined {
  const { CNI_CONTAINERID: id = "", CNI_IFNAME: ifName = "" } = env;
  if (!hasRecord(id)) return `${type} ADD of ${id}: no record`;
  const { calls, attempted } = decodePlan(world().disk.readFile(recordPath(id))).plan;
  const isPlanned = calls.some(
    (del) => del.type === type && del.env.CNI_IFNAME === ifName && del.group < attempted,
  );
  return isPlanned ? undefined : `${type} ADD ${ifName} of ${id}: the plan has no DEL of it`;
}

/** Whether the record is there and can be read, and its plan detaches all that was made. */
export function isRecorded(containerId: string, made: readonly Attached[]): boolean {
  if (!hasRecord(containerId)) return false;
  try {
    const { calls } = decodePlan(world().disk.readFile(recordPath(containerId))).plan;
    return made.every(({ ifName }) => calls.some(({ env }) => env.CNI_IFNAME === ifName));
  } catch {
    return false;
  }
}

/** Whether there is a record that cannot be used, which may be of any sandbox. */
export function hasUnusableRecord(): boolean {
  const { disk } = world();
  const isUnusable = (name: string): boolean => {
    try {
      decodePlan(disk.readFile(`${defaultPaths.stateDir}/${name}`));
      return false;
    } catch {
      return true;
    }
  };
  const names = disk.list(defaultPaths.stateDir).map(([name]) => name);
  return names.some((name) => name.endsWith(".record") && isUnusable(name));
}

function recordPath(containerId: string): string {
  return `${defaultPaths.stateDir}/${recordFileName({ containerId, ifName: "eth0" })}`;
}
