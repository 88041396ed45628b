import { readdirSync, statSync } from "node:fs";
import type { ConfFiles } from "#engine/ports/host.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { readTextFile } from "#lib/files/read-file.ts";
import { type HostView, wholeHost } from "./host-view.ts";

/**
 * The CNI configuration files of the host. ADDs wait for them, and they are small: a system call
 * takes microseconds, the thread pool many times that.
 */
export class HostConfFiles implements ConfFiles {
  readonly #view: HostView;

  constructor(view: HostView = wholeHost) {
    this.#view = view;
  }

  sees(path: string): boolean {
    return this.#view.sees(path);
  }

  async list(dir: string): Promise<string[]> {
    const entries = (await ifPresent(now(() => readdirSync(dir, { withFileTypes: true })))) ?? [];
    const names = entries.filter((entry) => !entry.isDirectory()).map((entry) => entry.name);
    return names.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  }

  read(path: string): Promise<string> {
    return now(() => readTextFile(path, "any"));
  }

  async kind(path: string): Promise<"file" | "directory" | "absent"> {
    // A thrown error costs more than this option.
    const found = await ifPresent(now(() => statSync(path, { throwIfNoEntry: false })));
    if (found === undefined) return "absent";
    return found.isDirectory() ? "directory" : "file";
  }
}

async function now<T>(step: () => T): Promise<T> {
  return step();
}
