import type { RunDelegate } from "#cni/runtime/delegate.ts";
import type { EngineConfig } from "./config.ts";
import type {
  ClusterSource,
  ConfFiles,
  DelegateHost,
  DeviceInfoFiles,
  EventRecorder,
  Logger,
  RecordStore,
  StatusPublisher,
} from "./ports.ts";
import type { Trace } from "./trace.ts";

/** Everything that the engine works with; built once by its host (daemon or standalone). */
export interface EngineDeps {
  /** The daemon's configuration as of now; absent keys leave the say to the runtime's conf. */
  readonly config: () => Partial<EngineConfig>;
  /** Absent where there is neither an API nor a manifests directory: only the configured networks then. */
  readonly source?: ClusterSource;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
  readonly records: RecordStore;
  readonly confFiles: ConfFiles;
  readonly deviceInfo: DeviceInfoFiles;
  readonly logger: Logger;
  readonly metrics: EngineMetrics;
  /** Milliseconds from some point in the past, monotonic. */
  readonly clock: () => number;
  /** ISO 8601. */
  readonly now: () => string;
}

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
}

/** What one call works with. */
export interface CallContext {
  readonly deps: EngineDeps;
  readonly config: EngineConfig;
  readonly host: DelegateHost;
  /** Runs delegates through {@link host}, traced and measured. */
  readonly run: (network: string) => RunDelegate;
  readonly logger: Logger;
  readonly trace: Trace;
  /** Aborted when the shim has gone. */
  readonly signal: AbortSignal;
}
