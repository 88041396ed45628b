import { CniError } from "#cni/error.ts";
import type { RecordKey } from "#lib/files/state-files.ts";
import type { CallHost } from "./host.ts";

/**
 * Why a sandbox cannot be changed: no agent may attach; another operation on it runs; or it has no
 * record or namespace any more, or its DEL has begun.
 */
export class SandboxUnavailableError extends CniError {
  override readonly name = "SandboxUnavailableError";
  readonly why: "noAgent" | "busy" | "gone";

  constructor(why: SandboxUnavailableError["why"], message: string) {
    super(why === "noAgent" ? "AgentUnavailable" : "TryAgainLater", message);
    this.why = why;
  }
}

/** No agent that may attach networks is connected, or expected. */
export function noAgentError(): SandboxUnavailableError {
  const message = "no agent that may attach networks is connected to plexusd";
  return new SandboxUnavailableError("noAgent", message);
}

/** A sandbox to lock. */
interface SandboxToLock extends RecordKey {
  readonly netns: string;
  /** Whether it is only read, which does not wait for what plugins have left running. @default false */
  readonly isInspection?: boolean | undefined;
}

/** Sessions of `plexus agent` that may attach networks to running sandboxes. */
export interface SandboxHosts {
  /** Whether an agent that may attach is connected, or may be restarting. */
  isAvailable(): boolean;
  /** Calls the listener whenever such an agent connects while none is. */
  onAvailable(listener: () => void): void;
  /**
   * Locks a sandbox outside of a call of the runtime. Dispose it to release the sandbox.
   * @throws SandboxUnavailableError, HostGoneError when the agent disconnects
   */
  open(sandbox: SandboxToLock): Promise<SandboxHost>;
}

/** A locked sandbox, and the agent that carries out orders for it. */
export interface SandboxHost extends AsyncDisposable {
  readonly host: CallHost;
  /** The interfaces in its network namespace. */
  readonly links: ReadonlySet<string>;
  /** The agent's CNI_PATH. */
  readonly path: readonly string[];
}
