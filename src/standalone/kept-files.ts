import { type CallConfig, defaultCallConfig } from "#daemon/config/call-config.ts";
import { dnsSubdomainProblem } from "#lib/dns-name.ts";
import { type Links, textIfPresent, textIfUsable } from "#lib/files/read-file.ts";

/** A file, and what may lead to it: an attacker who compromises plexusd can change what it keeps. */
export interface ConfigPath {
  readonly path: string;
  readonly links: Links;
}

/** The configuration of each call: the first file that exists, or else the defaults. */
export class CallConfigs {
  readonly #paths: readonly ConfigPath[];
  /** The latest one: parsing takes 0.2 to 0.4 ms. */
  #parsed:
    | { readonly path: string; readonly text: string; readonly config: CallConfig }
    | undefined;

  constructor(paths: readonly ConfigPath[]) {
    this.#paths = paths;
  }

  /** @throws ConfigError, or as node:fs does, if that file is unusable: no other policy replaces it */
  async read(): Promise<CallConfig> {
    for (const { path, links } of this.#paths) {
      const text = textIfPresent(path, links);
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
  const name = textIfUsable(path, "none") ?? "";
  return dnsSubdomainProblem(name) === undefined ? name : undefined;
}
