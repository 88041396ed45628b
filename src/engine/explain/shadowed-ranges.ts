import { parseResult } from "#cni/result/parse.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { clusterRanges, clusterRoutesAnnotation, podRanges } from "#engine/cluster-ranges.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { addressBits, type Cidr, contains, formatCidr, parseCidr } from "#lib/ip.ts";
import { objectsOf } from "#lib/json.ts";

/**
 * The cluster's ranges that a pod reaches, wholly or in part, by another network than its default
 * one; by interface. None while they are not known, and for a pod that wants it so.
 */
export async function shadowedRanges(
  ctx: CallContext,
  pod: Pod,
  { attachments, clusterRoutes = [] }: AttachmentRecord,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const [first, ...others] = attachments.filter(({ state }) => state === "attached");
  if (first === undefined || pod.annotations[clusterRoutesAnnotation] === "none") return new Map();
  const read = async () => clusterRanges(ctx, podRanges(ctx.config, pod));
  const all = await read().catch(() => []);
  // Many networks have the LAN of the node, whose own address is not their concern.
  const ranges = all.filter(isNetwork);
  const kept = [...routesOf(first), ...clusterRoutes.map(parseCidr)];
  const isShadowed = (range: Cidr, route: Cidr): boolean =>
    (contains(route, range) || contains(range, route)) &&
    !kept.some((each) => each.prefix > route.prefix && contains(each, range));
  return new Map(
    others.map((each) => {
      const routes = routesOf(each);
      const found = ranges.filter((range) => routes.some((route) => isShadowed(range, route)));
      return [each.ifName, found.map(formatCidr)];
    }),
  );
}

/** The destinations of an attachment's routes in the main table; `sbr` moves them to another one. */
function routesOf({ conf, result }: RecordedAttachment): Cidr[] {
  if (objectsOf(conf.plugins).some(({ type }) => type === "sbr")) return [];
  const { ips, routes } = parseResult(result, { fallbackVersion: "" });
  const links = ips.map(({ address }) => parseCidr(address));
  return [
    ...links.filter(isNetwork),
    ...routes.filter(({ table = 0 }) => [0, 254].includes(table)).map(({ dst }) => parseCidr(dst)),
  ];
}

function isNetwork({ prefix, family }: Cidr): boolean {
  return prefix < addressBits[family];
}
