import { isJsonObject, type Json, type JsonObject, jsonTypeName } from "#lib/json.ts";
import { parseHardwareAddress } from "#npwg/hardware-address.ts";
import { ifNameProblem } from "#npwg/if-names.ts";
import { nadNameProblem, namespaceProblem } from "#npwg/object-name.ts";
import { foldKeys, type Report, readString } from "./read.ts";
import type { NetworkSelection } from "./selection.ts";
import { describeValue, type SelectionProblem } from "./selection-error.ts";
import { readBandwidth, readGateways, readIps, readPortMappings } from "./values.ts";

/** What parsing one element needs to know, and whom to tell. */
export interface ElementContext {
  /** Counted from 1. */
  readonly position: number;
  /** The namespace of a network that is named without one. */
  readonly namespace: string;
  onProblem(problem: SelectionProblem): void;
  onWarning(warning: SelectionProblem): void;
}

type Fields = Partial<Omit<NetworkSelection, "position">>;
type Reader = (value: Json, report: Report) => Fields;

/** A reader of one key: where the value is read, it becomes the named field. */
function into<K extends keyof Fields>(
  field: K,
  read: (value: Json, report: Report) => Fields[K] | undefined,
): Reader {
  return (value, report) => {
    const result = read(value, report);
    return result === undefined ? {} : ({ [field]: result } as Fields);
  };
}

/** Every key of multi-network specification v1.1 §4.1.2.1, and those that Multus knows besides. */
const readers: Readonly<Record<string, Reader>> = {
  name: into("name", (value, report) => checkedString(value, { report, problem: nadNameProblem })),
  namespace: into("namespace", readNamespace),
  ips: into("ips", readIps),
  mac: into("mac", (value, report) => readMac(value, report)),
  interface: into("ifName", readIfName),
  interfaceRequest: into("ifName", readIfName),
  "cni-args": into("cniArgs", readCniArgs),
  portMappings: into("portMappings", readPortMappings),
  bandwidth: into("bandwidth", readBandwidth),
  "default-route": into("defaultRoute", readGateways),
  "infiniband-guid": into("infinibandGuid", readGuid),
  deviceID: into("deviceId", readNonEmpty),
  "ipam-claim-reference": into("ipamClaimReference", readNonEmpty),
};

/**
 * Reads one element of the JSON list format (§4.1.2.1). Keys without a period are reserved by the
 * specification; unknown ones are passed over, as Multus does, with a warning. Keys with a period
 * are other implementations' own and passed over silently.
 */
export function parseSelectionElement(
  element: Json,
  context: ElementContext,
): NetworkSelection | undefined {
  const { position } = context;
  let failed = false;
  const report =
    (key: string): Report =>
    ({ path = "", value, reason }) => {
      failed = true;
      context.onProblem({ position, key: key + path, value: describeValue(value), reason });
      return undefined;
    };
  if (!isJsonObject(element))
    return report("")({ value: element, reason: `${jsonTypeName(element)}, not an object` });

  const keys = foldKeys(element, {
    known: Object.keys(readers),
    onWarning: ({ key, value, reason }) =>
      context.onWarning({ position, key: describeValue(key), value: describeValue(value), reason }),
  });
  if (keys.has("interface")) keys.delete("interfaceRequest");
  const fields: Fields = {};
  for (const [key, value] of keys) Object.assign(fields, readers[key]?.(value, report(key)));
  if (!keys.has("name")) report("name")({ value: undefined, reason: "is missing" });
  if (failed || fields.name === undefined) return undefined;
  return {
    ...fields,
    namespace: fields.namespace ?? context.namespace,
    name: fields.name,
    position,
  };
}

interface StringCheck {
  readonly report: Report;
  /** Why a string will not do; undefined when it will. */
  readonly problem: (text: string) => string | undefined;
}

function checkedString(value: Json, check: StringCheck): string | undefined {
  const text = readString(value, check.report);
  if (text === undefined) return undefined;
  const reason = check.problem(text);
  return reason === undefined ? text : check.report({ value, reason });
}

/** Empty means the pod's own (§4.1.2.1.1). */
function readNamespace(value: Json, report: Report): string | undefined {
  return value === "" ? undefined : checkedString(value, { report, problem: namespaceProblem });
}

function readIfName(value: Json, report: Report): string | undefined {
  return checkedString(value, { report, problem: ifNameProblem });
}

function readNonEmpty(value: Json, report: Report): string | undefined {
  return checkedString(value, {
    report,
    problem: (text) => (text === "" ? "is empty" : undefined),
  });
}

/** An Ethernet address, or one of IP over InfiniBand (§4.1.2.1.4). */
function readMac(value: Json, report: Report): string | undefined {
  const text = readString(value, report);
  if (text === undefined) return undefined;
  return (
    parseHardwareAddress(text, [6, 20]) ??
    report({ value, reason: "not a 6-byte or 20-byte hardware address" })
  );
}

function readGuid(value: Json, report: Report): string | undefined {
  const text = readString(value, report);
  if (text === undefined) return undefined;
  return (
    parseHardwareAddress(text, [8]) ?? report({ value, reason: "not an 8-byte InfiniBand GUID" })
  );
}

function readCniArgs(value: Json, report: Report): JsonObject | undefined {
  return isJsonObject(value)
    ? value
    : report({ value, reason: `${jsonTypeName(value)}, not an object` });
}
