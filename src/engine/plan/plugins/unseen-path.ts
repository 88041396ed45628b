import type { ConfFiles } from "#engine/ports/host.ts";

/** Hint that a path is not mounted into this container; empty when the path is visible. */
export function unseenPathHint(files: Pick<ConfFiles, "sees">, path: string): string {
  if (files.sees(path)) return "";
  return " in plexusd's container, into which that place of the host is not mounted: add a hostPath volume with the same path";
}
