import { ifNameProblem } from "#npwg/if-names.ts";
import { nadNameProblem, namespaceProblem } from "#npwg/object-name.ts";
import type { ElementContext } from "./element.ts";
import type { NetworkSelection } from "./selection.ts";

/**
 * Reads one item of the comma-delimited format, `[<namespace>/]<name>[@<interface>]` (multi-network
 * specification v1.1 §4.1.1; the interface is Multus' addition).
 */
export function parseSelectionItem(
  text: string,
  context: ElementContext,
): NetworkSelection | undefined {
  const item = text.trim();
  const { position } = context;
  const problems: [key: string, reason: string][] = [];
  const [reference = "", ifName, ...extraIfNames] = item.split("@").map((part) => part.trim());
  const [name = "", namespace, ...extraParts] = reference
    .split("/")
    .reverse()
    .map((part) => part.trim());

  if (item === "") problems.push(["", "item is empty (a comma too many?)"]);
  else if (extraParts.length > 0) problems.push(["", 'more than one "/"']);
  else if (extraIfNames.length > 0) problems.push(["", 'more than one "@"']);
  else {
    addProblem(problems, ["name", nadNameProblem(name)]);
    if (namespace !== undefined) addProblem(problems, ["namespace", namespaceProblem(namespace)]);
    if (ifName !== undefined) addProblem(problems, ["interface", ifNameProblem(ifName)]);
  }
  for (const [key, reason] of problems) {
    context.onProblem({ position, key, value: item, reason });
  }
  if (problems.length > 0) return undefined;
  return {
    namespace: namespace ?? context.namespace,
    name,
    ...(ifName === undefined ? {} : { ifName }),
    position,
  };
}

function addProblem(
  problems: [string, string][],
  [key, reason]: [string, string | undefined],
): void {
  if (reason !== undefined) problems.push([key, reason]);
}
