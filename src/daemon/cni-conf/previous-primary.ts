import { mkdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { primaryConfName } from "#lib/files/state-files.ts";
import { isJsonObject } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";

/** Remembers the primary's file across restarts and removals of Plexus's file. */
export class PreviousPrimary {
  readonly #dir: string;
  #file: string | undefined;

  constructor(stateDir: string) {
    this.#dir = stateDir;
  }

  get file(): string | undefined {
    return this.#file;
  }

  /** Reads the name from the state directory, or else from the text of Plexus's file. */
  async load(plexusConf: string | undefined): Promise<void> {
    const text = await readFile(join(this.#dir, primaryConfName), "utf8").catch(() => "");
    const name = text.trim();
    this.#file = name !== "" && !name.includes("/") ? name : primaryOf(plexusConf);
  }

  async save(file: string): Promise<void> {
    if (file === this.#file) return;
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    await atomicWrite(join(this.#dir, primaryConfName), `${file}\n`);
    this.#file = file;
  }
}

function primaryOf(plexusConf: string | undefined): string | undefined {
  if (plexusConf === undefined) return undefined;
  try {
    const conf = parseJsonText(plexusConf);
    const plugins = isJsonObject(conf) && Array.isArray(conf.plugins) ? conf.plugins : [];
    const plugin = plugins[0];
    const network = isJsonObject(plugin) ? plugin.clusterNetwork : undefined;
    return typeof network === "string" && network.includes("/") ? basename(network) : undefined;
  } catch {
    return undefined;
  }
}
