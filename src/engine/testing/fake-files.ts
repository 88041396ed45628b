import type { DeviceInfoFiles } from "#engine/ports/devices.ts";
import type { ConfFiles, MultusFiles } from "#engine/ports/host.ts";
import type { JsonObject } from "#lib/json.ts";
import { type CachedAddKey, cachedAddFileName } from "#npwg/multus/cached-add.ts";

/** Files in memory, by path; a directory is there as soon as a file is in it. */
export class FakeConfFiles implements ConfFiles {
  readonly #files = new Map<string, string>();
  /** Places that the process does not see. */
  readonly unseen = new Set<string>();

  sees(path: string): boolean {
    return !this.unseen.has(path);
  }

  write(path: string, content: string | JsonObject): void {
    this.#files.set(path, typeof content === "string" ? content : JSON.stringify(content));
  }

  remove(path: string): void {
    this.#files.delete(path);
  }

  async list(dir: string): Promise<string[]> {
    const prefix = `${dir}/`;
    const inside = [...this.#files.keys()].filter((path) => path.startsWith(prefix));
    const names = inside
      .map((path) => path.slice(prefix.length))
      .filter((name) => !name.includes("/"));
    return names.sort();
  }

  async read(path: string): Promise<string> {
    const content = this.#files.get(path);
    if (content === undefined) throw new Error(`ENOENT: ${path}`);
    return content;
  }

  async kind(path: string): Promise<"file" | "directory" | "absent"> {
    if (this.#files.has(path)) return "file";
    const isDirectory = [...this.#files.keys()].some((file) => file.startsWith(`${path}/`));
    return isDirectory ? "directory" : "absent";
  }
}

/** Device information in memory. */
export class FakeDeviceInfoFiles implements DeviceInfoFiles {
  readonly files = new Map<string, string>();

  /** Thrown by every change, when set. */
  failure: Error | undefined;

  async read(path: string): Promise<string | undefined> {
    return this.files.get(path);
  }

  async copy(from: string, to: string): Promise<boolean> {
    if (this.failure !== undefined) throw this.failure;
    const content = this.files.get(from);
    if (content !== undefined) this.files.set(to, content);
    return content !== undefined;
  }

  async remove(path: string): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    this.files.delete(path);
  }
}

/** What Multus has left, in memory: by container ID, and by the name of the cache's file. */
export class FakeMultusFiles implements MultusFiles {
  readonly sandboxes = new Map<string, string>();
  readonly cached = new Map<string, string>();
  /** What every reading fails with. */
  failure: Error | undefined;
  async containers(): Promise<string[]> {
    if (this.failure !== undefined) throw this.failure;
    return [...this.sandboxes.keys()];
  }

  async networks(containerId: string): Promise<string | undefined> {
    if (this.failure !== undefined) throw this.failure;
    return this.sandboxes.get(containerId);
  }

  async cachedAdd(key: CachedAddKey): Promise<string | undefined> {
    return this.cached.get(cachedAddFileName(key));
  }

  async cachedInterfaces(of: Omit<CachedAddKey, "ifName">): Promise<string[]> {
    const start = cachedAddFileName({ ...of, ifName: "" });
    const names = [...this.cached.keys()].filter((name) => name.startsWith(start));
    return names.map((name) => name.slice(start.length));
  }

  async cachedAdds(network: string): Promise<string[]> {
    const named = [...this.cached].filter(([name]) => name.startsWith(`${network}-`));
    return named.map(([, text]) => text);
  }

  async mayHaveCachedAdd(containerId: string): Promise<boolean> {
    return [...this.cached.keys()].some((name) => name.includes(`-${containerId}-`));
  }
}
