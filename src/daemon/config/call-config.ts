import type { EngineConfig } from "#engine/config.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";

/** The part of the configuration that plexus-standalone needs for a call. */
export interface CallConfig {
  /** Keys about networks. The runtime's configuration may have those that are absent here. */
  readonly engine: Partial<EngineConfig>;
  readonly apiTimeoutMs: number;
  readonly statusWaitMs: number;
  readonly kubeletDir: string;
}

/** The configuration of a call without a file. */
export const defaultCallConfig: CallConfig = {
  engine: {},
  apiTimeoutMs: 5000,
  statusWaitMs: 2000,
  kubeletDir: defaultPaths.kubeletDir,
};
