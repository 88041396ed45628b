import type { EngineConfig } from "#engine/config.ts";
import { milliseconds } from "#engine/config-keys.ts";
import { type ConfigKeys, defaultsOf, type KeyValues } from "#engine/config-table.ts";

/** The shim gives up on an engine that sends no order for 30 s (shim/shim.h), and the ADD fails. */
const tooLong = "must be at most 20000: the shim waits 30 s for plexusd";

/** The keys that plexus-standalone reads too, beside those of the engine. */
export const callKeys = {
  apiTimeoutMs: {
    schema: () => milliseconds().max(20_000, { error: tooLong }),
    default: 5000,
    restart: true,
    description:
      "Timeout of a read from the API, at most 20000. After half of it, the read is repeated on another connection, and the first answer counts. After it, the call fails with code 11 (try again later).",
  },
} as const satisfies ConfigKeys;

/** The part of the configuration that plexus-standalone needs for a call. */
export interface CallConfig extends Required<KeyValues<typeof callKeys>> {
  /** Keys about networks. If one is absent here, the runtime's configuration may have it. */
  readonly engine: Partial<EngineConfig>;
}

/** The configuration of a call without a file. */
export const defaultCallConfig: CallConfig = { engine: {}, ...defaultsOf(callKeys) };
