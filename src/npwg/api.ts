import { parseNetConfList } from "#cni/conf/conf.ts";
import { readDocument, readJsonObject } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { parseResult as parseCniResult } from "#cni/result/parse.ts";
import { isJsonObject, quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { JsonTextError, parseJsonText } from "#lib/parsing/json-text.ts";
import { parseNad } from "./nad.ts";
import {
  networkStatusAnnotation,
  networksAnnotation,
  parseNetworkSelections,
  resourceNameAnnotation,
} from "./selection/selection.ts";
import { SelectionError } from "./selection/selection-error.ts";

/*
 * What the package @plexus/npwg exports: the formats of the multi-network standard v1.1, and those of
 * CNI in them, for programs in Node and in browsers. It promises what it has by its version, so its
 * types are not the engine's.
 */

/** Where the formats are found. */
export const annotations = {
  /** On pods: the additional networks. */
  networks: networksAnnotation as "k8s.v1.cni.cncf.io/networks",
  /** On pods, written by the implementation: what is attached. */
  networkStatus: networkStatusAnnotation as "k8s.v1.cni.cncf.io/network-status",
  /** On definitions: the device plugin's resource of their networks. */
  resourceName: resourceNameAnnotation as "k8s.v1.cni.cncf.io/resourceName",
} as const;

/** JSON's values. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** JSON's objects. */
export interface JsonRecord {
  readonly [key: string]: JsonValue;
}

/** What is wrong with a document. */
export interface Problem {
  /** The element of the annotation, from 1; 0 for the document as a whole. */
  readonly element: number;
  /** For example `mac` or `portMappings[0].hostPort`; empty for the whole element. */
  readonly key: string;
  readonly reason: string;
}

/** A document that is not as the standard wants it. Its message has all problems. */
export class FormatError extends Error {
  override readonly name = "FormatError";
  readonly problems: readonly Problem[];

  constructor(message: string, problems: readonly Problem[]) {
    super(message);
    this.problems = problems;
  }
}

/** A network that a pod asks for, with the standard's keys (section 4.1.2.1). */
export interface NetworkSelectionElement {
  readonly name: string;
  readonly namespace: string;
  readonly interface?: string;
  readonly ips?: readonly string[];
  /** In lower case, with colons. */
  readonly mac?: string;
  readonly "infiniband-guid"?: string;
  readonly portMappings?: readonly {
    readonly hostPort: number;
    readonly containerPort: number;
    readonly protocol: "tcp" | "udp" | "sctp";
    readonly hostIP?: string;
  }[];
  /** Bits per second, and bits. */
  readonly bandwidth?: {
    readonly ingressRate?: number;
    readonly ingressBurst?: number;
    readonly egressRate?: number;
    readonly egressBurst?: number;
  };
  readonly "cni-args"?: JsonRecord;
  readonly "default-route"?: readonly string[];
  readonly deviceID?: string;
  readonly "ipam-claim-reference"?: string;
  /** Plexus's: the device of a claim of the pod. */
  readonly "dev.plexus.resourceClaim"?: { readonly claim: string; readonly request?: string };
}

/**
 * Reads the annotation of a pod in either format: a list of names, or of JSON objects.
 * @param options.namespace the pod's, for networks without one
 * @param options.onWarning takes what is ignored, such as unknown keys, a line each
 * @throws FormatError with all problems; each makes the whole annotation invalid
 */
export function parseNetworks(
  annotation: string,
  options: { readonly namespace: string; readonly onWarning?: (warning: string) => void },
): NetworkSelectionElement[] {
  requireText("parseNetworks", { annotation, "options.namespace": options?.namespace });
  const { namespace, onWarning } = options;
  const reading = { podNamespace: namespace, onWarning };
  return checked(() => parseNetworkSelections(annotation, reading)).map((selection) => {
    const { ifName, infinibandGuid, cniArgs, defaultRoute, deviceId, ...rest } = selection;
    const { position: _, resourceClaim, ipamClaimReference, ...same } = rest;
    return omitUndefined({
      ...same,
      interface: ifName,
      "infiniband-guid": infinibandGuid,
      "cni-args": cniArgs as JsonRecord | undefined,
      "default-route": defaultRoute,
      deviceID: deviceId,
      "ipam-claim-reference": ipamClaimReference,
      "dev.plexus.resourceClaim": resourceClaim,
    });
  });
}

/** Writes an annotation that {@link parseNetworks} reads as these networks. @throws FormatError */
export function formatNetworks(networks: readonly NetworkSelectionElement[]): string {
  const annotation = JSON.stringify(networks) as string | undefined;
  if (annotation === undefined) throw new TypeError("formatNetworks: networks is missing");
  parseNetworks(annotation, { namespace: "default" });
  return annotation;
}

/** An interface that a pod has (section 5.3), as Plexus and Multus write it. */
export interface NetworkStatusElement {
  /** `namespace/name` of the definition, or the name of the network. */
  readonly name: string;
  readonly interface?: string;
  readonly ips: readonly string[];
  readonly mac?: string;
  readonly mtu?: number;
  readonly default: boolean;
  readonly dns: JsonRecord;
  readonly gateway: readonly string[];
  readonly "device-info"?: JsonRecord;
}

/** Reads the status of a pod; what it leaves out is empty. @throws FormatError */
export function parseNetworkStatus(annotation: string): NetworkStatusElement[] {
  requireText("parseNetworkStatus", { annotation });
  return checked(() => {
    const subject = "cannot read the network status";
    const list = annotation.trim() === "" ? [] : parseJsonText(annotation);
    const elements = { elements: list };
    return readDocument(elements, { subject, reason: "DecodingFailure" }, (document) =>
      document.objects("elements").map((fields) =>
        omitUndefined({
          name: fields.required("name"),
          interface: fields.string("interface"),
          ips: fields.strings("ips"),
          mac: fields.string("mac"),
          mtu: fields.integer("mtu"),
          default: fields.value("default") === true,
          dns: (fields.object("dns")?.raw ?? {}) as JsonRecord,
          gateway: fields.strings("gateway"),
          "device-info": fields.object("device-info")?.raw as JsonRecord | undefined,
        }),
      ),
    );
  });
}

/** A network's configuration: CNI 1.1.0, section 1. */
export interface NetworkConfiguration {
  readonly name: string;
  readonly cniVersion: string;
  readonly plugins: readonly ({ readonly type: string } & JsonRecord)[];
}

/**
 * Reads a network's configuration. A single plugin's is a list of one.
 * @param options.name its name if it has none
 * @throws FormatError
 */
export function parseNetworkConfiguration(
  config: unknown,
  options: { readonly name?: string } = {},
): NetworkConfiguration {
  return checked(() => {
    const list = parseNetConfList(config, { source: "the configuration", ...options });
    const plugins = list.plugins.map(({ raw, type }) => ({ ...(raw as JsonRecord), type }));
    return { name: list.name, cniVersion: list.cniVersion, plugins };
  });
}

/** A NetworkAttachmentDefinition (section 3). */
export interface Definition {
  readonly namespace: string;
  readonly name: string;
  readonly resourceName?: string;
  /** Absent where the definition has none: the node's files then have a network of its name. */
  readonly configuration?: NetworkConfiguration;
}

/** Reads a definition, as a manifest or as the API server has it. @throws FormatError */
export function parseDefinition(object: unknown): Definition {
  const { metadata } = isJsonObject(object) ? object : {};
  const isManifest = !isJsonObject(metadata) || metadata.resourceVersion === undefined;
  const {
    config,
    annotations: own,
    namespace,
    name,
  } = checked(() => parseNad(object, { isManifest }));
  const configuration =
    config === undefined || config === "" ? undefined : parseNetworkConfiguration(config, { name });
  const { [resourceNameAnnotation]: resourceName } = own;
  return omitUndefined({ namespace, name, resourceName, configuration });
}

/** The result of an ADD, whatever its version: CNI 1.1.0, section 5. */
export interface AddResult {
  readonly cniVersion: string;
  readonly interfaces: readonly {
    readonly name: string;
    readonly mac?: string;
    readonly mtu?: number;
    readonly sandbox?: string;
    readonly socketPath?: string;
    readonly pciID?: string;
  }[];
  readonly ips: readonly {
    readonly address: string;
    readonly gateway?: string;
    readonly interface?: number;
  }[];
  readonly routes: readonly ({ readonly dst: string; readonly gw?: string } & {
    readonly [key in "mtu" | "advmss" | "priority" | "table" | "scope"]?: number;
  })[];
  readonly dns?: {
    readonly nameservers?: readonly string[];
    readonly domain?: string;
    readonly search?: readonly string[];
    readonly options?: readonly string[];
  };
}

/** Reads what a plugin printed, of any version. @throws FormatError */
export function parseResult(result: unknown): AddResult {
  return checked(() =>
    parseCniResult(readJsonObject(result, "cannot read the result"), { fallbackVersion: "" }),
  );
}

/** For callers without types, such as of a pod without the annotation. @throws TypeError */
function requireText(caller: string, given: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === "string") continue;
    throw new TypeError(`${caller}: ${name} must be a string, got ${quoteValue(value)}`);
  }
}

function checked<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof CniError || error instanceof JsonTextError)) throw error;
    const found =
      error instanceof SelectionError
        ? error.problems.map(({ position: element, ...problem }) => ({ element, ...problem }))
        : [{ element: 0, key: "", reason: error.message }];
    throw new FormatError(error.message, found);
  }
}
