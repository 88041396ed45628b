import type { CallContext } from "./deps.ts";
import type { Attached } from "./planned.ts";

/** Temporary until routes/ is complete. */
export async function applyDefaultRoutes(
  _ctx: CallContext,
  _netns: string,
  attached: readonly Attached[],
): Promise<Attached[]> {
  return [...attached];
}
