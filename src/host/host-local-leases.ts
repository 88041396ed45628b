import { readdir } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import type { Lease } from "#engine/explain/explanation.ts";
import { ifPresent } from "#lib/files/is-absent.ts";
import { textIfPresent } from "#lib/files/read-file.ts";

/** A range of 65,000 addresses that is exhausted must not keep plexusd busy. */
const leasesMax = 1000;

/** What host-local has given away of a network (CNI name), in its default directory: some of it, if there is much. */
export async function hostLocalLeases(cniStateDir: string, network: string): Promise<Lease[]> {
  const dir = join(cniStateDir, "networks", network);
  const addresses = ((await ifPresent(readdir(dir))) ?? []).filter((name) => isIP(name) !== 0);
  return Array.fromAsync(addresses.slice(0, leasesMax), async (address) => {
    // The container's ID, and its interface in the next line.
    const path = join(dir, address);
    const text = textIfPresent(path, "above") ?? "";
    return { address, containerId: text.split(/\s/)[0] ?? "", path };
  });
}
