import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { type CallConfig, defaultCallConfig } from "#daemon/config/call-config.ts";
import { dnsSubdomainProblem } from "#lib/dns-name.ts";
import { ifPresent } from "#lib/files/is-absent.ts";

/** The configuration of each call: the first file that exists, or else the defaults. */
export class CallConfigs {
  readonly #paths: readonly string[];
  /** The latest one: parsing takes 0.2 to 0.4 ms. */
  #parsed:
    | { readonly path: string; readonly text: string; readonly config: CallConfig }
    | undefined;

  constructor(paths: readonly string[]) {
    this.#paths = paths;
  }

  /** @throws ConfigError, or as node:fs does, if that file is unusable: no other policy replaces it */
  async read(): Promise<CallConfig> {
    for (const path of this.#paths) {
      const text = await ifPresent(readFile(path, "utf8"));
      if (text === undefined) continue;
      return isEmpty(text) ? defaultCallConfig : await this.#parse(text, path);
    }
    return defaultCallConfig;
  }

  async #parse(text: string, path: string): Promise<CallConfig> {
    if (this.#parsed?.path !== path || this.#parsed.text !== text) {
      const { parseConfig } = await import("#daemon/config/parse.ts");
      this.#parsed = { path, text, config: parseConfig(text, path) };
    }
    return this.#parsed.config;
  }
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
