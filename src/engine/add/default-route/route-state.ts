import type { IpFamily } from "#lib/ip.ts";
import type { InterfaceAddress, Link } from "#netlink/links.ts";
import { type Hop, isDefault, type KernelRoute } from "#netlink/routes.ts";

/** What matters of an attachment for the default route. */
export interface RoutedAttachment {
  readonly ifName: string;
  readonly otherIfNames?: readonly string[];
  /** The gateways of its `default-route` key; absent when the attachment has none. */
  readonly requested?: readonly string[] | undefined;
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

/** The default route of one address family, for a decision. */
export interface FamilyContext {
  readonly state: RouteState;
  readonly family: IpFamily;
  readonly link: Link | undefined;
  readonly ifName: string;
  /** The interfaces of the selected attachment. */
  readonly own: ReadonlySet<number>;
  /** The interfaces of the other attachments. */
  readonly losing: ReadonlySet<number>;
}

/** The default routes of one family. */
export function defaultsOf(
  { routes }: Pick<KernelRoutes, "routes">,
  family: IpFamily,
): KernelRoute[] {
  return routes.filter((route) => route.family === family && isDefault(route));
}

/** The default routes of an attachment, by hops, in the order in which the kernel prefers them. */
export function defaultHops(
  state: KernelRoutes,
  attachment: RoutedAttachment,
  families: readonly IpFamily[],
): { readonly route: KernelRoute; readonly hop: Hop }[] {
  const own = indexesOf([attachment], state);
  return families
    .flatMap((family) => defaultsOf(state, family).toSorted((a, b) => a.metric - b.metric))
    .flatMap((route) => route.hops.map((hop) => ({ route, hop })))
    .filter(({ hop }) => own.has(hop.ifIndex));
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
