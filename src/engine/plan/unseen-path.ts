import type { ConfFiles } from "#engine/ports.ts";

/**
 * What is to be added to the message that nothing was found at a path: empty, unless this process does
 * not see that place of the host. Then it would never be found, whatever there is on the host.
 */
export function unseenPathHint(files: Pick<ConfFiles, "sees">, path: string): string {
  if (files.sees(path)) return "";
  return " in plexusd's container, into which that place of the host is not mounted: add a hostPath volume with the same path";
}
