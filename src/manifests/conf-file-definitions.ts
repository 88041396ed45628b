import type { ClusterSource } from "#engine/ports/cluster.ts";

/** Without definitions, a network is the configuration file of its name (§3.4.1), for any namespace. */
export const confFileDefinitions: Pick<ClusterSource, "getNad"> = {
  getNad: async (ref) => ({ ...ref, annotations: {} }),
};
