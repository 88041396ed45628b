import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { CniError } from "#cni/error.ts";
import type { MultusFiles } from "#engine/ports/host.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { RefusedFileError, textIfPresent } from "#lib/files/read-file.ts";
import { type CachedAddKey, cachedAddFileName } from "#npwg/multus/cached-add.ts";

/** The files of Multus and libcni below `/var/lib/cni`; before 3.5 Multus used libcni's default. */
export class HostMultusFiles implements MultusFiles {
  readonly #dir: string;
  readonly #resultDirs: readonly [multus: string, libcni: string];

  constructor(cniStateDir: string) {
    this.#dir = join(cniStateDir, "multus");
    this.#resultDirs = [join(this.#dir, "results"), join(cniStateDir, "results")];
  }

  async containers(): Promise<string[]> {
    const names = await namesIn(this.#dir);
    return names.filter((name) => name !== "results");
  }

  networks(containerId: string): Promise<string | undefined> {
    return readRegularFile(join(this.#dir, containerId));
  }

  async cachedAdd(key: CachedAddKey): Promise<string | undefined> {
    for (const dir of this.#resultDirs) {
      const text = await readRegularFile(join(dir, cachedAddFileName(key)));
      if (text !== undefined) return text;
    }
    return undefined;
  }

  async cachedInterfaces(of: Omit<CachedAddKey, "ifName">): Promise<string[]> {
    const start = cachedAddFileName({ ...of, ifName: "" });
    const names = await namesIn(this.#resultDirs[0]);
    return names.filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
  }

  async cachedAdds(network: string): Promise<string[]> {
    const dir = this.#resultDirs[1];
    const names = (await namesIn(dir)).filter((name) => name.startsWith(`${network}-`));
    const texts = await Promise.all(names.map((name) => readRegularFile(join(dir, name))));
    return texts.filter((text) => text !== undefined);
  }

  async mayHaveCachedAdd(containerId: string): Promise<boolean> {
    const names = await readdir(this.#resultDirs[1]).catch(() => undefined);
    return names?.some((name) => name.includes(`-${containerId}-`)) ?? true;
  }
}

async function namesIn(dir: string): Promise<string[]> {
  try {
    return await readdir(dir);
  } catch (error) {
    if (isAbsent(error)) return [];
    throw ioFailure(dir, error);
  }
}

/** Undefined if there is none. @throws CniError 5, or 6 for a link, a device or a long file */
async function readRegularFile(path: string): Promise<string | undefined> {
  try {
    return textIfPresent(path, "above");
  } catch (error) {
    if (!(error instanceof RefusedFileError)) throw ioFailure(path, error);
    throw new CniError("DecodingFailure", error.message, { cause: error });
  }
}

function ioFailure(path: string, cause: unknown): CniError {
  const message = `cannot read ${path}: ${errorMessage(cause)}`;
  return new CniError("IoFailure", message, { cause });
}
