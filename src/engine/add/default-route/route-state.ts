import { anyDestination, type IpFamily } from "#lib/ip.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { InterfaceAddress, Link } from "#netlink/links.ts";
import { isDefault, type KernelRoute } from "#netlink/routes.ts";

/** What matters of an attachment for the default route. */
export interface RoutedAttachment {
  readonly ifName: string;
  readonly otherIfNames?: readonly string[];
  /** The gateways of its `default-route` key; absent when the attachment has none. */
  readonly requested?: readonly string[] | undefined;
  /** The gateways of its plugins. @default none */
  readonly gateways?: readonly string[];
}

/** What the kernel has in a namespace; routes of the main table only. */
export interface KernelRoutes {
  readonly links: readonly Link[];
  readonly routes: readonly KernelRoute[];
}

/** What a decision needs to know of the kernel. */
export interface RouteState extends KernelRoutes {
  readonly addresses: readonly InterfaceAddress[];
}

/** The default routes of one family. */
export function defaultsOf(
  { routes }: Pick<KernelRoutes, "routes">,
  family: IpFamily,
): KernelRoute[] {
  return routes.filter((route) => route.family === family && isDefault(route));
}

interface DefaultRoute {
  readonly dst: "0.0.0.0/0" | "::/0";
  /** Absent for a route without a gateway. */
  readonly gw?: string;
  readonly metric: number;
}

/** The default routes of an attachment, by hops, in the order in which the kernel prefers them. */
export function defaultsOfAttachment(
  state: KernelRoutes,
  attachment: RoutedAttachment,
  families: readonly IpFamily[],
): DefaultRoute[] {
  const own = indexesOf([attachment], state);
  return families
    .flatMap((family) => defaultsOf(state, family).toSorted((a, b) => a.metric - b.metric))
    .flatMap(({ family, metric, hops }) => hops.map((hop) => ({ family, metric, ...hop })))
    .filter(({ ifIndex }) => own.has(ifIndex))
    .map(({ family, gateway: gw, metric }) =>
      omitUndefined({ dst: anyDestination[family], gw, metric }),
    );
}

/** The interfaces of attachments, by index. */
export function indexesOf(
  attachments: readonly RoutedAttachment[],
  { links }: Pick<KernelRoutes, "links">,
): ReadonlySet<number> {
  const names = attachments.flatMap(({ ifName, otherIfNames = [] }) => [ifName, ...otherIfNames]);
  return new Set(links.filter(({ name }) => names.includes(name)).map(({ index }) => index));
}

/** The name of an interface, for messages. */
export function linkName(links: readonly Link[], ifIndex: number): string {
  return links.find(({ index }) => index === ifIndex)?.name ?? `#${ifIndex}`;
}
