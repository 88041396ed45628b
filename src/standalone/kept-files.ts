import { readFile } from "node:fs/promises";
import { type DaemonConfig, defaultConfig } from "#daemon/config/config.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { dnsSubdomainProblem } from "#lib/dns-name.ts";
import { ifPresent } from "#lib/files/is-absent.ts";

/**
 * Reads the first file that exists, or else the defaults.
 * @throws ConfigError, or as node:fs does, if that file is unusable: no other policy replaces it
 */
export async function readConfig(paths: readonly string[]): Promise<DaemonConfig> {
  for (const path of paths) {
    const text = await ifPresent(readFile(path, "utf8"));
    if (text !== undefined) return parseConfig(text, path);
  }
  return defaultConfig;
}

/** The node's name that plexusd keeps; undefined if it is missing or invalid. */
export async function readNodeName(path: string): Promise<string | undefined> {
  const name = await readFile(path, "utf8").catch(() => "");
  return dnsSubdomainProblem(name) === undefined ? name : undefined;
}
