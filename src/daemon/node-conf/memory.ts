import { mkdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { atomicWrite } from "#lib/atomic-write.ts";
import { isJsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/json-text.ts";
import { primaryConfName } from "#lib/state-files.ts";

/** Remembers which file was the primary, over restarts and over the loss of our own file. */
export class PrimaryMemory {
  readonly #dir: string;
  #file: string | undefined;

  constructor(stateDir: string) {
    this.#dir = stateDir;
  }

  /** The primary's file name; undefined = there has been none. */
  get file(): string | undefined {
    return this.#file;
  }

  /** Reads what is remembered; without it, our own file says what it delegates to. */
  async load(ownText: string | undefined): Promise<void> {
    const text = await readFile(join(this.#dir, primaryConfName), "utf8").catch(() => "");
    const name = text.trim();
    this.#file = name !== "" && !name.includes("/") ? name : primaryOf(ownText);
  }

  async remember(file: string): Promise<void> {
    if (file === this.#file) return;
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    await atomicWrite(join(this.#dir, primaryConfName), `${file}\n`);
    this.#file = file;
  }
}

/** The file name of the primary that a configuration of ours delegates to. */
export function primaryOf(ownText: string | undefined): string | undefined {
  if (ownText === undefined) return undefined;
  try {
    const conf = parseJsonText(ownText);
    const plugins = isJsonObject(conf) && Array.isArray(conf.plugins) ? conf.plugins : [];
    const plugin = plugins[0];
    const network = isJsonObject(plugin) ? plugin.clusterNetwork : undefined;
    return typeof network === "string" && network.includes("/") ? basename(network) : undefined;
  } catch {
    return undefined;
  }
}
