import { interfacePlugins } from "#cni/reference-plugins.ts";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { objectOf } from "#lib/json.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";

/** Keys with which they also write the node's packet filter. */
const filterKeys: ReadonlySet<string> = new Set(["ipmasq", "macspoofchk"]);

/** Whether nothing of a plugin can be left, once its interface is gone and its IPAM plugin has succeeded. */
export function keepsOnlyInterface({ type, stdin }: DelegateCall): boolean {
  // Plugins in Go read keys in either case.
  const filters = ([key, value]: [string, unknown]): boolean =>
    filterKeys.has(key.toLowerCase()) && value !== false;
  return (
    interfacePlugins.has(type) && !Object.entries(objectOf(parseJsonText(stdin))).some(filters)
  );
}
