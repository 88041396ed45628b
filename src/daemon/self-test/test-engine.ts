import { Registry } from "prom-client";
import { engineMetrics } from "#daemon/http/engine-metrics.ts";
import { Engine } from "#engine/engine.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { emptyPorts, emptySource } from "#engine/ports/empty-ports.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { bootClockMs } from "#lib/boot-clock.ts";

/** The pod of a self-test, with two networks. */
export const testPod: Pod = {
  namespace: "plexus-self-test",
  name: "pod",
  uid: "00000000-0000-4000-8000-000000000000",
  annotations: { "k8s.v1.cni.cncf.io/networks": "one,two" },
};

/** A network's configuration. Each has its own plugin. */
export function testNetwork(name: string): object {
  return { cniVersion: "1.0.0", name, plugins: [{ type: `${name}-plugin` }] };
}

/** An engine that knows only {@link testPod}, and whose calls are not published, counted or logged. */
export function testEngine(records: EngineDeps["records"]): Engine {
  return new Engine({
    ...emptyPorts,
    records,
    config: () => ({}),
    source: {
      ...emptySource,
      getPod: async () => testPod,
      getNad: async ({ namespace, name }) => ({
        ...{ namespace, name, annotations: {} },
        config: JSON.stringify(testNetwork(name)),
      }),
    },
    metrics: engineMetrics(new Registry()),
    clock: bootClockMs,
    now: () => new Date().toISOString(),
    bootId: () => testPod.uid,
    leftoverDuty: "daemon",
  });
}
