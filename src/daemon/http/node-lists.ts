import type { Engine } from "#engine/engine.ts";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import type { Lists } from "./metrics.ts";

/** More than a node has; a defect does not fill the monitoring. */
const attachmentsMax = 1000;

/** The metrics whose series are what a node has. */
export function nodeLists(options: {
  readonly networks: () => readonly NetworkOnNode[];
  readonly engine: Pick<Engine, "recordsInUse">;
}): Lists {
  return {
    plexus_networks: async () =>
      options.networks().map(({ network, usable }) => ({ network, usable: `${usable}` })),
    plexus_attachment_info: async () => {
      // A leftover's pod has, or had, the same interface by another record.
      const records = await options.engine.recordsInUse();
      const all = records.flatMap(({ pod, attachments }) =>
        attachments.flatMap(({ ifName, displayName: network }) =>
          pod ? { namespace: pod.namespace, pod: pod.name, interface: ifName, network } : [],
        ),
      );
      return all.slice(0, attachmentsMax);
    },
  };
}
