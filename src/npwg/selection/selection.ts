import { type Json, type JsonObject, jsonTypeName } from "#lib/json.ts";
import { JsonTextError, parseJsonText } from "#lib/json-text.ts";
import { parseSelectionElement } from "./element.ts";
import {
  describeValue,
  formatProblem,
  SelectionError,
  type SelectionProblem,
} from "./selection-error.ts";
import { parseSelectionItem } from "./text.ts";
import type { Bandwidth, PortMapping } from "./values.ts";

export { SelectionError, type SelectionProblem } from "./selection-error.ts";

/** On pods: the networks to attach besides the default one (multi-network specification v1.1 §4.1). */
export const networksAnnotation = "k8s.v1.cni.cncf.io/networks";
/** On pods, written by us: what came of the attachments (§5). */
export const networkStatusAnnotation = "k8s.v1.cni.cncf.io/network-status";
/** On pods: the network to use in place of the cluster default network; Multus' name for it. */
export const defaultNetworkAnnotation = "v1.multus-cni.io/default-network";
/** On pods, written by us: why the pod's network annotations cannot be used. */
export const annotationErrorAnnotation = "plexus.dev/annotation-error";
/** On NetworkAttachmentDefinitions: the device plugin resource from which attachments take their device. */
export const resourceNameAnnotation = "k8s.v1.cni.cncf.io/resourceName";

/** One element of the annotation: a network that the pod asks for, and how (§4.1.2.1). */
export interface NetworkSelection {
  /** The pod's own where the annotation names none. */
  readonly namespace: string;
  readonly name: string;
  readonly ifName?: string;
  /** Addresses with or without a prefix length, as written; at least one. */
  readonly ips?: readonly string[];
  /** 6 or 20 bytes in lower-case colon form. */
  readonly mac?: string;
  /** 8 bytes in lower-case colon form. */
  readonly infinibandGuid?: string;
  readonly portMappings?: readonly PortMapping[];
  readonly bandwidth?: Bandwidth;
  readonly cniArgs?: JsonObject;
  /** Gateways; empty = the attachment gets the default route by the gateways that its plugin set. */
  readonly defaultRoute?: readonly string[];
  readonly deviceId?: string;
  readonly ipamClaimReference?: string;
  /** The element's place in the annotation, counted from 1. */
  readonly position: number;
}

/** The most networks that one annotation may name; a bound on what one pod can ask of its node. */
export const maxSelections = 256;

/** The most warnings that one annotation gives rise to. */
const maxWarnings = 20;

interface ParseOptions {
  /** Told, in one line each, of keys that are passed over or read in spite of their case; at most 20 times. */
  readonly onWarning?: (message: string) => void;
}

/**
 * Reads the value of the `k8s.v1.cni.cncf.io/networks` annotation in either of its formats
 * (§4.1.1, §4.1.2). As in Multus it is the JSON list when it contains any of `[`, `{` and `"`. Empty or
 * only white space = no networks. An invalid value of any key makes the whole annotation invalid.
 * Of a key that is given twice in one element the last counts, as in Go.
 *
 * @throws SelectionError with everything that is wrong.
 */
export function parseNetworkSelections(
  annotation: string,
  options: ParseOptions & { readonly podNamespace: string },
): NetworkSelection[] {
  const what = "network selection annotation";
  return parseAnnotation(annotation, { ...options, what, namespace: options.podNamespace });
}

/**
 * Reads the value of the `v1.multus-cni.io/default-network` annotation: one element in the same
 * formats.
 *
 * @throws SelectionError also when there is no element or more than one.
 */
export function parseDefaultNetworkSelection(
  annotation: string,
  options: ParseOptions & { readonly defaultNamespace: string },
): NetworkSelection {
  const what = "default network annotation";
  const parsed = parseAnnotation(annotation, {
    ...options,
    what,
    namespace: options.defaultNamespace,
  });
  const [selection, ...rest] = parsed;
  if (selection === undefined || rest.length > 0) {
    const reason = `names ${parsed.length} networks, must name exactly one`;
    throw new SelectionError(what, [
      { position: 0, key: "", value: describeValue(annotation), reason },
    ]);
  }
  return selection;
}

interface AnnotationOptions extends ParseOptions {
  readonly what: string;
  readonly namespace: string;
}

function parseAnnotation(annotation: string, options: AnnotationOptions): NetworkSelection[] {
  if (annotation.trim() === "") return [];
  const isJson = /[[{"]/.test(annotation);
  const elements: Json[] = isJson ? parseList(annotation, options.what) : annotation.split(",");
  if (elements.length > maxSelections) {
    const reason = `names ${elements.length} networks, more than ${maxSelections}`;
    throw new SelectionError(options.what, [{ position: 0, key: "", value: "", reason }]);
  }
  const problems: SelectionProblem[] = [];
  let warnings = 0;
  const onWarning = (warning: SelectionProblem): void => {
    if (warnings++ < maxWarnings) options.onWarning?.(`${options.what}: ${formatProblem(warning)}`);
  };
  const selections = elements.map((element, index) => {
    const context = {
      position: index + 1,
      namespace: options.namespace,
      onProblem: (problem: SelectionProblem): void => void problems.push(problem),
      onWarning,
    };
    if (isJson) return parseSelectionElement(element, context);
    return typeof element === "string" ? parseSelectionItem(element, context) : undefined;
  });
  const valid = selections.filter((selection) => selection !== undefined);
  problems.push(...defaultRouteProblems(valid));
  if (problems.length > 0) throw new SelectionError(options.what, problems);
  return valid;
}

function parseList(annotation: string, what: string): Json[] {
  const fail = (reason: string): never => {
    throw new SelectionError(what, [{ position: 0, key: "", value: "", reason }]);
  };
  try {
    const list = parseJsonText(annotation);
    return Array.isArray(list)
      ? list
      : fail(`is ${jsonTypeName(list)}, must be a JSON list of objects`);
  } catch (error) {
    if (error instanceof JsonTextError) return fail(`not valid JSON: ${error.message}`);
    throw error;
  }
}

/** Only one attachment may have the `default-route` key (§4.1.2.1.9). */
function defaultRouteProblems(selections: readonly NetworkSelection[]): SelectionProblem[] {
  const [first, ...others] = selections.filter((selection) => selection.defaultRoute !== undefined);
  return others.map((selection) => ({
    position: selection.position,
    key: "default-route",
    value: describeValue([...(selection.defaultRoute ?? [])]),
    reason: `element ${first?.position} has this key already; only one may`,
  }));
}
