import type { DefinitionSource } from "#engine/ports/cluster.ts";

/** Without definitions, a network is the configuration file of its name (§3.4.1), for any namespace. */
export const confFileDefinitions: DefinitionSource = {
  getNad: async (ref) => ({ ...ref, annotations: {} }),
};
