import type { IpFamily } from "#lib/ip.ts";
import type { InterfaceAddress, Link } from "#netlink/links.ts";
import { isDefault, type KernelRoute } from "#netlink/routes.ts";

/** What matters of an attachment for the default route. */
export interface RoutedAttachment {
  readonly ifName: string;
  readonly otherIfNames?: readonly string[];
  /** The gateways of its `default-route` key; absent when the attachment has none. */
  readonly requested?: readonly string[] | undefined;
}

/** The state of the kernel; routes of the main table only. */
export interface RouteState {
  readonly links: readonly Link[];
  readonly addresses: readonly InterfaceAddress[];
  readonly routes: readonly KernelRoute[];
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
  { routes }: Pick<RouteState, "routes">,
  family: IpFamily,
): KernelRoute[] {
  return routes.filter((route) => route.family === family && isDefault(route));
}

/** The interfaces of attachments, by index. */
export function indexesOf(
  attachments: readonly RoutedAttachment[],
  { links }: Pick<RouteState, "links">,
): ReadonlySet<number> {
  const names = attachments.flatMap(({ ifName, otherIfNames = [] }) => [ifName, ...otherIfNames]);
  return new Set(links.filter(({ name }) => names.includes(name)).map(({ index }) => index));
}

/** The name of an interface, for messages. */
export function linkName(links: readonly Link[], ifIndex: number): string {
  return links.find(({ index }) => index === ifIndex)?.name ?? `#${ifIndex}`;
}
