import { formatResult } from "#cni/result/format.ts";
import { currentVersion } from "#cni/versions.ts";
import { isDefaultRoute } from "#lib/ip.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import type { Attached } from "../../world/attached.ts";
import { world } from "../../world/world.ts";
import { madeBy, type PluginCall, pluginError } from "./call.ts";
import type { AllocatedAddress } from "./host-local.ts";

/** @throws CniError when the pod's network namespace is absent */
export function requireNamespace(call: PluginCall): void {
  if (!hasNamespace(call)) throw pluginError(`failed to open netns "${call.netns}"`);
}

/** What is at the path may be the namespace of another container by now. */
function hasNamespace({ netns, opened }: PluginCall): boolean {
  return opened !== undefined && world().kernel.ownerAt(netns) === opened;
}

/** Makes the pod's interface. @throws CniError without the namespace, or when there is one */
export function makeLink(call: PluginCall, mac?: string): Attached {
  requireNamespace(call);
  const link = madeBy(call, "link");
  if (!world().kernel.addLink(link, mac))
    throw pluginError(`container interface "${call.ifName}" already exists`);
  world().note(() => `  + link ${call.netns} ${call.ifName} of ${call.type}`);
  return link;
}

/** Gives the interface its addresses and default routes. @throws CniError when it is absent */
export function configureLink(
  link: Attached,
  { conf }: PluginCall,
  addresses: readonly AllocatedAddress[],
): void {
  const { kernel } = world();
  if (kernel.link(link.netns, link.ifName) === undefined)
    throw pluginError(`failed to look up "${link.ifName}"`);
  kernel.addAddresses(
    link,
    addresses.map(({ address }) => address),
  );
  for (const { dst } of conf.ipam?.routes ?? []) {
    if (!isDefaultRoute(dst)) continue;
    const next = addresses.find(({ gateway }) => gateway.includes(":") === dst.includes(":"));
    if (next !== undefined) kernel.addDefaultRoute(link, next.gateway);
  }
}

/** Removes the pod's interface. @returns whether there was one */
export function removeLink(call: PluginCall): boolean {
  const { netns, ifName } = call;
  const isRemoved = hasNamespace(call) && world().kernel.removeLink(netns, ifName);
  if (isRemoved) world().note(() => `  - link ${netns} ${ifName}`);
  return isRemoved;
}

/** The result of an ADD: the interfaces on the host, and the one of the pod with its addresses. */
export function linkResult(
  call: PluginCall,
  addresses: readonly AllocatedAddress[],
  hostLinks: readonly string[],
): JsonObject {
  const mac = world().kernel.link(call.netns, call.ifName)?.mac ?? "";
  const interfaces = [
    ...hostLinks.map((name) => ({ name, mac: "02:00:00:00:ff:01" })),
    { name: call.ifName, mac, sandbox: call.netns },
  ];
  const ips = addresses.map((allocated) => ({ ...allocated, interface: hostLinks.length }));
  const routes = call.conf.ipam?.routes ?? [];
  const { cniVersion } = call;
  // Most histories have these versions, whose results need no conversion.
  if (cniVersion.startsWith("1."))
    return { cniVersion, interfaces, ...(ips.length > 0 && { ips, routes: [...routes] }) };
  return formatResult({ cniVersion: currentVersion, interfaces, ips, routes }, cniVersion);
}

/** @throws CniError when the interface is missing, has another MAC address, or lacks a route */
export function checkLink(call: PluginCall): void {
  requireNamespace(call);
  const { prevResult } = call.conf;
  if (prevResult === undefined) throw pluginError("required prevResult missing");
  const link = world().kernel.link(call.netns, call.ifName);
  if (link === undefined) throw pluginError(`interface "${call.ifName}" not found`);
  const known = Array.isArray(prevResult.interfaces) ? prevResult.interfaces : [];
  for (const each of known) {
    if (!isJsonObject(each) || each.name !== call.ifName || each.sandbox !== call.netns) continue;
    if (each.mac !== link.mac) throw pluginError(`interface "${call.ifName}": MAC differs`);
  }
  checkRoutes(call, prevResult);
}

/** As `ValidateExpectedRoute` of the reference plugins, for default routes. @throws CniError */
function checkRoutes({ netns, ifName }: PluginCall, { routes }: JsonObject): void {
  const there = world().kernel.defaultRoutes(netns);
  for (const route of Array.isArray(routes) ? routes.filter(isJsonObject) : []) {
    const { dst, gw = "" } = route;
    if (typeof dst !== "string" || !isDefaultRoute(dst)) continue;
    const way = gw === "" ? new RegExp(`dev ${ifName} `) : new RegExp(`via ${gw} dev `);
    const isThere = there.some(
      (each) => each.includes(":") === dst.includes(":") && way.test(each),
    );
    if (!isThere) throw pluginError(`expected route ${dst} via ${gw} not found`);
  }
}
