import type { Mutation } from "./mutation.ts";

/** Without each of these, EndpointSlices are not what they should be. */
export const endpointsMutations: readonly Mutation[] = [
  {
    name: "a lease that is not renewed expires",
    file: "src/endpoints/lease.ts",
    find: "now - this.#seen.at > times.expiryMs",
    replace: "this.#seen.at < 0",
    properties: ["endpoints eventually"],
  },
];
