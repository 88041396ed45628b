import type { IpFamily } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { Link } from "#netlink/links.ts";
import { isDefault, type KernelRoute } from "#netlink/routes.ts";
import type { RoutedAttachment } from "./route-state.ts";

/** A default route that an attachment has in the kernel. */
export interface DefaultRoute {
  readonly family: IpFamily;
  readonly gateway?: string;
  readonly metric: number;
}

/** The default routes of one attachment after all edits. */
export interface DefaultRoutesAfter {
  /** The families whose default routes were decided on; of the others `routes` says nothing. */
  readonly families: readonly IpFamily[];
  /** In the order in which the kernel prefers them. */
  readonly routes: readonly DefaultRoute[];
}

interface StateAfter {
  readonly routes: readonly KernelRoute[];
  readonly links: readonly Link[];
  readonly families: readonly IpFamily[];
}

/** The default routes of the decided families, by the interface name of each attachment. */
export function routesAfter(
  { routes, links, families }: StateAfter,
  attachments: readonly RoutedAttachment[],
): Map<string, DefaultRoutesAfter> {
  const defaults = routes.filter((route) => isDefault(route) && families.includes(route.family));
  const sorted = defaults.toSorted((a, b) => a.family - b.family || a.metric - b.metric);
  return new Map(
    attachments.map(({ ifName, otherIfNames = [] }) => {
      const indexes = links
        .filter(({ name }) => name === ifName || otherIfNames.includes(name))
        .map(({ index }) => index);
      const own = sorted.flatMap(({ family, metric, hops }) =>
        hops
          .filter(({ ifIndex }) => indexes.includes(ifIndex))
          .map(({ gateway }) => omitUndefined({ family, metric, gateway })),
      );
      return [ifName, { families, routes: own }];
    }),
  );
}
