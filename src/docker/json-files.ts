import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type * as z from "zod";
import type { Logger } from "#engine/ports/logger.ts";
import { errorMessage } from "#lib/error-message.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { syncDirectory } from "#lib/files/sync.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";
import { parseExactly } from "#lib/json.ts";

const suffix = ".json";

/**
 * Values of one kind by their identifiers: one file per value, in a directory that only this
 * process writes to; read once. Changes are durable when they resolve.
 */
export class JsonFiles<T extends object> {
  readonly #dir: string;
  readonly #values = new Map<string, T>();

  private constructor(dir: string) {
    this.#dir = dir;
  }

  /** Reads or creates a directory; puts unusable files aside. @throws Error as node:fs does */
  static async open<T extends object>(options: {
    readonly dir: string;
    readonly schema: z.ZodType<T>;
    readonly logger: Logger;
  }): Promise<JsonFiles<T>> {
    const { dir, schema, logger } = options;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const files = new JsonFiles<T>(dir);
    for (const name of await readdir(dir)) {
      const path = join(dir, name);
      // A process that was killed while writing leaves a temporary file.
      if (targetOfTemporaryName(name) !== undefined) await rm(path);
      else if (name.endsWith(suffix)) {
        try {
          const value = schema.parse(parseExactly(await readFile(path, "utf8")));
          files.#values.set(name.slice(0, -suffix.length), value);
        } catch (error) {
          await rename(path, `${path}.damaged`);
          logger.error({ path, error: errorMessage(error) }, "put a damaged file aside");
        }
      }
    }
    return files;
  }

  get(id: string): T | undefined {
    return this.#values.get(id);
  }

  all(): readonly T[] {
    return [...this.#values.values()];
  }

  /** @throws Error as node:fs does */
  async put(id: string, value: T): Promise<void> {
    await atomicWrite(this.#path(id), JSON.stringify(value));
    this.#values.set(id, value);
  }

  /** Ignores unknown ids. @throws Error as node:fs does */
  async remove(id: string): Promise<void> {
    this.#values.delete(id);
    await rm(this.#path(id), { force: true });
    await syncDirectory(this.#dir);
  }

  #path(id: string): string {
    return join(this.#dir, id + suffix);
  }
}
