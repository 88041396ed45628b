import type { HotPlugOutcome } from "#engine/hotplug/hot-plug.ts";

export const refreshPage = "refresh";

/** How a network of a pod was plugged anew. */
export interface Refreshed extends Pick<HotPlugOutcome, "state" | "problem"> {
  readonly operations: readonly {
    readonly op: "add" | "remove";
    readonly network: string;
    readonly ifName: string;
    /** Why it failed; absent when it succeeded. */
    readonly message?: string;
  }[];
}
