import { readFile } from "node:fs/promises";
import { type DaemonConfig, defaultConfig } from "#daemon/config/config.ts";
import { parseConfig } from "#daemon/config/parse.ts";

/**
 * The first of the files that exists. Where there is none, the runtime's conf decides everything.
 * @throws ConfigError, or as node:fs, when it cannot be used: no other policy is put in its place
 */
export async function readConfig(paths: readonly string[]): Promise<DaemonConfig> {
  for (const path of paths) {
    try {
      return parseConfig(await readFile(path, "utf8"), path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
  return defaultConfig;
}
