import { ifNameProblem } from "#cni/names.ts";
import { dnsLabelProblem, dnsSubdomainProblem } from "#lib/dns-name.ts";
import { quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { FieldReader } from "#lib/parsing/field-reader.ts";
import type { ElementContext } from "./element.ts";
import type { NetworkSelection } from "./network-selection.ts";

/**
 * Reads an item of the comma-delimited format, `[<namespace>/]<name>[@<interface>]` (multi-network
 * specification v1.1 §4.1.1; the interface is Multus' addition).
 */
export function parseSelectionItem(text: string, context: ElementContext): NetworkSelection {
  const { problems, position } = context;
  const item = text.trim();
  const [reference = "", ifName, ...extraIfNames] = item.split("@").map((part) => part.trim());
  const parts = reference.split("/").map((part) => part.trim());
  const [name = "", namespace] = parts.toReversed();
  const selection = { namespace: namespace ?? context.namespace, name, position };
  const wrong = (reason: string) => problems.push({ path: "", reason });
  if (item === "") wrong("item is empty (a comma too many?)");
  else if (parts.length > 2) wrong(`more than one "/" in ${quoteValue(item)}`);
  else if (extraIfNames.length > 0) wrong(`more than one "@" in ${quoteValue(item)}`);
  else {
    const written = omitUndefined({ name, namespace, interface: ifName });
    const fields = new FieldReader(written, { path: "", problems });
    fields.checked("name", dnsSubdomainProblem);
    fields.checked("namespace", dnsLabelProblem);
    fields.checked("interface", ifNameProblem);
  }
  return omitUndefined({ ...selection, ifName });
}
