import { randomBytes } from "node:crypto";
import { targetOfTemporaryName } from "./temporary-name.ts";

/**
 * The names of all files in the state directory, and of the sockets in the directory of plexusd's
 * socket. Whoever writes, sweeps or removes such a file takes its name from here. The shim writes
 * and reads some of them too and has their names in C: records, those of earlier releases, tombstones and the
 * default plan in shim/planfile.c, both locks in shim/lock.c.
 */

/** A sandbox interface: the key of a record with its teardown plan. */
export interface SandboxInterface {
  readonly containerId: string;
  readonly ifName: string;
}

/** What a name in the state directory stands for. */
export type StateFile =
  /** An attachment record with its teardown plan. */
  | ({ readonly kind: "record" } & SandboxInterface)
  /** The same of an earlier release, in two files, each with an update beside it until that was durable. */
  | ({ readonly kind: OldFileKind } & SandboxInterface)
  /** What is left of the record of a sandbox interface that is completely detached; empty. */
  | ({ readonly kind: "tombstone" } & SandboxInterface)
  /** A record that could not be used and was put aside for people to look at. */
  | ({ readonly kind: "damaged" } & SandboxInterface)
  /** A file that a crash left between writing and renaming. */
  | { readonly kind: "temporary" }
  /** The shim's lock of one sandbox. */
  | { readonly kind: "sandbox-lock"; readonly containerId: string }
  /** The shim's lock that garbage collection holds alone. */
  | { readonly kind: "gc-lock" }
  /** The file name of the primary CNI's configuration. */
  | { readonly kind: "primary-conf" }
  /** The DEL of the default network, for sandboxes without a record. */
  | { readonly kind: "default-plan" };

/** The file that holds the file name of the primary CNI's configuration. */
export const primaryConfName = "primary-conf";

/** The file that holds the plan of the default network's DEL. */
export const defaultPlanName = "default.plan";

const gcLockName = ".gc.lock";
const damagedSuffix = ".damaged";
const oldSuffixes = {
  "old-record": ".json",
  "old-plan": ".teardown",
  "old-latest-record": ".json.latest",
  "old-latest-plan": ".teardown.latest",
} as const;
const suffixes = { record: ".record", ...oldSuffixes, tombstone: ".detached" } as const;
type InterfaceFileKind = keyof typeof suffixes;
type OldFileKind = keyof typeof oldSuffixes;

/** A container ID begins with a letter or digit (CNI 1.0.0 §2) and holds no `@`. */
const sandboxInterface = /^([A-Za-z0-9][\w.-]*)@([^/]+)$/s;
const sandboxLock = /^([A-Za-z0-9][\w.-]*)\.lock$/;

/** `<containerID>@<ifName>.record` */
export function recordFileName(key: SandboxInterface): string {
  return stateFileName(key, "record");
}

/** The names of an earlier release: `<containerID>@<ifName>.json`, `.teardown`, and both with `.latest`. */
export function oldFileNames(key: SandboxInterface): {
  readonly record: string;
  readonly latestRecord: string;
  readonly plan: string;
  readonly latestPlan: string;
} {
  return {
    record: stateFileName(key, "old-record"),
    latestRecord: stateFileName(key, "old-latest-record"),
    plan: stateFileName(key, "old-plan"),
    latestPlan: stateFileName(key, "old-latest-plan"),
  };
}

/** The shim's lock of one sandbox: `<containerID>.lock`. It is there while a call for it is served. */
export function sandboxLockName(containerId: string): string {
  return `${containerId}.lock`;
}

/** `<containerID>@<ifName>.detached` */
export function tombstoneFileName(key: SandboxInterface): string {
  return stateFileName(key, "tombstone");
}

/** The name under which a record is put aside. */
export function damagedFileName(name: string): string {
  return `${name}${damagedSuffix}`;
}

/** What the name stands for; undefined when nobody of Plexus writes such a file. */
export function parseStateFileName(name: string): StateFile | undefined {
  if (name === primaryConfName) return { kind: "primary-conf" };
  if (name === defaultPlanName) return { kind: "default-plan" };
  if (name === gcLockName) return { kind: "gc-lock" };
  if (isTemporary(name)) return { kind: "temporary" };
  const locked = sandboxLock.exec(name)?.[1];
  if (locked !== undefined) return { kind: "sandbox-lock", containerId: locked };
  const file = parseInterfaceFile(name);
  if (file !== undefined) return file;
  const intact = withoutSuffix(name, damagedSuffix);
  const damaged = intact === undefined ? undefined : parseInterfaceFile(intact);
  return damaged === undefined ? undefined : { ...damaged, kind: "damaged" };
}

/**
 * A path for plexusd to bind its socket under before it is renamed to `socketPath`. It does not
 * hold the process's number: in a container the predecessor has the same one.
 */
export function temporarySocketPath(socketPath: string): string {
  return `${socketPath}.${randomBytes(3).toString("hex")}`;
}

/** The name of the socket on which plexusd answers plexusctl, beside the one for calls. */
export function adminSocketName(socketName: string): string {
  return `admin-${socketName}`;
}

/** Whether a name in the socket's directory is one of plexusd's, or one that it was bound under before. */
export function isSocketFileName(name: string, socketName: string): boolean {
  return [socketName, adminSocketName(socketName)].some(
    (each) => name === each || isTemporarySocketName(name, each),
  );
}

/** Whether a socket was bound under the name, to be renamed at once. */
export function isTemporarySocketName(name: string, socketName: string): boolean {
  return (
    name.startsWith(`${socketName}.`) && /^[0-9a-f]{6}$/.test(name.slice(socketName.length + 1))
  );
}

function stateFileName({ containerId, ifName }: SandboxInterface, kind: InterfaceFileKind): string {
  return `${containerId}@${ifName}${suffixes[kind]}`;
}

/** Only the engine writes temporary files; the shim only renames and removes. */
function isTemporary(name: string): boolean {
  const target = targetOfTemporaryName(name);
  if (target === undefined) return false;
  const isOne = target === primaryConfName || target === defaultPlanName;
  return isOne || parseInterfaceFile(target) !== undefined;
}

/** No suffix ends with another one, so that at most one fits. */
function parseInterfaceFile(
  name: string,
): ({ readonly kind: InterfaceFileKind } & SandboxInterface) | undefined {
  for (const kind of Object.keys(suffixes) as InterfaceFileKind[]) {
    const [, containerId, ifName] =
      sandboxInterface.exec(withoutSuffix(name, suffixes[kind]) ?? "") ?? [];
    if (containerId !== undefined && ifName !== undefined) return { kind, containerId, ifName };
  }
  return undefined;
}

function withoutSuffix(name: string, suffix: string): string | undefined {
  return name.endsWith(suffix) ? name.slice(0, -suffix.length) : undefined;
}
