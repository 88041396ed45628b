import type { Requirement } from "../requirement.ts";
import { defaultRouteRequirements } from "./default-route.ts";
import { definitionRequirements } from "./definitions.ts";
import { multusRequirements } from "./multus.ts";
import { operationRequirements } from "./operations.ts";
import { requestRequirements } from "./requests.ts";
import { selectionRequirements } from "./selection.ts";
import { statusRequirements } from "./status.ts";

const standard = [
  ...definitionRequirements,
  ...selectionRequirements,
  ...requestRequirements,
  ...defaultRouteRequirements,
  ...statusRequirements,
  ...operationRequirements,
];

/** Every requirement: the standard's in the order of its sections, then Multus's. */
export const requirements: readonly Requirement[] = [
  ...standard.toSorted((a, b) => a.id.localeCompare(b.id, "en", { numeric: true })),
  ...multusRequirements,
];
