import { ifNameProblem } from "#cni/names.ts";
import { didYouMean } from "#lib/did-you-mean.ts";
import { dnsLabelProblem, dnsSubdomainProblem } from "#lib/dns-name.ts";
import { isJsonObject, type Json, type JsonObject, quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type FieldProblem, withValue } from "#lib/parsing/document-error.ts";
import { FieldReader } from "#lib/parsing/field-reader.ts";
import type { NetworkSelection } from "./network-selection.ts";
import {
  bandwidthKeys,
  readBandwidth,
  readGateways,
  readHardwareAddress,
  readIfGiven,
  readIps,
  readPortMappings,
} from "./values.ts";

/** The context of an element, which collects its problems and warnings. */
export interface ElementContext {
  /** Counted from 1. */
  readonly position: number;
  /** The namespace of networks without one. */
  readonly namespace: string;
  /** What makes the element invalid; callers must not use such an element. */
  readonly problems: FieldProblem[];
  onWarning(key: string, reason: string, isUnknownKey: boolean): void;
}

/** An Ethernet address, or one of IP over InfiniBand (§4.1.2.1.4); EUI-64 is Multus' addition. */
const macLengths = { bytes: [6, 8, 20], name: "a 6-byte, 8-byte or 20-byte hardware address" };
const guidLengths = { bytes: [8], name: "an 8-byte InfiniBand GUID" };

/** Plexus's keys, in the reverse-DNS form that §4.1.2.1 reserves for implementations. */
const resourceClaimKey = "dev.plexus.resourceClaim";

/**
 * All keys of multi-network specification v1.1 §4.1.2.1, of Multus and of Plexus, each with the value
 * that requests nothing: Go's clients write it for unset fields, and Multus ignores it, as it
 * ignores null. An empty `default-route` is a request.
 */
const knownKeys: Readonly<Record<string, string | undefined>> = {
  name: undefined,
  namespace: '""',
  ips: "[]",
  mac: '""',
  interface: '""',
  interfaceRequest: '""',
  "cni-args": "{}",
  portMappings: "[]",
  bandwidth: "{}",
  "default-route": undefined,
  "infiniband-guid": '""',
  deviceID: '""',
  "ipam-claim-reference": '""',
  [resourceClaimKey]: "{}",
};

/** The keys of objects inside of an element. A wrong one requests nothing, and must not do so silently. */
const keysInside: Readonly<Record<string, readonly string[]>> = {
  bandwidth: bandwidthKeys,
  portMappings: ["hostPort", "containerPort", "protocol", "hostIP"],
};

/**
 * Reads an element of the JSON list format (§4.1.2.1). The specification reserves keys without a
 * period; unknown ones are ignored with a warning, as in Multus. Unknown keys with a period belong
 * to other implementations and are ignored.
 */
export function parseSelectionElement(
  element: Json,
  context: ElementContext,
): NetworkSelection | undefined {
  const { problems, position } = context;
  if (!isJsonObject(element)) {
    problems.push({ path: "", reason: withValue("must be an object", element) });
    return undefined;
  }
  const known = withKnownKeys(element, context);
  for (const key of Object.keys(keysInside)) checkInside(context, key, known[key]);
  const fields = new FieldReader(known, { path: "", problems, foldCase: true });
  const ifNameKey = fields.has("interface") ? "interface" : "interfaceRequest";
  return omitUndefined({
    namespace: fields.checked("namespace", dnsLabelProblem) ?? context.namespace,
    name: fields.requiredChecked("name", nameProblem),
    ifName: fields.checked(ifNameKey, ifNameProblem),
    ips: readIps(fields),
    mac: readHardwareAddress(fields, "mac", macLengths),
    infinibandGuid: readHardwareAddress(fields, "infiniband-guid", guidLengths),
    portMappings: readPortMappings(fields),
    bandwidth: readBandwidth(fields),
    cniArgs: fields.object("cni-args")?.raw,
    defaultRoute: readGateways(fields),
    deviceId: fields.string("deviceID"),
    resourceClaim: readClaimSelection(fields),
    ipamClaimReference: fields.string("ipam-claim-reference"),
    position,
  });
}

/** In this format, the parts of the short one, `namespace/name@interface`, have their own keys. */
function nameProblem(name: string): string | undefined {
  const problem = dnsSubdomainProblem(name);
  if (name.includes("/")) return `${problem}; the namespace has the key "namespace"`;
  return name.includes("@") ? `${problem}; the interface has the key "interface"` : problem;
}

function readClaimSelection(fields: FieldReader): NetworkSelection["resourceClaim"] {
  const selection = fields.object(resourceClaimKey);
  if (selection === undefined) return undefined;
  selection.refuseOthers(["claim", "request"]);
  return omitUndefined({
    claim: selection.requiredChecked("claim", dnsLabelProblem),
    request: readIfGiven(selection, "request", dnsLabelProblem),
  });
}

/**
 * The known keys that request something, in the specification's spelling. As in Go, case does not
 * matter: another spelling is read with a warning, and the exact one wins.
 */
function withKnownKeys(element: JsonObject, context: ElementContext): JsonObject {
  const found = new Map<string, Json>();
  for (const [written, value] of Object.entries(element)) {
    const key = Object.keys(knownKeys).find((name) => name.toLowerCase() === written.toLowerCase());
    const warn = (reason: string): void =>
      context.onWarning(written, `${reason}, its value being ${quoteValue(value)}`, false);
    if (key === undefined) {
      if (!written.includes("."))
        context.onWarning(written, unknownKey(written, value, Object.keys(knownKeys)), true);
    } else if (key === written) found.set(key, value);
    else if (Object.hasOwn(element, key)) warn(`ignored in favor of "${key}"`);
    else {
      warn(`read as "${key}"`);
      found.set(key, value);
    }
  }
  return Object.fromEntries([...found].filter(asksForSomething));
}

/** Warns of unknown keys of what is inside of an element: an object, or the objects of an array. */
function checkInside(context: ElementContext, key: string, value: Json = {}): void {
  const keys = keysInside[key] ?? [];
  const isKnown = (name: string): boolean =>
    keys.some((each) => each.toLowerCase() === name.toLowerCase());
  for (const [index, object] of [value].flat().entries()) {
    const inside = Array.isArray(value) ? `${key}[${index}].` : `${key}.`;
    for (const [name, each] of Object.entries(isJsonObject(object) ? object : {}))
      if (!isKnown(name)) context.onWarning(`${inside}${name}`, unknownKey(name, each, keys), true);
  }
}

function unknownKey(name: string, value: Json, keys: readonly string[]): string {
  return `unknown key, ignored, its value being ${quoteValue(value)}${didYouMean(name, keys)}`;
}

function asksForSomething([key, value]: readonly [string, Json]): boolean {
  return value !== null && knownKeys[key] !== JSON.stringify(value);
}
