import { mkdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { textIfUsable } from "#lib/files/read-file.ts";
import { primaryConfName } from "#lib/files/state-files.ts";
import { pluginConfOf } from "./plexus-conf.ts";

/** Remembers the primary's file across restarts and removals of Plexus's file. */
export class PreviousPrimary {
  readonly #dir: string;
  file: string | undefined;

  constructor(stateDir: string) {
    this.#dir = stateDir;
  }

  /** Reads the name from the state directory, or else from the text of Plexus's file. */
  async load(plexusConf: string | undefined): Promise<void> {
    const name = (textIfUsable(join(this.#dir, primaryConfName), "above") ?? "").trim();
    this.file = name !== "" && !name.includes("/") ? name : primaryOf(plexusConf);
  }

  async save(file: string): Promise<void> {
    if (file === this.file) return;
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    await atomicWrite(join(this.#dir, primaryConfName), `${file}\n`);
    this.file = file;
  }

  /** For a node that uses its primary CNI again: Plexus's file is then missing on purpose. */
  async forget(): Promise<void> {
    await rm(join(this.#dir, primaryConfName), { force: true });
    this.file = undefined;
  }
}

function primaryOf(plexusConf: string | undefined): string | undefined {
  const { clusterNetwork: path } = pluginConfOf(plexusConf);
  return typeof path === "string" && path.includes("/") ? basename(path) : undefined;
}
