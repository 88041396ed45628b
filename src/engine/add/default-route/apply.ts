import { CniError } from "#cni/error.ts";
import { errorMessage } from "#lib/error-message.ts";
import { formatCidr, type IpFamily } from "#lib/ip.ts";
import { execute, type NetlinkTransport, type Request } from "#netlink/codec.ts";
import { type Link, listAddresses, listLinks } from "#netlink/links.ts";
import { addRoute, deleteRoute, isDefault, type KernelRoute, listRoutes } from "#netlink/routes.ts";
import type { RouteEdit, RoutePlan } from "./plan.ts";
import { type KernelRoutes, linkName, type RouteState } from "./route-state.ts";

/** A network namespace, and who carries out requests there. */
interface RoutedNamespace {
  readonly netns: string;
  readonly transport: NetlinkTransport;
}

interface EditContext extends RoutedNamespace, Pick<KernelRoutes, "links"> {}

/** The kernel's routes after all edits. */
export interface RoutesAfter extends KernelRoutes {
  /** The families whose default routes were decided on; the others are left as reported. */
  readonly families: readonly IpFamily[];
}

/**
 * Changes the routes of a namespace as planned; undefined when no family is decided on. On failure
 * the routes are as before.
 * @throws CniError 5 when the kernel refuses, and what the plan throws
 */
export async function changeRoutes(
  { netns, transport }: RoutedNamespace,
  plan: (state: RouteState) => RoutePlan,
): Promise<RoutesAfter | undefined> {
  const read = readRoutes({ netns, transport });
  const [before, addresses] = await Promise.all([read, listAddresses(transport, netns)]);
  const { edits, families } = plan({ ...before, addresses });
  if (families.length === 0) return undefined;
  const { links } = before;
  if (edits.length === 0) return { ...before, families };
  await carryOut(edits, { netns, transport, links });
  return { routes: await listAllRoutes(transport, netns), links, families };
}

/** @throws NetlinkError, and as the transport */
async function readRoutes({ netns, transport }: RoutedNamespace): Promise<KernelRoutes> {
  const lists = [listLinks(transport, netns), listAllRoutes(transport, netns)] as const;
  const [links, routes] = await Promise.all(lists);
  return { links, routes };
}

async function listAllRoutes(transport: NetlinkTransport, netns: string): Promise<KernelRoute[]> {
  const lists = [listRoutes(transport, netns, 4), listRoutes(transport, netns, 6)];
  return (await Promise.all(lists)).flat();
}

async function carryOut(edits: readonly RouteEdit[], context: EditContext): Promise<void> {
  const sent = await send(edits, context).catch(async (cause) => {
    await restore(edits, context).catch(() => undefined);
    throw cause;
  });
  if (sent === undefined) return;
  const note = await restore(sent.done, context).then(
    () => "",
    (error) => `; and the routes could not be restored: ${errorMessage(error)}`,
  );
  throw new CniError("IoFailure", `${sent.failure}${note}`);
}

/** Removes what was added, then restores what was removed, in its order. @throws CniError 5 */
async function restore(done: readonly RouteEdit[], context: EditContext): Promise<void> {
  const added = done.filter(({ op }) => op === "add").toReversed();
  const removed = done.filter(({ op }) => op === "del");
  const edits = [
    ...added.map(({ route }) => ({ op: "del", route }) as const),
    ...removed.map(({ route }) => ({ op: "add", route, append: true }) as const),
  ];
  if (edits.length === 0) return;
  const sent = await send(edits, context);
  if (sent !== undefined) throw new CniError("IoFailure", sent.failure);
}

/**
 * Sends edits in one datagram: the kernel tries each one even if an earlier one failed.
 * @returns the first failure, and the edits that the kernel made; undefined when none failed
 */
async function send(
  edits: readonly RouteEdit[],
  { netns, transport, links }: EditContext,
): Promise<{ done: readonly RouteEdit[]; failure: string } | undefined> {
  const outcomes = await execute(transport, netns, edits.map(editRequest));
  const failed = edits.findIndex((edit, i) => !isSuccess(edit, outcomes[i]));
  const edit = edits[failed];
  if (edit === undefined) return undefined;
  const done = edits.filter((_, i) => outcomes[i] === undefined);
  return { done, failure: `cannot ${describe(edit, links)}: ${outcomes[failed]}` };
}

/** Removing a route that is gone, and appending one that is there, succeeds. */
function isSuccess({ op, append }: RouteEdit, errno: string | undefined): boolean {
  if (errno === undefined) return true;
  return op === "del" ? errno === "ESRCH" : append === true && errno === "EEXIST";
}

/** Equivalent to: `ip route add …` (or `append`, to restore), `ip route del …`. */
function editRequest({ op, route, append }: RouteEdit): Request {
  return op === "del" ? deleteRoute(route) : addRoute(route, { append: append === true });
}

function describe({ op, route }: RouteEdit, links: readonly Link[]): string {
  const hops = route.hops.map(({ ifIndex, gateway }) => {
    const dev = `dev ${linkName(links, ifIndex)}`;
    return gateway === undefined ? dev : `via ${gateway} ${dev}`;
  });
  const verb = op === "add" ? "add" : "remove";
  const what = isDefault(route)
    ? `IPv${route.family} default route`
    : `route to ${formatCidr(route.dst)}`;
  return `${verb} the ${what} ${hops.join(", ")}`;
}
