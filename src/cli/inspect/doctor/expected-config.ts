import type { NodeCondition, NodeStatus } from "#daemon/admin/node-status.ts";
import { invalidConfiguration } from "#daemon/config/invalid-configuration.ts";
import { parseFile } from "#daemon/config/parse.ts";
import type { Condition } from "#lib/condition.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { JsonObject } from "#lib/json.ts";

/** Compares with what the ConfigMap has: the kubelet brings a changed one to the node later. */
export function withExpected(report: NodeStatus, expected: string): readonly NodeCondition[] {
  const compared = compare(report, expected);
  return report.conditions.map((each) =>
    each.reason === "ConfigInEffect" ? { ...each, ...compared } : each,
  );
}

function compare(report: NodeStatus, expected: string): Condition | undefined {
  try {
    const keys = keysToCome(report, expected);
    if (keys.length === 0) return undefined;
    const message = `the ConfigMap plexus-config has other values of ${keys.join(", ")} than kubectl plexus config shows`;
    const step =
      "the kubelet brings a changed ConfigMap within two minutes; a key that plexusd reads when it starts needs a restart of the DaemonSet";
    return { reason: "ConfigNotInEffect", message, step };
  } catch (error) {
    return invalidConfiguration(errorMessage(error));
  }
}

/** The operator's keys that have another value in effect. @throws ConfigError */
function keysToCome({ settings, configFile }: NodeStatus, expected: string): string[] {
  const wanted = { ...parseFile(expected, { source: "plexus-config" }).own } as JsonObject;
  const given = settings.filter(({ source }) => source === configFile);
  const inEffect = Object.fromEntries(given.map(({ key, value }) => [key, value]));
  const byFlag = settings.filter(({ source }) => source === "command line");
  const keys = new Set([...Object.keys(wanted), ...Object.keys(inEffect)]);
  for (const { key } of byFlag) keys.delete(key);
  return [...keys].filter((key) => JSON.stringify(wanted[key]) !== JSON.stringify(inEffect[key]));
}
