import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { type CallConfig, defaultCallConfig } from "#daemon/config/call-config.ts";
import { dnsSubdomainProblem } from "#lib/dns-name.ts";
import { ifPresent } from "#lib/files/is-absent.ts";

/**
 * Reads the first file that exists, or else the defaults.
 * @throws ConfigError, or as node:fs does, if that file is unusable: no other policy replaces it
 */
export async function readConfig(paths: readonly string[]): Promise<CallConfig> {
  for (const path of paths) {
    const text = await ifPresent(readFile(path, "utf8"));
    if (text === undefined) continue;
    if (isEmpty(text)) break;
    const { parseConfig } = await import("#daemon/config/parse.ts");
    return parseConfig(text, path);
  }
  return defaultCallConfig;
}

/** Whether the file has nothing but comments, so that it need not be parsed. */
function isEmpty(text: string): boolean {
  return text.split("\n").every((line) => /^ *(?:#|$)/.test(line));
}

/** The node's name that plexusd keeps; undefined if it is missing or invalid. */
export function readNodeName(path: string): string | undefined {
  try {
    const name = readFileSync(path, "utf8");
    return dnsSubdomainProblem(name) === undefined ? name : undefined;
  } catch {
    return undefined;
  }
}
