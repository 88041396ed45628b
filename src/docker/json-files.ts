import { mkdir, readdir, readFile, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import type * as z from "zod";
import type { Logger } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";
import { atomicWrite } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { syncDirectory } from "#lib/files/sync.ts";
import { targetOfTemporaryName } from "#lib/files/temporary-name.ts";

const suffix = ".json";

/** Values of one kind by their identifiers, which survive this process and the machine. */
export interface Collection<T> {
  get(id: string): T | undefined;
  all(): readonly T[];
  /** Durable when it resolves. @throws Error as of node:fs */
  put(id: string, value: T): Promise<void>;
  /** Durable when it resolves. One that is not there is no error. @throws Error as of node:fs */
  remove(id: string): Promise<void>;
}

/** How {@link JsonFiles} are opened. */
interface JsonFilesOptions<T> {
  readonly dir: string;
  /** What a file has to be, as another release may have written it. */
  readonly schema: z.ZodType<T>;
  readonly logger: Logger;
}

/** One file for each value in a directory that no other process writes to; read once. */
export class JsonFiles<T extends object> implements Collection<T> {
  readonly #dir: string;
  readonly #values: Map<string, T>;

  private constructor(dir: string, values: Map<string, T>) {
    this.#dir = dir;
    this.#values = values;
  }

  /**
   * Reads a directory, which is made where there is none. A file that cannot be used is put aside.
   * @throws Error as of node:fs
   */
  static async open<T extends object>({
    dir,
    schema,
    logger,
  }: JsonFilesOptions<T>): Promise<JsonFiles<T>> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    const values = new Map<string, T>();
    const names = await readdir(dir);
    // What a process that was killed was about to write.
    const halfWritten = names.filter((name) => targetOfTemporaryName(name) !== undefined);
    for (const name of halfWritten) await unlink(join(dir, name));
    for (const name of names.filter((each) => each.endsWith(suffix))) {
      const path = join(dir, name);
      try {
        const value = schema.parse(JSON.parse(await readFile(path, "utf8")));
        values.set(name.slice(0, -suffix.length), value);
      } catch (error) {
        await rename(path, `${path}.damaged`);
        logger.error({ path, error: errorMessage(error) }, "a file is damaged and was put aside");
      }
    }
    return new JsonFiles(dir, values);
  }

  get(id: string): T | undefined {
    return this.#values.get(id);
  }

  all(): readonly T[] {
    return [...this.#values.values()];
  }

  async put(id: string, value: T): Promise<void> {
    await atomicWrite(this.#path(id), JSON.stringify(value));
    this.#values.set(id, value);
  }

  async remove(id: string): Promise<void> {
    this.#values.delete(id);
    await ifPresent(unlink(this.#path(id)));
    await syncDirectory(this.#dir);
  }

  #path(id: string): string {
    return join(this.#dir, id + suffix);
  }
}
