import type { Condition } from "#lib/condition.ts";
import { oneLine } from "#lib/one-line.ts";

/** The configuration file has a problem: for the Node's event and `doctor`. */
export function invalidConfiguration(problem: string): Condition {
  return {
    reason: "InvalidConfiguration",
    message: oneLine(problem),
    step: "plexusd keeps the previous configuration, but does not start again with this one: correct the ConfigMap plexus-config, or the chart's config",
  };
}
