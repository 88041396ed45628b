import { checkLimit, checkTextLimit, limits } from "#cni/limits.ts";
import type { IpFamily } from "#lib/ip.ts";
import { type Json, quoteValue } from "#lib/json.ts";
import { shortened } from "#lib/one-line.ts";
import { type FieldProblem, withValue } from "#lib/parsing/document-error.ts";
import { JsonTextError, parseJsonText } from "#lib/parsing/json-text.ts";
import { type ElementContext, parseSelectionElement } from "./element.ts";
import { defaultRouteFamilies, type NetworkSelection } from "./network-selection.ts";
import { formatProblem, SelectionError, type SelectionProblem } from "./selection-error.ts";
import { parseSelectionItem } from "./text.ts";

/** On pods: the additional networks (multi-network specification v1.1 §4.1). */
export const networksAnnotation = "k8s.v1.cni.cncf.io/networks";
/** On pods, written by Plexus: the status of the attachments (§5). */
export const networkStatusAnnotation = "k8s.v1.cni.cncf.io/network-status";
/** On pods: replaces the cluster default network; Multus' name for it. */
export const defaultNetworkAnnotation = "v1.multus-cni.io/default-network";
/** On pods, written by Plexus: why the pod's network annotations are unusable. */
export const annotationErrorAnnotation = "plexus.dev/annotation-error";
/** On NetworkAttachmentDefinitions: the device plugin resource of the attachments. */
export const resourceNameAnnotation = "k8s.v1.cni.cncf.io/resourceName";

/** The most warnings for one annotation. */
const maxWarnings = 20;

interface ParseOptions {
  /** Takes up to 20 warnings, one line each: ignored keys, and keys read in spite of their case. */
  readonly onWarning?: ((message: string, isUnknownKey: boolean) => void) | undefined;
}

/**
 * Reads the `k8s.v1.cni.cncf.io/networks` annotation in either format (§4.1.1, §4.1.2). As in
 * Multus, text with `[`, `{` or `"` is the JSON list. Empty or white space means no networks. The
 * last value of a repeated key counts, as in Go.
 * @throws SelectionError with all problems; each makes the whole annotation invalid
 * @throws CniError 100 when it is too long or has too many networks, whatever the settings
 */
export function parseNetworkSelections(
  annotation: string,
  options: ParseOptions & { readonly podNamespace: string },
): NetworkSelection[] {
  const name = "network selection annotation";
  return parseAnnotation(annotation, { ...options, name, namespace: options.podNamespace });
}

/**
 * Reads the `v1.multus-cni.io/default-network` annotation: one element in the same formats.
 * @throws SelectionError also when there is not exactly one element
 */
export function parseDefaultNetworkSelection(
  annotation: string,
  options: ParseOptions & { readonly defaultNamespace: string },
): NetworkSelection {
  const name = "default network annotation";
  const namespace = options.defaultNamespace;
  const [selection, ...rest] = parseAnnotation(annotation, { ...options, name, namespace });
  if (selection !== undefined && rest.length === 0) return selection;
  throw wholeError(name, withValue("must name exactly one network", annotation));
}

interface AnnotationOptions extends ParseOptions {
  readonly name: string;
  readonly namespace: string;
}

function parseAnnotation(annotation: string, options: AnnotationOptions): NetworkSelection[] {
  checkTextLimit(limits.annotation, annotation, `the ${options.name}`);
  if (annotation.trim() === "") return [];
  const isJson = /[[{"]/.test(annotation);
  const elements: Json[] = isJson ? parseList(annotation, options.name) : annotation.split(",");
  checkLimit(limits.networks, elements.length, `the ${options.name}`);
  const found: SelectionProblem[] = [];
  const warn = limitedWarnings(options);
  const selections = elements.flatMap((element, index) => {
    const position = index + 1;
    const problems: FieldProblem[] = [];
    const onWarning: ElementContext["onWarning"] = (key, reason, isUnknownKey) =>
      warn({ position, key, reason }, isUnknownKey);
    const context = { position, namespace: options.namespace, problems, onWarning };
    const selection = isJson
      ? parseSelectionElement(element, context)
      : parseSelectionItem(String(element), context);
    found.push(...problems.map(({ path, reason }) => ({ position, key: path, reason })));
    return selection === undefined || problems.length > 0 ? [] : [selection];
  });
  found.push(...defaultRouteProblems(selections));
  if (found.length > 0) throw new SelectionError(options.name, found);
  return selections;
}

function wholeError(name: string, reason: string): SelectionError {
  return new SelectionError(name, [{ position: 0, key: "", reason }]);
}

function limitedWarnings({
  name,
  onWarning,
}: AnnotationOptions): (warning: SelectionProblem, isUnknownKey: boolean) => void {
  let count = 0;
  return ({ key, ...warning }, isUnknownKey) => {
    if (count++ >= maxWarnings) return;
    const problem = formatProblem({ ...warning, key: shortened(key, 80) });
    onWarning?.(`${name}: ${problem}`, isUnknownKey);
  };
}

function parseList(annotation: string, name: string): Json[] {
  try {
    const list = parseJsonText(annotation);
    if (Array.isArray(list)) return list;
    throw wholeError(name, withValue("must be a JSON list of objects", list));
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw wholeError(name, `not valid JSON: ${error.message}`);
  }
}

/** At most one `default-route` (§4.1.2.1.9), per IP family as in Multus; an empty list is both. */
function defaultRouteProblems(selections: readonly NetworkSelection[]): SelectionProblem[] {
  const owners = new Map<IpFamily, number>();
  return selections.flatMap(({ position, defaultRoute }) => {
    const wanted = defaultRouteFamilies(defaultRoute);
    const taken = wanted.find((family) => owners.has(family));
    if (taken === undefined) {
      for (const family of wanted) owners.set(family, position);
      return [];
    }
    const reason =
      `only one element may have the default route of a family: element ${owners.get(taken)} asks for ` +
      `the one of IPv${taken} already, this one with ${quoteValue(defaultRoute)}`;
    return [{ position, key: "default-route", reason }];
  });
}
