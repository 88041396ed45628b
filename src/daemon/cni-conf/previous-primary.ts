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
  /** What the state directory has. */
  #kept = "";

  constructor(stateDir: string) {
    this.#dir = stateDir;
  }

  /**
   * Reads the name from the text of Plexus's file, or else from the state directory: a process that
   * was killed between the two writes left the older one there.
   */
  load(plexusConf: string | undefined): void {
    this.#kept = (textIfUsable(join(this.#dir, primaryConfName), "above") ?? "").trim();
    const isName = this.#kept !== "" && !this.#kept.includes("/");
    this.file = primaryOf(plexusConf) ?? (isName ? this.#kept : undefined);
  }

  async save(file: string): Promise<void> {
    this.file = file;
    if (file === this.#kept) return;
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    await atomicWrite(join(this.#dir, primaryConfName), `${file}\n`);
    this.#kept = file;
  }

  /** For a node that uses its primary CNI again: Plexus's file is then missing on purpose. */
  async forget(): Promise<void> {
    await rm(join(this.#dir, primaryConfName), { force: true });
    this.file = undefined;
    this.#kept = "";
  }
}

function primaryOf(plexusConf: string | undefined): string | undefined {
  const { clusterNetwork: path } = pluginConfOf(plexusConf);
  return typeof path === "string" && path.includes("/") ? basename(path) : undefined;
}
