import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { RuntimeSandboxes, SandboxList } from "#engine/ports.ts";
import { readFields } from "#lib/field-reader.ts";
import { swapIn } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";

/** The path of the list: beside plexusd's socket. */
export function sandboxListPath(socketPath: string): string {
  return join(dirname(socketPath), "sandboxes.json");
}

/** Replaces the list. @throws Error as of node:fs */
export async function writeSandboxList(path: string, list: SandboxList): Promise<void> {
  const { listedAt, containerIds } = list;
  await swapIn(path, `${JSON.stringify({ listedAt, containerIds: [...containerIds] })}\n`);
}

/**
 * The container runtime's list, as `plexusctl sandboxes` writes it to a file. plexusd never asks
 * the runtime itself, because access to the runtime's socket is root access to the node.
 */
export class SandboxListFile implements RuntimeSandboxes {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  async latest(): Promise<SandboxList | undefined> {
    const text = await ifPresent(readFile(this.#path, "utf8"));
    if (text === undefined) return undefined;
    return readFields(JSON.parse(text), { subject: this.#path }, (fields) => ({
      listedAt: fields.required("listedAt"),
      containerIds: new Set(fields.strings("containerIds")),
    }));
  }
}
