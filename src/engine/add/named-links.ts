import type { NetConfList } from "#cni/conf/conf.ts";
import { DelegateError } from "#cni/runtime/delegate-error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { linkProblems, nodeLinks } from "#engine/inventory/links.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import { didYouMean } from "#lib/did-you-mean.ts";
import { isJsonObject, type JsonObject, quoteValue } from "#lib/json.ts";

/** The kernel's words and those of the netlink library, which do not name the link. */
const missingLink = /link not found|no such network interface|no such device/i;

/** Keys of plugins with the name of an existing link. */
const linkKeys = ["master", "device", "bridge"];
/** A definition may name thousands. */
const namedMax = 8;

/**
 * Adds the links that the plugin's configuration names to the error of a plugin that misses one, and
 * those of the node with a similar name.
 */
export async function namingLinks(
  ctx: CallContext,
  error: unknown,
  { plugins }: NetConfList,
): Promise<unknown> {
  if (!(error instanceof DelegateError) || error.reason !== undefined) return error;
  const { message, text, pluginType } = error;
  if (!missingLink.test(text)) return error;
  const missing = plugins
    .filter(({ type }) => type === pluginType)
    .flatMap(({ raw }) => linksOf(raw, text))
    .slice(0, namedMax);
  if (missing.length === 0) return error;
  const isOnNode = missing.some(({ where }) => where === "");
  const links = isOnNode ? await nodeLinks(ctx).catch(() => undefined) : undefined;
  const known = [...(links?.keys() ?? [])];
  const named = missing.map(({ key, name, where }) => {
    const isSimilar = where === "" && !known.includes(name);
    return `${key} ${quoteValue(name)}${where}${isSimilar ? didYouMean(name, known) : ""}`;
  });
  return error.withMessage(`${message} (the configuration names ${named.join(", ")})`);
}

/** What networks lack on the node for certain. Nothing if its links cannot be listed: plugins then say it. */
export async function missingLinks(ctx: CallContext, networks: readonly PlannedAttachment[]) {
  const links = await nodeLinks(ctx).catch(() => undefined);
  const problems = networks.flatMap((each) => (links ? linkProblems(each, links) : []));
  return problems.filter(({ isTolerated }) => isTolerated !== true);
}

/** The links of a plugin's configuration that a text does not name. */
function linksOf(raw: JsonObject, text: string) {
  const bonded = [raw.links].flat().filter(isJsonObject);
  const named = [
    ...linkKeys.map((key) => [key, raw[key]] as const),
    ...bonded.map(({ name }) => ["link", name] as const),
  ];
  const isInPod = [raw.linkInContainer, raw.linksInContainer].includes(true);
  const where = isInPod ? " in the pod" : "";
  return named.flatMap(([key, name]) =>
    typeof name !== "string" || text.includes(name) ? [] : { key, name, where },
  );
}
