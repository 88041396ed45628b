import { constants } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { CniError } from "#cni/error.ts";
import type { MultusFiles } from "#engine/ports/host.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { type CachedAddKey, cachedAddFileName } from "#npwg/multus/cached-add.ts";

/** No file of Multus comes near: one that is longer is none. */
const maxBytes = 4 * 1024 * 1024;

/** The files of Multus and libcni below `/var/lib/cni`; before 3.5 Multus used libcni's default. */
export class HostMultusFiles implements MultusFiles {
  readonly #dir: string;
  readonly #resultDirs: readonly [multus: string, libcni: string];

  constructor(cniStateDir: string) {
    this.#dir = join(cniStateDir, "multus");
    this.#resultDirs = [join(this.#dir, "results"), join(cniStateDir, "results")];
  }

  containers(): Promise<string[]> {
    return fileNames(this.#dir);
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
    const names = await fileNames(this.#resultDirs[0]);
    return names.filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
  }

  async cachedAdds(network: string): Promise<string[]> {
    const dir = this.#resultDirs[1];
    const names = (await fileNames(dir)).filter((name) => name.startsWith(`${network}-`));
    const texts = await Promise.all(names.map((name) => readRegularFile(join(dir, name))));
    return texts.filter((text) => text !== undefined);
  }

  async mayHaveCachedAdd(containerId: string): Promise<boolean> {
    const names = await readdir(this.#resultDirs[1]).catch(() => undefined);
    return names?.some((name) => name.includes(`-${containerId}-`)) ?? true;
  }
}

async function fileNames(dir: string): Promise<string[]> {
  try {
    const entries = await readdir(dir, { withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  } catch (error) {
    if (isAbsent(error)) return [];
    throw ioFailure(dir, error);
  }
}

/** Undefined if there is none. @throws CniError 5, or 6 for a link, a device or a long file */
async function readRegularFile(path: string): Promise<string | undefined> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const stats = await file.stat();
    if (!stats.isFile()) throw damaged(path, "it is no regular file");
    if (stats.size > maxBytes) throw damaged(path, `it has more than ${maxBytes} bytes`);
    return await file.readFile("utf8");
  } catch (error) {
    if (isAbsent(error)) return undefined;
    if (error instanceof CniError) throw error;
    const isLink = (error as NodeJS.ErrnoException).code === "ELOOP";
    throw isLink ? damaged(path, "it is a link") : ioFailure(path, error);
  } finally {
    await file?.close();
  }
}

function damaged(path: string, reason: string): CniError {
  return new CniError("DecodingFailure", `${path} is not read: ${reason}`);
}

function ioFailure(path: string, cause: unknown): CniError {
  const message = `cannot read ${path}: ${errorMessage(cause)}`;
  return new CniError("IoFailure", message, { cause });
}
