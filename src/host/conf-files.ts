import { readdir, readFile, stat } from "node:fs/promises";
import type { ConfFiles } from "#engine/ports.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
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
    const entries = (await ifPresent(readdir(dir, { withFileTypes: true }))) ?? [];
    const names = entries.filter((entry) => !entry.isDirectory()).map((entry) => entry.name);
    return names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  }

  read(path: string): Promise<string> {
    return readFile(path, "utf8");
  }

  async kind(path: string): Promise<"file" | "directory" | "absent"> {
    const found = await ifPresent(stat(path));
    if (found === undefined) return "absent";
    return found.isDirectory() ? "directory" : "file";
  }
}
