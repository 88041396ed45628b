import { type NetConfList, toJson } from "#cni/conf/conf.ts";
import { conventionalKey } from "#cni/conf/plugin-conf.ts";
import { CniError } from "#cni/error.ts";
import { foldKey, isJsonObject, type Json, quoteValue } from "#lib/json.ts";
import { keysOf } from "#lib/parsing/json-text.ts";

/** What definitions of a namespace may contain. */
export interface AttachmentPolicy {
  /** How messages name the rule. */
  readonly rule: string;
  /** The types of plugins, IPAM plugins included. */
  readonly plugins: readonly string[];
}

/** The plugins of `restricted`: not `ptp`, which gives the node routes to any addresses. */
export const restrictedPlugins = [
  ...["bandwidth", "bridge", "dhcp", "dummy", "host-local", "ipvlan", "macvlan", "sbr", "static"],
  ...["tuning", "vlan", "vrf", "whereabouts"],
];

/** They take a device from the node, or give it an address or rules. */
const nodeKeys = [
  ...["device", "deviceID", "hwaddr", "kernelpath", "pciBusID"],
  ...["forceAddress", "ipMasq", "isDefaultGateway", "isGateway"],
];
const spellings = new Map([...nodeKeys, "mode", "sysctl"].map((key) => [foldKey(key), key]));

function properKey(key: string): string {
  return conventionalKey(key) ?? spellings.get(foldKey(key)) ?? key;
}

const maxProblems = 5;

/**
 * Checks the configuration of a definition, which the pod's arguments are part of, by a policy.
 * @param text `spec.config`
 * @throws CniError 101 naming the rule and the fields
 */
export function checkAttachmentPolicy(
  list: NetConfList,
  text: string,
  { rule, plugins }: AttachmentPolicy,
): void {
  const members = [...membersIn(toJson(list))];
  const problems = [
    ...keyProblems(text),
    ...members.flatMap((each) => [...problemsOf(each, plugins)]),
  ];
  if (problems.length === 0) return;
  const named = [...new Set(problems)].slice(0, maxProblems).join("; ");
  throw new CniError("DefinitionNotAllowed", `${rule} does not permit this definition: ${named}`);
}

/** Plugins in Go read keys in any case, and the last of several: what a reader sees may have no effect. */
function* keyProblems(text: string): Generator<string> {
  for (const { key, isRepeated } of keysOf(text)) {
    const proper = properKey(key);
    if (isRepeated) yield `the key ${quoteValue(key)} occurs twice in an object`;
    else if (key !== proper) yield `the key ${quoteValue(key)} must be spelled "${proper}"`;
  }
}

interface Member {
  /** Where it stands: `plugins[0].ipam.type`. */
  readonly path: string;
  /** As it is properly spelled; empty in an array. */
  readonly key: string;
  readonly value: Json;
}

/** Everything in a value, at any depth. */
function* membersIn(value: Json, path = ""): Generator<Member> {
  if (!Array.isArray(value) && !isJsonObject(value)) return;
  for (const [key, member] of Object.entries(value)) {
    const named = path === "" ? key : `${path}.${key}`;
    const at = Array.isArray(value) ? `${path}[${key}]` : named;
    yield { path: at, key: Array.isArray(value) ? "" : properKey(key), value: member };
    yield* membersIn(member, at);
  }
}

function* problemsOf({ path, key, value }: Member, plugins: readonly Json[]): Generator<string> {
  if (key === "type" && !plugins.includes(value))
    yield `${path}: ${quoteValue(value)} is not one of ${plugins.join(", ")}`;
  if (key === "sysctl") yield* sysctlProblems(value, path);
  const isSet = value !== false && value !== null && value !== "";
  if (nodeKeys.includes(key) && isSet) yield `${path} takes a device of the node or changes it`;
  if (key === "mode" && value === "passthru") yield `${path}: "passthru" takes a link of the node`;
  if (typeof value === "string" && isHostPath(value))
    yield `${path}: ${quoteValue(value)} is a path on the node`;
}

/** Only sysctls below `net` belong to the pod's network namespace. */
function* sysctlProblems(sysctls: Json, path: string): Generator<string> {
  for (const name of Object.keys(isJsonObject(sysctls) ? sysctls : {}))
    if (!/^net[./]/.test(name) || name.includes(".."))
      yield `${path}: ${quoteValue(name)} is not below net`;
}

function isHostPath(text: string): boolean {
  return /^\s*(?:\.{0,2}\/|~|unix:|file:)|(?:^|\/)\.\.(?:\/|$)/i.test(text);
}
