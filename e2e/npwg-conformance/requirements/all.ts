import type { Checks, Requirement } from "../requirement.ts";
import { defaultRouteChecks } from "./default-route.ts";
import { definitionChecks } from "./definitions.ts";
import { requirementList } from "./list.ts";
import { multusChecks } from "./multus.ts";
import { operationChecks } from "./operations.ts";
import { requestChecks } from "./requests.ts";
import { selectionChecks } from "./selection.ts";
import { statusChecks } from "./status.ts";

const checks: Checks = {
  ...definitionChecks,
  ...selectionChecks,
  ...requestChecks,
  ...defaultRouteChecks,
  ...statusChecks,
  ...operationChecks,
  ...multusChecks,
};

/** Every requirement with its check, in the order of the list. */
export const requirements: readonly Requirement[] = requirementList
  .trim()
  .split("\n")
  .map(toRequirement);

function toRequirement(line: string): Requirement {
  const [, id = "", level, text = ""] = /^(\S+) (MUST|SHOULD|MAY|none) (.+)$/.exec(line) ?? [];
  const check = checks[id];
  if (check === undefined) throw new Error(`no check for the requirement: ${line}`);
  const kind = id.startsWith("X-") ? "multus" : "standard";
  return { id, level: level as Requirement["level"], kind, text, check };
}
