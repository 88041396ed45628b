import { type NetConfList, toJson } from "#cni/conf/conf.ts";
import { conventionalKey } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import {
  isJsonObject,
  type Json,
  type JsonObject,
  membersOf,
  objectOf,
  quoteValue,
} from "#lib/json.ts";
import { shortened } from "#lib/one-line.ts";
import { keysIn } from "#lib/parsing/json-text.ts";

/** What definitions of a namespace may contain. */
export interface AttachmentPolicy {
  /** How messages name the rule. */
  readonly rule: string;
  /** The types of plugins, IPAM plugins included. */
  readonly plugins: readonly string[];
}

/**
 * The plugins of `restricted`. `bridge` joins the cluster's bridge, `ipvlan` can take the node's
 * address, `ptp` gives the node routes to any addresses.
 */
export const restrictedPlugins = [
  ...["bandwidth", "dhcp", "dummy", "host-local", "macvlan", "sbr", "static", "tuning", "vlan"],
  ...["vrf", "whereabouts"],
];

const ofCni = "args capabilities cniVersion dns ipam name type";

/**
 * Of known plugins, the keys that change only the pod. Not among them: files (a path may be any
 * text, as `etc`), sockets, times that hold a cluster's lock, and what changes the node.
 */
const keysOfPlugins = new Map(
  Object.entries({
    bandwidth: "egressBurst egressRate ingressBurst ingressRate shapedSubnets unshapedSubnets",
    bridge:
      "bridge disableContainerInterface enabledad macspoofchk portIsolation preserveDefaultVlan vlan vlanTrunk",
    dhcp: "priority provide request",
    dummy: "",
    "host-local": "gateway rangeEnd rangeStart ranges routes subnet",
    ipvlan: "linkInContainer master mode mtu",
    macvlan: "linkInContainer mac master mode mtu",
    sbr: "table",
    static: "addresses routes",
    tuning: "allmulti mac mtu promisc sysctl txQLen",
    vlan: "linkInContainer master mtu vlanId",
    vrf: "table vrfname",
    whereabouts:
      "addresses enable_overlapping_ranges exclude gateway ipRanges log_level network_name node_slice_size omitRange range range_end range_start routes",
  }).map(([type, keys]) => [type, new Set([...ofCni.split(" "), ...keys.split(" ")])]),
);

const maxProblems = 5;

/**
 * Checks the configuration of a definition, which the pod's arguments are part of, by a policy.
 * @param list what plugins get of it
 * @throws CniError 101 naming the rule and the first fields
 */
export function checkAttachmentPolicy(
  list: NetConfList,
  definition: { readonly config?: string },
  { rule, plugins }: AttachmentPolicy,
): void {
  const found = [...keyProblems(definition)];
  for (const problem of problemsIn(toJson(list), "", plugins)) {
    if (found.length === maxProblems) break;
    found.push(shortened(problem, 300));
  }
  if (found.length === 0) return;
  const message = `${rule} does not permit this definition: ${found.join("; ")}`;
  throw new CniError("DefinitionNotAllowed", message);
}

/** Of cached definitions, which pods name often. */
const keyProblemsOf = new WeakMap<object, readonly string[]>();

/** Plugins in Go read keys in any case, and the last of several: what a reader sees may have no effect. */
function keyProblems(definition: { readonly config?: string }): readonly string[] {
  const known = keyProblemsOf.get(definition);
  if (known !== undefined) return known;
  const problems: string[] = [];
  for (const { key, isRepeated } of keysIn(definition.config ?? "")) {
    if (problems.length === maxProblems) break;
    const proper = conventionalKey(key) ?? key;
    if (isRepeated) problems.push(`the key ${quoteValue(key)} occurs twice in an object`);
    else if (key !== proper)
      problems.push(`the key ${quoteValue(key)} must be spelled "${proper}"`);
  }
  keyProblemsOf.set(definition, problems);
  return problems;
}

/** Lazy, because a definition can have tens of thousands. */
function* problemsIn(value: Json, path: string, plugins: readonly Json[]): Generator<string> {
  if (isJsonObject(value)) yield* problemsOf(value, path === "" ? "" : `${path}.`, plugins);
  for (const [key, member] of Object.entries(value ?? {}) as [string, Json][])
    if (typeof member === "object") yield* problemsIn(member, memberPath(path, key), plugins);
}

/** `plugins[0].ipam` */
function memberPath(path: string, key: string): string {
  if (/^\d+$/.test(key)) return `${path}[${key}]`;
  return path === "" ? key : `${path}.${key}`;
}

/** The problems of an object's own members. */
function* problemsOf(
  object: JsonObject,
  prefix: string,
  plugins: readonly Json[],
): Generator<string> {
  const { type = "", mode } = object;
  if (type !== "" && !plugins.includes(type))
    yield `${prefix}type: ${quoteValue(type)} is not one of ${plugins.join(", ")}`;
  const permitted = keysOfPlugins.get(String(type));
  for (const key of permitted === undefined ? [] : Object.keys(object))
    if (permitted?.has(key) === false)
      yield `${prefix}${key}: only a trusted definition may give ${String(type)} this key`;
  if (mode === "passthru") yield `${prefix}mode: "passthru" takes a link of the node`;
  for (const name of membersOf(object, "sysctl").flatMap((each) => Object.keys(objectOf(each))))
    if (!/^net[./]/.test(name) || name.includes(".."))
      yield `${prefix}sysctl: ${quoteValue(name)} is not below net`;
}
