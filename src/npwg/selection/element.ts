import { dnsLabelProblem, dnsSubdomainProblem } from "#lib/dns-name.ts";
import { type Problems, withValue } from "#lib/document-error.ts";
import { FieldReader } from "#lib/field-reader.ts";
import { isJsonObject, type Json, type JsonObject, quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { ifNameProblem } from "#npwg/if-names.ts";
import type { NetworkSelection } from "./network-selection.ts";
import {
  readBandwidth,
  readGateways,
  readGuid,
  readIps,
  readMac,
  readPortMappings,
} from "./values.ts";

/** What parsing one element needs to know, and where its problems and warnings go. */
export interface ElementContext {
  /** Counted from 1. */
  readonly position: number;
  /** The namespace of a network that is named without one. */
  readonly namespace: string;
  /** What makes the element invalid; its caller must not use an element that has any. */
  readonly problems: Problems;
  onWarning(key: string, reason: string): void;
}

/** Plexus's own, in the reverse-DNS form that §4.1.2.1 keeps for implementations. */
const resourceClaimKey = "dev.plexus.resourceClaim";

/** Every key of multi-network specification v1.1 §4.1.2.1, those that Multus knows besides, and our own. */
const knownKeys = [
  "name",
  "namespace",
  "ips",
  "mac",
  "interface",
  "interfaceRequest",
  "cni-args",
  "portMappings",
  "bandwidth",
  "default-route",
  "infiniband-guid",
  "deviceID",
  "ipam-claim-reference",
  resourceClaimKey,
];

/**
 * What each key holds when it asks for nothing: Go's clients write it for a value that is not set, and
 * Multus passes over it. So is null, of any key. An empty `default-route` does ask for something.
 */
const emptyValues: Readonly<Record<string, string>> = {
  namespace: '""',
  ips: "[]",
  mac: '""',
  interface: '""',
  interfaceRequest: '""',
  portMappings: "[]",
  bandwidth: "{}",
  "infiniband-guid": '""',
  deviceID: '""',
  "ipam-claim-reference": '""',
  [resourceClaimKey]: "{}",
};

/**
 * Reads one element of the JSON list format (§4.1.2.1). What is wrong goes to the context's
 * problems. Keys without a period are reserved by the specification; unknown ones are passed over,
 * as Multus does, with a warning. Keys with a period are other implementations' own and passed over
 * silently.
 */
export function parseSelectionElement(
  element: Json,
  context: ElementContext,
): NetworkSelection | undefined {
  const { problems, position } = context;
  if (!isJsonObject(element)) {
    problems.add("", withValue("must be an object", element));
    return undefined;
  }
  const known = withKnownKeys(element, context);
  const fields = new FieldReader(known, { path: "", problems, foldCase: true });
  const ifNameKey = fields.has("interface") ? "interface" : "interfaceRequest";
  return omitUndefined({
    namespace: fields.checked("namespace", dnsLabelProblem) ?? context.namespace,
    name: fields.requiredChecked("name", dnsSubdomainProblem),
    ifName: fields.checked(ifNameKey, ifNameProblem),
    ips: readIps(fields),
    mac: readMac(fields),
    infinibandGuid: readGuid(fields),
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

function readClaimSelection(fields: FieldReader): NetworkSelection["resourceClaim"] {
  const selection = fields.object(resourceClaimKey);
  if (selection === undefined) return undefined;
  selection.refuseOthers(["claim", "request"]);
  return omitUndefined({
    claim: selection.requiredChecked("claim", dnsLabelProblem),
    request: selection.checked("request", dnsLabelProblem),
  });
}

/**
 * The known keys of an element that ask for something, as the specification spells them. Go's decoder, and so Multus, reads
 * keys in any case; where a key is not written exactly, it is still read, with a warning, rather than
 * losing what the pod asked for. An exact key wins over others.
 */
function withKnownKeys(element: JsonObject, context: ElementContext): JsonObject {
  const found = new Map<string, Json>();
  for (const [written, value] of Object.entries(element)) {
    const key = knownKeys.find((name) => name.toLowerCase() === written.toLowerCase());
    const warn = (reason: string): void =>
      context.onWarning(written, `${reason}, its value being ${quoteValue(value)}`);
    if (key === undefined) {
      if (!written.includes(".")) warn("unknown key, passed over");
    } else if (key === written) found.set(key, value);
    else if (Object.hasOwn(element, key)) warn(`passed over for "${key}"`);
    else {
      warn(`read as "${key}"`);
      found.set(key, value);
    }
  }
  return Object.fromEntries([...found].filter(([key, value]) => !asksForNothing(key, value)));
}

function asksForNothing(key: string, value: Json): boolean {
  return value === null || emptyValues[key] === JSON.stringify(value);
}
