import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import type { RecordReader } from "#engine/ports/records.ts";
import type { Lists } from "./metrics.ts";

/** The metrics whose series are what a node has. */
export function nodeLists(options: {
  readonly networks: () => readonly NetworkOnNode[];
  readonly records: Pick<RecordReader, "list">;
  /** The most series about attachments. */
  readonly attachmentInfo: () => number;
}): Lists {
  return {
    plexus_networks: async () =>
      options.networks().map(({ network, usable }) => ({ network, usable: `${usable}` })),
    plexus_attachment_info: async () => {
      const max = options.attachmentInfo();
      const { records } = max === 0 ? { records: [] } : await options.records.list();
      const all = records.flatMap(({ pod, attachments }) =>
        attachments.flatMap(({ ifName, displayName: network }) =>
          pod ? { namespace: pod.namespace, pod: pod.name, interface: ifName, network } : [],
        ),
      );
      return all.slice(0, max);
    },
  };
}
