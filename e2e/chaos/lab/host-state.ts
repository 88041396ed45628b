import { readdirSync, readFileSync, statSync } from "node:fs";
import { utimes } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import * as host from "../../support/host-state.ts";
import { processes } from "../../support/processes.ts";
import type { Place } from "./place.ts";

/** Everything that a run could leave: what the kernel keeps, files, locks and processes. */
export type HostState = host.HostState<
  (typeof host.kernelKinds)[number] | "files" | "locks" | "processes"
>;

/** Reads what is on the node; `known` are processes that are meant to run. */
export async function readHostState(place: Place, known: readonly number[]): Promise<HostState> {
  return {
    ...(await readKernelState(place, host.kernelKinds)),
    files: ["/run", "/var/lib/cni"].flatMap((dir) => filesBelow(dir, place)).sort(),
    locks: heldLocks(place),
    // A plexus-standalone may stay after its call.
    processes: processes()
      .filter(({ pid, command }) => !known.includes(pid) && !command.endsWith("/plexus-standalone"))
      .map(({ state, command }) => `${state} ${command}`),
  };
}

/** A node's state with pods beside those that it has; `pods` is what {@link readPods} returned. */
export function withPods(state: HostState, pods: HostState): HostState {
  const kinds = host.podKinds.map((kind) => [
    kind,
    [...(state[kind] ?? []), ...(pods[kind] ?? [])],
  ]);
  return { ...state, ...Object.fromEntries(kinds) };
}

/** Reads what there is in the network namespaces of pods. */
export function readPods(place: Place): Promise<HostState> {
  return readKernelState(place, host.podKinds);
}

async function readKernelState(
  { stateDir }: Place,
  kinds: typeof host.podKinds | typeof host.kernelKinds,
): Promise<HostState> {
  const run = async ([file, ...args]: [string, ...string[]]): Promise<string> =>
    (await execa(file, args)).stdout;
  return await host.readHostState({ run, stateDir }, { kinds });
}

/** What the harness itself keeps there, and mount points of namespaces, which have a section each. */
const passedOver = ["bin", "moved", "real", "control", "reached", "hidden", "lost", "etc"];

/**
 * Files, but for what is to stay: host-local's last address and lock, the lock of garbage collection, the default plan
 * and the kept definitions, the socket of a plexus-standalone that stays or was killed, and the empty mark of a sandbox
 * that was detached completely. plexusd removes that after hours.
 */
function filesBelow(dir: string, place: Place): string[] {
  const skipped = ["/run/netns", ...passedOver.map((name) => join(place.root, name))];
  const stays =
    /\/(last_reserved_ip\.\d+|lock|\.gc\.lock|default\.plan|definitions\.json|run-standalone\/[^/]+)$/;
  return readdirSync(dir, { withFileTypes: true }).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (skipped.includes(path) || stays.test(path)) return [];
    if (entry.isDirectory()) return filesBelow(path, place);
    const isMark = path.endsWith(".detached") && statSync(path).size === 0;
    return isMark ? [] : [path];
  });
}

/** Makes the temporary files of records so old that plexusd removes them at its start. Returns whether there are any. */
export async function ageTemporaryFiles({ stateDir }: Place): Promise<boolean> {
  const names = readdirSync(stateDir).filter((name) => name.endsWith(".tmp"));
  await Promise.all(names.map((name) => utimes(join(stateDir, name), 0, 0)));
  return names.length > 0;
}

/** Kernel file locks on the state directory's file system. */
function heldLocks(place: Place): string[] {
  const { dev } = statSync(place.disk);
  const hex = (n: number): string => n.toString(16).padStart(2, "0");
  const device = `${hex(dev >> 8)}:${hex(dev & 0xff)}:`;
  const lines = readFileSync("/proc/locks", "utf8").split("\n");
  return lines
    .filter((line) => line.includes(` ${device}`))
    .map((line) => line.replace(/^\d+: /, ""));
}
