import { readFile } from "node:fs/promises";
import { type DaemonConfig, defaultConfig } from "#daemon/config/config.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { ifPresent } from "#lib/files/is-absent.ts";

/**
 * The first of the files that exists. Where there is none, the runtime's conf decides everything.
 * @throws ConfigError, or as node:fs, when it cannot be used: no other policy is put in its place
 */
export async function readConfig(paths: readonly string[]): Promise<DaemonConfig> {
  for (const path of paths) {
    const text = await ifPresent(readFile(path, "utf8"));
    if (text !== undefined) return parseConfig(text, path);
  }
  return defaultConfig;
}
