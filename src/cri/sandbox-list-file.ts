import { dirname, join } from "node:path";
import * as z from "zod";
import type { RuntimeSandboxes, SandboxList } from "#engine/ports/host.ts";
import { swapIn } from "#lib/files/atomic-write.ts";
import { textIfPresent } from "#lib/files/read-file.ts";
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
export function sandboxListFile(path: string): RuntimeSandboxes {
  return {
    async latest() {
      const text = textIfPresent(path, "above");
      if (text === undefined) return undefined;
      const { listedAt, containerIds } = parseWith(schema, JSON.parse(text), path);
      return { listedAt, containerIds: new Set(containerIds) };
    },
  };
}
