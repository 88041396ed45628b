import type { Mutation } from "./mutation.ts";

/** Without each of these, EndpointSlices are not what they should be. */
export const endpointsMutations: readonly Mutation[] = [
  {
    name: "a namespace whose slices were not written is compared again",
    file: "src/endpoints/controller.ts",
    find: "    setTimeout(() => this.#changed.add(namespace), Math.max(retryMs, error.retryAfterMs)).unref();\n",
    properties: ["endpoints eventually"],
  },
];
