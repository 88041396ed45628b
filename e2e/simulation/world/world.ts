import type { DelegateCall } from "#cni/runtime/delegate.ts";
import type { CallAnswer } from "#engine/ports/call.ts";
import type { CallHost } from "#engine/ports/host.ts";
import type { ApiServer } from "../api/api-server.ts";
import type { Disk } from "./disk.ts";
import type { DelegateBehaviour } from "./faults.ts";
import { enterGround, type Ground } from "./ground.ts";
import type { Kernel } from "./kernel.ts";
import type { Process } from "./schedule.ts";

/** A process that serves calls: plexusd behind its socket, or plexus-standalone. */
export interface EngineProcess {
  readonly process: Process;
  /** A shim has sent its request. */
  accept(session: EngineSession): void;
}

/** What a SANDBOX order names. */
export interface SandboxToEnter {
  readonly containerId: string;
  readonly ifName: string;
  readonly netns: string;
}

/** The answer to it. */
export interface EnteredSandbox {
  readonly outcome: "ok" | "busy" | "gone" | "refused";
  readonly message: string;
  /** `NAME/NAME/` */
  readonly links: string;
}

/** The engine's end of the connection to a shim. */
export interface EngineSession extends CallHost {
  readonly request: { readonly env: Readonly<Record<string, string>>; readonly stdin: string };
  /** Has an agent lock a sandbox. @throws HostGoneError when the agent has gone */
  sandbox(sandbox: SandboxToEnter): Promise<EnteredSandbox>;
  /** Ends the call. @throws HostGoneError when the shim has gone */
  done(answer: CallAnswer): Promise<void>;
  /** Closes the connection, with or without an answer. */
  hangUp(): void;
}

/** Watches what the properties are about, as it happens. */
export interface Observer {
  /** A delegate begins its work, or has ended in any way; `process` is its group. */
  delegateStarted(call: DelegateCall, process: Process): void;
  delegateEnded(call: DelegateCall, process: Process): void;
  /** A request was repeated before the time that the API server has named. */
  requestedTooEarly(request: string, askedUs: number): void;
  /** A busy API server has got more writes than its statuses need. */
  writtenTooOften(details: string): void;
  /** Plexus has found that one of its assertions does not hold. */
  assertionBroken(details: string): void;
}

/** The machine and all around it, during one history. */
export interface World extends Ground {
  /** What survives a restart of the machine. */
  readonly disk: Disk;
  /** What does not. A restart makes a new one. */
  kernel: Kernel;
  readonly api: ApiServer;
  /** What listens on plexusd's socket; undefined: nothing does. */
  daemon: EngineProcess | undefined;
  /** Are called when {@link daemon} has changed. */
  readonly onDaemonChange: Set<() => void>;
  /** Starts plexus-standalone; undefined: it is not installed. */
  startStandalone: (() => EngineProcess) | undefined;
  /** By runtime: the plexus-standalone that serves its further calls. */
  readonly standalones: Map<Process, EngineProcess>;
  /** By pod UID: the devices that the kubelet has given it. */
  readonly devices: Map<string, readonly string[]>;
  /** Whether `plexus agent` runs where the mounts of namespaces are hidden. */
  readonly isAgentBlind: boolean;
  /** By container: what has run the plugin of a service mesh for it. */
  readonly meshAdds: Map<string, ("Plexus" | "runtime")[]>;
  /** Types of plugins whose DEL fails. */
  readonly failingDels: Set<string>;
  /** How ADDs of a type of plugins end. */
  readonly failingAdds: Map<string, DelegateBehaviour>;
  /** Types of plugins that are there and cannot be executed. */
  readonly unexecutable: Set<string>;
  /** Whether the plugin that the runtime executes after Plexus's fails, in ADD and in DEL. */
  isNextFailing: boolean;
  /** Whether the primary CNI has been upgraded: it refuses the configuration of its earlier release. */
  isPrimaryUpgraded: boolean;
  /** Names of plugins whose executables are missing. */
  readonly missingPlugins: Set<string>;
  readonly observer: Observer;
}

let present: World | undefined;

/** The world of the present history. @throws Error when there is none */
export function world(): World {
  if (present === undefined) throw new Error("no history is running");
  return present;
}

/** Begins a history. */
export function enterWorld(next: World): void {
  present = next;
  enterGround(next);
}
