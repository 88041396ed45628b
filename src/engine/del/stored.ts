import { asCniError, type CniError } from "#cni/error.ts";

/** A record or plan, as loaded. If it is unusable, it is damaged (CniError 6) or unreadable (5). */
export type Stored<T> =
  | { readonly state: "usable"; readonly value: T }
  | { readonly state: "absent" }
  | { readonly state: "unusable"; readonly error: CniError };

/** Loads a record or plan. A failure is returned, because DEL has to work without it. */
export async function loadStored<T>(load: () => Promise<T | undefined>): Promise<Stored<T>> {
  try {
    const value = await load();
    return value === undefined ? { state: "absent" } : { state: "usable", value };
  } catch (error) {
    return { state: "unusable", error: asCniError(error) };
  }
}
