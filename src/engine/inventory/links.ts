import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import { sandboxLinks } from "#engine/call/sandbox.ts";
import type { PlannedAttachment } from "#engine/plan/planned-attachment.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import { didYouMean } from "#lib/did-you-mean.ts";
import { isJsonObject, type JsonObject, quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** A network that may need links of the node. */
type Network = Pick<PlannedAttachment, "displayName" | "list" | "requiredLinks" | "resourceName">;

/** A link that a network needs. */
export interface NeededLink {
  /** As the definition names it: a name or an alternative name. */
  readonly name: string;
  /** The link's own name; absent if the node does not have it. */
  readonly link?: string;
}

/** The network namespace of the process that asks the kernel: of plexusd and the shim, the node's. */
const ownNetns = "/proc/self/ns/net";

/** The names of a node's links, by each name and alternative name. */
type NodeLinks = ReadonlyMap<string, string>;

/** 1 for a link of a pod, as usual plugins name it; else 0. */
const isOfPod = ({ name }: { readonly name: string }): number =>
  Number(/^(?:veth|cali|lxc)/.test(name));

/** Links of pods come last, because only the first ones are compared with a wrong name. @throws CniError 5 */
export async function nodeLinks(ctx: CallContext): Promise<NodeLinks> {
  const links = await sandboxLinks(ctx, ownNetns);
  const sorted = links.toSorted((a, b) => isOfPod(a) - isOfPod(b));
  return new Map(
    sorted.flatMap(({ name, altNames = [] }) => [name, ...altNames].map((each) => [each, name])),
  );
}

/** Of one definition, so that none delays the others. */
const maxLinks = 32;
/** One more than names of links have at most. */
const maxNameLength = 128;

/** Plugins whose needs are known: a link of the node, with the key that names it, or nothing. */
const linkKeys: Readonly<Record<string, string | undefined>> = {
  ...{ macvlan: "master", ipvlan: "master", vlan: "master" },
  ...{ bridge: "bridge", "cnv-bridge": "bridge", ptp: undefined, dummy: undefined },
};

/**
 * Whether it is known what a network needs of the node: by its first plugin, or its definition. Those
 * who know its devices tell the scheduler.
 */
export function areNeedsKnown({ list, requiredLinks, resourceName }: Network): boolean {
  const isKnown = Object.hasOwn(linkKeys, list.plugins[0]?.type ?? "");
  return resourceName === undefined && (isKnown || requiredLinks !== undefined);
}

/** The links that a network needs on the node: those that its definition lists, or of its first plugin. */
export function neededLinks({ list, requiredLinks }: Network, links: NodeLinks): NeededLink[] {
  const names = requiredLinks?.split(",").map((name) => name.trim()) ?? linksOf(list.plugins[0]);
  const asked = [...new Set(names)].filter(Boolean).slice(0, maxLinks);
  return asked.map((given) => {
    const name = given.slice(0, maxNameLength);
    return omitUndefined({ name, link: links.get(name) });
  });
}

function linksOf(plugin: PluginConf | undefined): string[] {
  const key = linkKeys[plugin?.type ?? ""];
  if (plugin === undefined || key === undefined) return [];
  const { raw } = plugin;
  const isElsewhere = key === "master" ? raw.linkInContainer === true : isOfUseAlone(raw);
  const name = raw[key];
  return typeof name === "string" && !isElsewhere ? [name] : [];
}

/** Whether a bridge that its plugin makes, without uplink, is of use: a node's own network. */
function isOfUseAlone({ isGateway, isDefaultGateway, ipMasq, ipam }: JsonObject): boolean {
  const isNodes = isJsonObject(ipam) && ipam.type === "host-local";
  return isNodes || [isGateway, isDefaultGateway, ipMasq].includes(true);
}

/** What a network lacks on a node with these links. */
export function linkProblems(network: Network, links: NodeLinks): PlanProblem[] {
  const { displayName, list } = network;
  // Other plugins make the link: a bridge without uplink.
  const isTolerated = linkKeys[list.plugins[0]?.type ?? ""] !== "master";
  const missing = neededLinks(network, links).filter(({ link }) => link === undefined);
  return missing.map(({ name }, i) => {
    const meant = i === 0 ? didYouMean(name, [...links.keys()]) : "";
    const text = `the node has no link ${quoteValue(name)}, also not as an alternative name`;
    const error = new CniError("MasterMissing", `${text}${meant}`).of(displayName);
    return { network: displayName, error, isTolerated };
  });
}
