import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import type { RuntimeSandboxes, SandboxList } from "#engine/ports/host.ts";
import { swapIn } from "#lib/files/atomic-write.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { parseWith } from "#lib/parsing/parse-with.ts";

const schema = z.object({ listedAt: z.string().min(1), containerIds: z.array(z.string()) });

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
    const { listedAt, containerIds } = parseWith(schema, JSON.parse(text), this.#path);
    return { listedAt, containerIds: new Set(containerIds) };
  }
}
