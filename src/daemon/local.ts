import { existsSync } from "node:fs";
import { errorMessage } from "#lib/error-message.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { checkManifests } from "#manifests/trust.ts";
import type { DaemonFlags } from "./flags.ts";

/** What plexus-standalone would read too. */
export interface LocalPaths {
  readonly manifests: string;
  readonly config: string;
}

/**
 * The sources of a machine without Kubernetes, as plexus-standalone chooses them for each call: the
 * directory of manifests if it exists, else configuration files; and the configuration if it exists.
 */
export class LocalSources {
  readonly #paths: LocalPaths;
  readonly #hasManifests: boolean;
  readonly #hasConfig: boolean;

  constructor(paths: LocalPaths) {
    this.#paths = paths;
    this.#hasManifests = existsSync(paths.manifests);
    this.#hasConfig = existsSync(paths.config);
  }

  /** The flags with these sources. */
  applyTo(flags: DaemonFlags): DaemonFlags {
    const { manifests, config } = this.#paths;
    const source = this.#hasManifests
      ? { kind: "manifests" as const, dir: manifests }
      : { kind: "files" as const };
    return { ...flags, source, ...omitUndefined({ config: this.#hasConfig ? config : undefined }) };
  }

  /** Why plexusd must serve no more calls with them; plexus-standalone or a new plexusd then does. */
  problem(): string | undefined {
    const { manifests, config } = this.#paths;
    if (existsSync(manifests) !== this.#hasManifests) return `${manifests} appeared or disappeared`;
    if (existsSync(config) !== this.#hasConfig) return `${config} appeared or disappeared`;
    if (!this.#hasManifests) return undefined;
    try {
      checkManifests(manifests);
      return undefined;
    } catch (error) {
      return errorMessage(error);
    }
  }
}
