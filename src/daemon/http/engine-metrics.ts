import type { Registry } from "prom-client";
import { isCommand } from "#cni/plugin/commands.ts";
import { assertions } from "#engine/ports/assertions.ts";
import type { EngineMetrics } from "#engine/ports/engine-deps.ts";
import { metric } from "./metric-table.ts";

/** {@link EngineMetrics} that can be asked for a number. */
export interface CallMetrics extends EngineMetrics {
  callsInFlight(): Promise<number>;
}

/** Metrics of the container runtime's calls and of delegates. */
export function engineMetrics(registry: Registry): CallMetrics {
  const requests = metric(registry, "plexus_cni_requests_total");
  const duration = metric(registry, "plexus_cni_request_duration_seconds");
  const delegates = metric(registry, "plexus_delegate_duration_seconds");
  const inFlight = metric(registry, "plexus_inflight_requests");
  const broken = metric(registry, "plexus_broken_assertions_total");
  // Without a first value, the first increase does not count as one.
  for (const assertion of Object.keys(assertions)) broken.inc({ assertion }, 0);
  // A container runtime can send any command.
  const commandLabel = (command: string) => (isCommand(command) ? command : "other");
  const networks = limitedLabel(200);
  const types = limitedLabel(50);
  return {
    callsInFlight: async () => (await inFlight.get()).values[0]?.value ?? 0,
    requestStarted: () => inFlight.inc(),
    requestEnded: (command, { code, milliseconds }) => {
      inFlight.dec();
      const label = commandLabel(command);
      requests.inc({ command: label, result: code === undefined ? "success" : `code_${code}` });
      duration.observe({ command: label }, milliseconds / 1000);
    },
    delegateEnded: ({ command, type, network, ok, milliseconds }) => {
      const labels = {
        command: commandLabel(command),
        plugin_type: types(type),
        network: networks(network),
        result: ok ? "success" : "error",
      };
      delegates.observe(labels, milliseconds / 1000);
    },
    assertionBroken: (assertion) => broken.inc({ assertion }),
  };
}

/** Limits the number of a label's values: further ones become `other`. */
function limitedLabel(max: number): (value: string) => string {
  const known = new Set<string>();
  return (value) => {
    if (known.size < max) known.add(value);
    return known.has(value) ? value : "other";
  };
}
