import type { EngineConfig } from "#engine/config.ts";
import type { ClusterSource, DefinitionSource, EventRecorder, StatusPublisher } from "./cluster.ts";
import type { DeviceInfoFiles, DeviceSource } from "./devices.ts";
import type { ConfFiles, MultusFiles } from "./host.ts";
import type { Logger } from "./logger.ts";
import type { RecordReader, RecordWriter, ShimFiles } from "./records.ts";

/** Everything the engine depends on; built once by its process (daemon or standalone). */
export interface EngineDeps {
  /** The daemon's current configuration; the runtime's conf decides about absent keys. */
  readonly config: () => Partial<EngineConfig>;
  /** Absent without an API and a manifests directory: then pods cannot be looked up. */
  readonly source?: ClusterSource;
  /** Definitions for pods that the runtime describes. @default the source's */
  readonly definitions?: DefinitionSource;
  readonly publisher: StatusPublisher;
  readonly events: EventRecorder;
  readonly records: RecordReader & RecordWriter & ShimFiles;
  /** What another engine has attached on this node: the Docker driver, beside plexusd. */
  readonly otherRecords?: Pick<RecordReader, "list">;
  readonly confFiles: ConfFiles;
  readonly multusFiles: MultusFiles;
  readonly deviceInfo: DeviceInfoFiles;
  /** None: the annotation's device is trusted, because only root can write the pods' directory. */
  readonly deviceSources: readonly DeviceSource[];
  readonly logger: Logger;
  readonly metrics: EngineMetrics;
  /** Milliseconds, monotonic; every process of a boot reads the same clock. */
  readonly clock: () => number;
  /** ISO 8601. */
  readonly now: () => string;
  readonly bootId: () => string;
  /** Whether this process sees that nothing is where a namespace was. @default never */
  readonly isNothingAt?: (netns: string) => boolean;
  readonly leftoverDuty: LeftoverDuty;
  /** Types of the plugins that the container runtime executes after Plexus's. @default not known */
  readonly nextPlugins?: () => Promise<readonly string[]>;
}

/**
 * Which leftovers calls also detach: `none`; `oneCall`, in a process that serves one call: if the
 * record alone says so; `daemon`: also if signs of absence take time.
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
  assertionBroken(assertion: string): void;
}
