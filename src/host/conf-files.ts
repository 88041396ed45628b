import { readdir, readFile, stat } from "node:fs/promises";
import type { ConfFiles } from "#engine/ports.ts";
import { type HostView, wholeHost } from "./host-view.ts";

/** The CNI configuration files of the host. */
export class HostConfFiles implements ConfFiles {
  readonly #view: HostView;

  constructor(view: HostView = wholeHost) {
    this.#view = view;
  }

  sees(path: string): boolean {
    return this.#view.sees(path);
  }

  async list(dir: string): Promise<string[]> {
    try {
      const entries = await readdir(dir, { withFileTypes: true });
      const names = entries.filter((entry) => !entry.isDirectory()).map((entry) => entry.name);
      return names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    } catch (error) {
      if (isAbsent(error)) return [];
      throw error;
    }
  }

  read(path: string): Promise<string> {
    return readFile(path, "utf8");
  }

  async kind(path: string): Promise<"file" | "directory" | "absent"> {
    try {
      return (await stat(path)).isDirectory() ? "directory" : "file";
    } catch (error) {
      if (isAbsent(error)) return "absent";
      throw error;
    }
  }
}

function isAbsent(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ENOTDIR";
}
