import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ifPresent } from "#lib/files/is-absent.ts";
import type { DaemonConfig } from "./config.ts";
import { parseFile } from "./parse.ts";
import type { Layer } from "./settings.ts";

/**
 * The texts of an operator's configuration file, and of the installation's in the same directory.
 * Either may be absent. @throws Error as of node:fs if both are
 */
export async function readConfigFiles(
  path: string,
): Promise<{ own: string; platform: string | undefined }> {
  const platform = await ifPresent(readFile(platformFile(path), "utf8"));
  const own = readFile(path, "utf8");
  return { platform, own: platform === undefined ? await own : ((await ifPresent(own)) ?? "") };
}

/**
 * The operator's keys override the installation's. `text` has the keys of both; `warnings` are about
 * former keys. @throws ConfigError
 */
export function mergeConfigFiles(
  path: string,
  texts: Awaited<ReturnType<typeof readConfigFiles>>,
): { config: DaemonConfig; text: string; layers: readonly Layer[]; warnings: readonly string[] } {
  const { platform = "", own: ownText } = texts;
  const below = parseFile(platform, { source: platformFile(path) });
  const { config, values, own, warnings } = parseFile(ownText, {
    source: path,
    below: below.values,
  });
  const layers: readonly Layer[] = [
    [path, { ...own }],
    [platformFile(path), { ...below.values }],
  ];
  const text = texts.platform === undefined ? ownText : JSON.stringify(values);
  return { config, text, layers, warnings: [...below.warnings, ...warnings] };
}

/** An upgrade replaces it, so it is another object than the operator's. */
function platformFile(path: string): string {
  return join(dirname(path), "platform.yaml");
}
