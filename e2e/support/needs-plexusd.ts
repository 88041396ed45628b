import { describe } from "vitest";
import { flavour } from "./flavour.ts";

/**
 * Registers tests that are about plexusd itself, so that plexus-standalone cannot pass them. In its flavour they are
 * not part of the run; `make test FLAVOUR=standalone` lists them.
 * @param reason what of plexusd they need
 */
export function needsPlexusd(reason: string, register: () => void): void {
  if (flavour === "daemon") describe(`needs plexusd, as ${reason}`, register);
}
