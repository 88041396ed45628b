import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { EngineConfig } from "#engine/config.ts";
import type { DeviceInfoFiles, DeviceSource } from "#engine/plan/devices/device-ports.ts";
import type {
  ClusterSource,
  ConfFiles,
  DelegateHost,
  EventRecorder,
  Logger,
  MultusFiles,
  NetnsState,
  RuntimeSandboxes,
  StatusPublisher,
} from "#engine/ports.ts";
import type { RecordStore } from "#engine/record/record-store.ts";
import type { Assertion } from "./assertions.ts";
import type { Trace } from "./trace.ts";

/** Everything the engine depends on; built once by its process (daemon or standalone). */
export interface EngineDeps {
  /** The daemon's current configuration; the runtime's conf decides about absent keys. */
  readonly config: () => Partial<EngineConfig>;
  /** Absent without an API and a manifests directory: then pods cannot be looked up. */
  readonly source?: ClusterSource;
  /** Definitions for pods that the runtime describes. @default the source's */
  readonly definitions?: Pick<ClusterSource, "getNad">;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
  readonly records: RecordStore;
  readonly confFiles: ConfFiles;
  readonly multusFiles: MultusFiles;
  readonly deviceInfo: DeviceInfoFiles;
  /** None: the annotation's device is trusted, because only root can write the pods' directory. */
  readonly deviceSources: readonly DeviceSource[];
  /** Absent in a process that serves a single call. */
  readonly runtimeSandboxes?: RuntimeSandboxes;
  readonly logger: Logger;
  readonly metrics: EngineMetrics;
  /** Milliseconds, monotonic; every process of a boot reads the same clock. */
  readonly clock: () => number;
  /** ISO 8601. */
  readonly now: () => string;
  readonly bootId: () => string;
  readonly leftoverDuty: LeftoverDuty;
}

/**
 * Which leftovers calls also detach: `none`, those that their records alone say of (`oneCall`, in a
 * process that serves one call), or also those whose signs of absence take time (`daemon`).
 * @internal
 */
export type LeftoverDuty = "none" | "oneCall" | "daemon";

/** What is counted and timed over all calls. */
export interface EngineMetrics {
  requestStarted(command: string): void;
  requestEnded(command: string, outcome: { code?: number; milliseconds: number }): void;
  delegateEnded(delegate: {
    command: string;
    type: string;
    network: string;
    ok: boolean;
    milliseconds: number;
  }): void;
  assertionBroken(assertion: Assertion): void;
}

/** What the functions that serve one call work with. */
export interface CallContext {
  readonly deps: EngineDeps;
  readonly config: EngineConfig;
  readonly host: DelegateHost;
  /** When the call arrived, by {@link EngineDeps.clock}. */
  readonly startedAt: number;
  /** The call's CNI_NETNS; `ok` also for the shim's own one if CNI_NETNS_OVERRIDE allows it. */
  readonly netnsState: NetnsState;
  /** As {@link Call.netnsProcess}. */
  readonly netnsProcess?: string | undefined;
  /** The interfaces of the sandbox when the call began; absent when the shim did not list them. */
  readonly links?: ReadonlySet<string> | undefined;
  readonly delegateRunner: (network: string) => RunDelegate;
  readonly logger: Logger;
  readonly trace: Trace;
  readonly signal: AbortSignal;
  /** Resolves when the runtime has its answer: for work that it does not wait for. */
  readonly answered: Promise<void>;
}
