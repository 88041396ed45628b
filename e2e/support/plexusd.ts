// SPDX-License-Identifier: Apache-2.0

import { Daemon } from "./daemon.ts";
import { distPath, nodeBinary } from "./paths.ts";

/** Where a plexusd without a cluster keeps what it works with. */
export interface PlexusdPaths {
  readonly socket: string;
  readonly stateDir: string;
  /** Manifests of pods and networks. Not given when the flags name another source. */
  readonly manifests?: string;
}

/** How plexusd is started. */
export interface PlexusdOptions extends PlexusdPaths {
  /** The file that its log is appended to. */
  readonly logFile: string;
  /** More flags, which come last and so prevail. */
  readonly flags?: readonly string[];
  /** Makes the command run elsewhere, e.g. in the namespaces of a lab. */
  readonly enter?: (...command: string[]) => [string, ...string[]];
}

/** The flags of a plexusd that serves shims from manifests, without HTTP. */
export function plexusdFlags({ socket, stateDir, manifests }: PlexusdPaths): string[] {
  const source = manifests === undefined ? [] : ["--manifests", manifests];
  return [...source, "--socket", socket, "--state-dir", stateDir, "--http", "off"];
}

/** The variables that lead a shim to such a plexusd, and keep it from running an engine of its own. */
export function shimEnvironment({ socket, stateDir }: PlexusdPaths): Record<string, string> {
  return { PLEXUS_SOCKET: socket, PLEXUS_STATE_DIR: stateDir, PLEXUS_STANDALONE: "" };
}

/** Starts the built plexusd and waits until it serves. @throws Error with the end of its log when it does not */
export async function startPlexusd(options: PlexusdOptions): Promise<Daemon> {
  const {
    logFile,
    flags = [],
    enter = (file: string, ...args: string[]) => [file, ...args],
  } = options;
  const program = [nodeBinary(), distPath("plexusd.js")] as const;
  const command = enter(...program, ...plexusdFlags(options), ...flags) as [string, ...string[]];
  const daemon = Daemon.start({ name: "plexusd", command, logFile });
  await daemon.waitUntil("plexusd serves", () => daemon.log.includes("plexusd serves"));
  return daemon;
}
