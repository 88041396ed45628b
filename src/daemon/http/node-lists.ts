import type { Engine } from "#engine/engine.ts";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import type { Lists } from "./metrics.ts";

/** The metrics whose series are what a node has. */
export function nodeLists(options: {
  readonly networks: () => readonly NetworkOnNode[];
  readonly engine: Pick<Engine, "recordsInUse">;
  /** The most series about attachments. */
  readonly attachmentInfo: () => number;
}): Lists {
  return {
    plexus_networks: async () =>
      options.networks().map(({ network, usable }) => ({ network, usable: `${usable}` })),
    plexus_attachment_info: async () => {
      const max = options.attachmentInfo();
      // A leftover's pod has, or had, the same interface by another record.
      const records = max === 0 ? [] : await options.engine.recordsInUse();
      const all = records.flatMap(({ pod, attachments }) =>
        attachments.flatMap(({ ifName, displayName: network }) =>
          pod ? { namespace: pod.namespace, pod: pod.name, interface: ifName, network } : [],
        ),
      );
      return all.slice(0, max);
    },
  };
}
