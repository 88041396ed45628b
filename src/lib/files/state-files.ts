import { randomBytes } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { targetOfTemporaryName } from "./temporary-name.ts";

/**
 * The names of the files in the state directory, except those in `docker` and `standalone`, and of
 * the sockets in the directory of plexusd's socket. Every part of Plexus takes them from here, except
 * the shim, which has some of them in C: records, their marks, tombstones and the default plan in
 * shim/replay.c, the lock in shim/lock.c.
 */

/** Identifies an attachment of the runtime, as CNI does: container ID and interface name. */
export interface RecordKey {
  readonly containerId: string;
  /** CNI_IFNAME of the runtime's call; the default network's interface. */
  readonly ifName: string;
}

/** What a name in the state directory stands for. */
export type StateFile =
  | ({ readonly kind: "record" } & RecordKey)
  /** An empty file that says that the sandbox interface is completely detached. */
  | ({ readonly kind: "tombstone" } & RecordKey)
  /** An empty file that keeps the shim from detaching the record without an engine. */
  | ({ readonly kind: "engine-only" } & RecordKey)
  /** An unusable record, set aside for people to look at. */
  | ({ readonly kind: "damaged" } & RecordKey)
  /** A file that a process writes before it renames it, perhaps to the record of a sandbox. */
  | { readonly kind: "temporary"; readonly of?: RecordKey }
  | { readonly kind: "sandbox-lock"; readonly containerId: string }
  /** The file name of the primary CNI's configuration. */
  | { readonly kind: "primary-conf" }
  /** The DEL of the default network, for sandboxes without a record. */
  | { readonly kind: "default-plan" }
  | { readonly kind: "kept-definitions" };

/** The Docker driver's records, in the state directory; shim/lock.c has it too. */
export const dockerRecordsName = "docker/records";

/** Definitions as the API last had them. */
export const keptDefinitionsName = "definitions.json";

export const primaryConfName = "primary-conf";

export const defaultPlanName = "default.plan";

const singleFiles = new Map<string, "primary-conf" | "default-plan" | "kept-definitions">([
  [primaryConfName, "primary-conf"],
  [defaultPlanName, "default-plan"],
  [keptDefinitionsName, "kept-definitions"],
]);

/** A container ID begins with a letter or digit (CNI 1.0.0 §2) and holds no `@`. */
const interfaceFile =
  /^([A-Za-z0-9][\w.-]*)@([^/]+)\.(?:(record|detached)(\.damaged)?|engine-only)$/s;
const sandboxLock = /^([A-Za-z0-9][\w.-]*)\.lock$/;

/** How the name of every record ends, and of no tombstone: of these, a directory has thousands. */
export const recordSuffix = ".record";

/** `<containerID>@<ifName>.record` */
export function recordFileName({ containerId, ifName }: RecordKey): string {
  return `${containerId}@${ifName}${recordSuffix}`;
}

/** The shim's lock of a sandbox, `<containerID>.lock`: exists while a call for it is served. */
export function sandboxLockName(containerId: string): string {
  return `${containerId}.lock`;
}

/** `<containerID>@<ifName>.detached` */
export function tombstoneFileName({ containerId, ifName }: RecordKey): string {
  return `${containerId}@${ifName}.detached`;
}

/** `<containerID>@<ifName>.engine-only` */
export function engineOnlyFileName({ containerId, ifName }: RecordKey): string {
  return `${containerId}@${ifName}.engine-only`;
}

/** The name under which an unusable record is set aside. */
export function damagedFileName(name: string): string {
  return `${name}.damaged`;
}

/** The file that a name stands for; undefined when no part of Plexus writes such a file. */
export function parseStateFileName(name: string): StateFile | undefined {
  const single = singleFiles.get(name);
  if (single !== undefined) return { kind: single };
  const locked = sandboxLock.exec(name)?.[1];
  return locked === undefined
    ? (parseTemporary(name) ?? parseInterfaceFile(name))
    : { kind: "sandbox-lock", containerId: locked };
}

/**
 * A path for plexusd to bind its socket to before it renames it to `socketPath`. Random, because in
 * a container every process has the same ID as its predecessor.
 */
export function temporarySocketPath(socketPath: string): string {
  return `${socketPath}.${randomBytes(3).toString("hex")}`;
}

/** The socket on which plexusd answers plexusctl, beside the call socket. */
export function adminSocketPath(callSocket: string): string {
  return join(dirname(callSocket), `admin-${basename(callSocket)}`);
}

/** Whether plexusd makes a socket of this name in the directory of `socketName`. */
export function isSocketFileName(name: string, socketName: string): boolean {
  return [socketName, adminSocketPath(socketName)].some(
    (each) => name === each || isTemporarySocketName(name, each),
  );
}

/** Whether the name is a {@link temporarySocketPath} of the socket. */
export function isTemporarySocketName(name: string, socketName: string): boolean {
  return (
    name.startsWith(`${socketName}.`) && /^[0-9a-f]{6}$/.test(name.slice(socketName.length + 1))
  );
}

function parseTemporary(name: string): StateFile | undefined {
  const target = targetOfTemporaryName(name);
  if (target === undefined) return undefined;
  if (singleFiles.has(target)) return { kind: "temporary" };
  const file = parseInterfaceFile(target);
  if (file?.kind !== "record" && file?.kind !== "tombstone") return undefined;
  return { kind: "temporary", of: { containerId: file.containerId, ifName: file.ifName } };
}

function parseInterfaceFile(name: string): StateFile | undefined {
  const [, containerId, ifName, suffix, damaged] = interfaceFile.exec(name) ?? [];
  if (containerId === undefined || ifName === undefined) return undefined;
  if (damaged !== undefined) return { kind: "damaged", containerId, ifName };
  if (suffix === undefined) return { kind: "engine-only", containerId, ifName };
  return { kind: suffix === "record" ? "record" : "tombstone", containerId, ifName };
}
