import { attachingMutations } from "./attaching.ts";
import { detachingMutations } from "./detaching.ts";
import { endpointsMutations } from "./endpoints.ts";
import { hotPlugMutations } from "./hot-plug.ts";
import type { Mutation } from "./mutation.ts";
import { plexusdMutations } from "./plexusd.ts";
import { shimMutations } from "./shim.ts";

/** All mutations: each is searched by histories, run in the fault matrix, or both. */
export const mutations: readonly Mutation[] = [
  ...attachingMutations,
  ...detachingMutations,
  ...hotPlugMutations,
  ...shimMutations,
  ...plexusdMutations,
  ...endpointsMutations,
];

/** The mutations that histories show. */
export const simulatedMutations = mutations.flatMap(({ properties, inModel, ...mutation }) =>
  properties === undefined ? [] : [{ ...mutation, properties, change: inModel ?? mutation }],
);

/** The mutations that scenarios of the fault matrix show. */
export const matrixMutations = mutations.flatMap(({ scenario, ...mutation }) =>
  scenario === undefined ? [] : [{ ...mutation, scenario }],
);
