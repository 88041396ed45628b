import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { isJsonObject, type Json, jsonTypeName, quoteValue } from "#lib/json.ts";
import { JsonTextError, parseJsonText } from "#lib/json-text.ts";
import { nadNameProblem, namespaceProblem } from "./object-name.ts";

/** What is used of a NetworkAttachmentDefinition (multi-network specification v1.1 §3.2). */
export interface NetworkAttachmentDefinition {
  readonly namespace: string;
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** `spec.config`: a CNI conf or conflist as JSON text; absent or empty = look on disk by name. */
  readonly config?: string;
}

/** The apiVersion of the custom resource (§3.1). */
export const nadApiVersion = "k8s.cni.cncf.io/v1";
/** Its kind. */
export const nadKind = "NetworkAttachmentDefinition";

/**
 * Reads a Kubernetes object as a NetworkAttachmentDefinition. `apiVersion` and `kind` may be absent,
 * as they are from items of some lists; `defaultNamespace` is for files, whose objects need not name one.
 *
 * @throws CniError 7 naming every field that is wrong.
 */
export function parseNad(
  object: unknown,
  options: { readonly defaultNamespace?: string } = {},
): NetworkAttachmentDefinition {
  if (!isJsonObject(object)) throw nadError("", [`is ${jsonTypeName(object)}, must be an object`]);
  const problems: string[] = [];
  checkConstant(object.apiVersion, { path: "apiVersion", expected: nadApiVersion, problems });
  checkConstant(object.kind, { path: "kind", expected: nadKind, problems });
  const metadata = isJsonObject(object.metadata) ? object.metadata : undefined;
  if (metadata === undefined) problems.push("metadata: must be an object");
  const name = readName(metadata?.name, { path: "metadata.name", check: nadNameProblem, problems });
  const namespace = readName(metadata?.namespace ?? options.defaultNamespace, {
    path: "metadata.namespace",
    check: namespaceProblem,
    problems,
  });
  const annotations = readAnnotations(metadata?.annotations, problems);
  const config = readConfig(object.spec, problems);
  if (problems.length > 0)
    throw nadError(namespace === "" ? name : `${namespace}/${name}`, problems);
  return { namespace, name, annotations, ...(config === undefined ? {} : { config }) };
}

function nadError(display: string, problems: readonly string[]): CniError {
  const what = display === "" ? nadKind : `${nadKind} "${display}"`;
  return new CniError(CniErrorCode.InvalidNetworkConfig, `${what}: ${problems.join("; ")}`);
}

function checkConstant(
  value: unknown,
  expect: { path: string; expected: string; problems: string[] },
): void {
  if (value === undefined || value === expect.expected) return;
  expect.problems.push(`${expect.path}: must be "${expect.expected}", got ${quoteValue(value)}`);
}

interface NameOptions {
  readonly path: string;
  readonly check: (name: string) => string | undefined;
  readonly problems: string[];
}

function readName(value: unknown, { path, check, problems }: NameOptions): string {
  const reason =
    typeof value === "string" ? check(value) : `must be a string, got ${jsonTypeName(value)}`;
  if (reason !== undefined)
    problems.push(`${path}: ${value === undefined ? "is missing" : reason}`);
  return typeof value === "string" ? value : "";
}

function readAnnotations(value: unknown, problems: string[]): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) {
    problems.push(`metadata.annotations: must be an object, got ${jsonTypeName(value)}`);
    return {};
  }
  const entries = Object.entries(value).flatMap(([key, text]) => {
    if (typeof text === "string") return [[key, text] as const];
    problems.push(`metadata.annotations["${key}"]: must be a string, got ${jsonTypeName(text)}`);
    return [];
  });
  return Object.fromEntries(entries);
}

/** An absent spec or config leaves the network to be found by the object's name (§3.2). */
function readConfig(spec: unknown, problems: string[]): string | undefined {
  if (spec === undefined || spec === null) return undefined;
  if (!isJsonObject(spec)) {
    problems.push(`spec: must be an object, got ${jsonTypeName(spec)}`);
    return undefined;
  }
  const { config } = spec;
  if (config === undefined || config === null || typeof config === "string")
    return config ?? undefined;
  problems.push(`spec.config: must be a string that holds JSON, got ${jsonTypeName(config)}`);
  return undefined;
}

/**
 * The network that a definition describes (§3.4.1): its `spec.config`; else the one that
 * `loadByName` finds on disk under the object's name; else the request fails. An empty config counts as
 * absent, as the API writes it. A config without `name` gets the object's (§3.4.2).
 *
 * @throws CniError naming the definition; 7 for what its config holds, `loadByName`'s code for the rest.
 */
export async function nadConf(
  nad: NetworkAttachmentDefinition,
  loadByName: (name: string) => Promise<NetConfList>,
): Promise<NetConfList> {
  const source = `${nadKind} "${nad.namespace}/${nad.name}"`;
  const config = nad.config?.trim() ?? "";
  try {
    if (config === "") return await loadByName(nad.name);
    return parseNetConfList(parseConfig(nad.config ?? ""), {
      source: "spec.config",
      name: nad.name,
    });
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    throw new CniError(error.code, `${source}: ${error.message}`, {
      details: error.details ?? "",
      cause: error,
    });
  }
}

function parseConfig(text: string): Json {
  try {
    return parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw new CniError(
      CniErrorCode.InvalidNetworkConfig,
      `spec.config: not valid JSON: ${error.message}`,
    );
  }
}
