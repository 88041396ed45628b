import type { ConfReader } from "#cni/conf/conf-file.ts";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { CachedAddKey } from "#npwg/multus/cached-add.ts";

/** Access to the host during one call, through the shim that the runtime executed. */
export interface DelegateHost {
  /** Executes a delegate; resolves with any exit status. @throws HostGoneError without the shim */
  exec(call: DelegateCall): Promise<DelegateOutcome>;
  /** Looks up plugins like {@link exec}; one answer per type, in order. @throws HostGoneError */
  find(searchPath: readonly string[], types: readonly string[]): Promise<readonly PluginLookup[]>;
  /**
   * Sends rtnetlink messages in one datagram in the network namespace at `netnsPath` and returns
   * everything that the kernel answered, up to the acknowledgement of the last one.
   * @throws NetnsError when there is no such namespace (anymore); CniError 5 when it cannot be
   *   entered for another reason, or the kernel cannot be reached; HostGoneError as above
   */
  netlink(netnsPath: string, messages: Uint8Array): Promise<Uint8Array>;
  /**
   * The records whose sandbox may be in the network namespace to which a path leads: they lead there
   * by any path, or cannot be used. If the DEL of another container than the call's has begun, its
   * sandbox is over. @throws HostGoneError without the shim
   */
  occupants(netnsPath: string): Promise<readonly RecordKey[]>;
}

/** The shim of one call: carries out the engine's orders until it disconnects. */
export interface CallHost extends DelegateHost {
  readonly gone: AbortSignal;
}

/** Whether a plugin's executable exists and may be executed; `message` says why not. */
export type PluginLookup =
  | { readonly outcome: "found" }
  | { readonly outcome: "missing" | "refused"; readonly message: string };

/**
 * What the shim finds at the call's CNI_NETNS: a network namespace (`ok`), the shim's own one
 * (`own`), nothing that is a namespace (`gone`), something that it cannot open (`unknown`), or no
 * path (`none`).
 */
export type NetnsState = "ok" | "own" | "gone" | "unknown" | "none";

/** The shim has gone (killed or crashed): the call cannot be continued or answered. */
export class HostGoneError extends Error {
  override readonly name = "HostGoneError";
}

/** There is no network namespace at a path (anymore); `errno` is the kernel's, e.g. `ENOENT`. */
export class NetnsError extends Error {
  override readonly name = "NetnsError";
  readonly errno: number;

  constructor(message: string, errno: number) {
    super(message);
    this.errno = errno;
  }
}

/** The CNI configuration files of the host. */
export interface ConfFiles extends ConfReader {
  /** Whether this process sees a path of the host: plexusd sees only what is mounted. */
  sees(path: string): boolean;
}

/** Hint that a path is not mounted into this container; empty when the path is visible. */
export function unseenPathHint(files: Pick<ConfFiles, "sees">, path: string): string {
  if (files.sees(path)) return "";
  return " in plexusd's container, into which that place of the host is not mounted: add a hostPath volume with the same path";
}

/** Multus's files about its sandboxes, read only: the shim removes them at the end of a DEL. */
export interface MultusFiles {
  /** The containers with files, in any order. @throws CniError 5 */
  containers(): Promise<string[]>;
  /** The file with a container's networks; undefined when there is none. @throws CniError 5, 6 */
  networks(containerId: string): Promise<string | undefined>;
  /** libcni's cache file of an attachment; undefined when there is none. @throws CniError 5, 6 */
  cachedAdd(key: CachedAddKey): Promise<string | undefined>;
  /** The interfaces with a file in Multus's own cache of a container in a network. @throws CniError 5 */
  cachedInterfaces(of: Omit<CachedAddKey, "ifName">): Promise<string[]>;
  /** libcni's cache files of a network, which other users of libcni share. @throws CniError 5, 6 */
  cachedAdds(network: string): Promise<string[]>;
  /**
   * Whether libcni's cache has an ADD of a container: from its success to the DEL. True also when
   * that cannot be told.
   */
  mayHaveCachedAdd(containerId: string): Promise<boolean>;
}
