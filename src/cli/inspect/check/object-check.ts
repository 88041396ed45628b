import { contextWithoutCall } from "#engine/call/call-context.ts";
import { clusterRoutesAnnotation } from "#engine/cluster-ranges.ts";
import type { EngineConfig } from "#engine/config.ts";
import { requestOfAny } from "#engine/explain/explain-networks.ts";
import { planAttachments } from "#engine/plan/plan-attachments.ts";
import type { PlanProblem } from "#engine/plan/problems.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { emptyPorts, emptySource } from "#engine/ports/empty-ports.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { keyOf } from "#kube/objects.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type JsonObject, objectOf } from "#lib/json.ts";
import { DocumentError, withValue } from "#lib/parsing/document-error.ts";
import { keysIn } from "#lib/parsing/json-text.ts";
import { fieldPath } from "#lib/parsing/parse-with.ts";
import type { FileObject, FileProblem, Path } from "#manifests/file-objects.ts";
import { type NetworkAttachmentDefinition, parseNad } from "#npwg/nad.ts";
import { defaultNetworkAnnotation, networksAnnotation } from "#npwg/selection/selection.ts";
import { formatProblem, SelectionError } from "#npwg/selection/selection-error.ts";

/** The annotations of a pod that the planner reads. */
const requestKeys = [clusterRoutesAnnotation, networksAnnotation, defaultNetworkAnnotation];

/** Where kinds have a pod template. A Pod is its own. */
const templates = ["spec.template", "spec.jobTemplate.spec.template", "template"].map(keysOf);

/** Only a node knows its default network, its configuration files, and the devices of a pod. */
const ofNodes = /^(MissingDefaultNetwork|MissingConfiguration|DeviceNotAllocated)$/;

interface CheckOptions {
  readonly config: Partial<EngineConfig>;
  /** The namespace of objects that name none. */
  readonly home: string;
  /** The file with the cluster's definitions, which are used and not checked; "" if there is none. */
  readonly cluster: string;
}

/** Checks objects by the rules of an ADD that need no node. */
export class ObjectCheck {
  readonly problems: FileProblem[] = [];
  /** Of definitions and workloads. */
  count = 0;
  /** Each with the networks that its pods request: `Deployment/shop/web`, `shop/lan`. */
  readonly workloads: string[][] = [];
  /** The definitions without a problem, and the names of the others. */
  readonly #usable: { readonly file: string; readonly nad: NetworkAttachmentDefinition }[] = [];
  readonly #broken = new Set<string>();
  readonly #options: CheckOptions;

  constructor(options: CheckOptions) {
    this.#options = options;
  }

  /** The definitions first: workloads use them. */
  async run(objects: readonly FileObject[]): Promise<void> {
    const { cluster } = this.#options;
    const isDefinition = ({ value }: FileObject) => value.kind === "NetworkAttachmentDefinition";
    for (const each of objects.filter(isDefinition)) await this.#definition(each);
    for (const each of objects.filter(({ file }) => file !== cluster)) await this.#workload(each);
  }

  /** Plans a pod that requests the definition, unless it is the cluster's. */
  async #definition({ file, value, problemAt }: FileObject): Promise<void> {
    const isManifest = file !== this.#options.cluster;
    this.count++;
    const given = objectOf(value.metadata);
    const metadata: JsonObject = { ...given, namespace: given.namespace || this.#options.home };
    const name = `${metadata.namespace}/${metadata.name}`;
    const [found, key] = [[] as FileProblem[], ["spec", "config"]];
    try {
      const nad = parseNad({ ...value, metadata }, { isManifest });
      const pod = { ...nad, uid: "", annotations: { [networksAnnotation]: name } };
      const planned = isManifest ? await this.#plan([nad], pod) : { problems: [] };
      for (const [path, reason] of planned.problems.flatMap(fieldsIn)) {
        const problem = path.length === 0 ? reason : `${fieldPath(path)}: ${reason}`;
        found.push(problemAt(key, problem, path));
      }
      if (found.length === 0) this.#usable.push({ file, nad });
      const isChecked = isManifest && found.length === 0;
      for (const { key: repeated, isRepeated } of isChecked ? keysIn(nad.config ?? "") : []) {
        const problem = `"${repeated}" occurs twice: only the last value counts`;
        if (isRepeated) this.problems.push({ ...problemAt(key, problem), severity: "warning" });
      }
    } catch (error) {
      found.push(...fieldsIn({ error }).map(([path, reason]) => problemAt(path, reason)));
    }
    this.problems.push(...found);
    if (found.length > 0) this.#broken.add(name);
  }

  /** Plans the pods of a workload with one more annotation each time: a new problem concerns that. */
  async #workload({ file, value, problemAt }: FileObject): Promise<void> {
    const path = value.kind === "Pod" ? [] : templates.find((each) => at(value, each).metadata);
    if (path === undefined) return;
    this.count++;
    if (objectOf(at(value, path).spec).hostNetwork === true) return;
    const { namespace, name, generateName, annotations: ofWorkload } = objectOf(value.metadata);
    const pod = {
      ...{ namespace: String(namespace || this.#options.home), uid: "" },
      name: String(name ?? generateName),
    };
    if (path.length > 0 && objectOf(ofWorkload)[networksAnnotation] !== undefined) {
      const problem = "has no effect: pods get the annotations of the template";
      const found = problemAt(["metadata", "annotations", networksAnnotation], problem);
      this.problems.push({ ...found, severity: "warning" });
    }
    // Examples often repeat a name: the definition in the pod's file is meant.
    const ofFile = Map.groupBy(this.#usable, (each) => each.file === file);
    const nads = [false, true].flatMap((isOwn) => ofFile.get(isOwn) ?? []).map(({ nad }) => nad);
    const [annotations, known]: [Record<string, string>, string[]] = [{}, []];
    let networks: readonly string[] = [];
    for (const annotation of requestKeys) {
      const key = [...path, "metadata", "annotations", annotation];
      const text = at(value, key.slice(0, -1))[annotation] ?? undefined;
      if (typeof text === "string") annotations[annotation] = text;
      else if (text) this.problems.push(problemAt(key, withValue("must be a string", text)));
      const planned = await this.#plan(nads, { ...pod, annotations });
      const news = planned.problems.filter(({ error }) => !known.includes(error.message));
      this.problems.push(...news.flatMap((each) => this.#inAnnotation(each, key, problemAt)));
      known.push(...news.map(({ error }) => error.message));
      networks = planned.networks;
    }
    this.workloads.push([`${value.kind}/${keyOf(pod)}`, ...networks]);
  }

  #inAnnotation(found: PlanProblem, key: Path, problemAt: FileObject["problemAt"]): FileProblem[] {
    const { error, network = "", isTolerated } = found;
    if (this.#broken.has(network)) return [];
    const isInvalid = error instanceof SelectionError;
    const isUnknown = error.reason === "NoNetworkFound" && this.#options.cluster === "";
    const severity = isUnknown || (isTolerated && !isInvalid) ? "warning" : "error";
    const places = isInvalid ? fieldsIn(found) : ([[[], error.message]] as const);
    return places.map(([inside, problem]) => ({ ...problemAt(key, problem, inside), severity }));
  }

  /** @param nads of one name, the last counts */
  async #plan(nads: readonly NetworkAttachmentDefinition[], pod: Pod) {
    const byName = new Map(nads.map((nad) => [keyOf(nad), nad]));
    const { clusterNetwork: _, auxiliaryCNIChainName: _of, ...rules } = this.#options.config;
    const deps: Omit<EngineDeps, "records"> = {
      ...emptyPorts,
      // Labels of namespaces are only in the cluster.
      source: { ...emptySource, namespaceMatches: async () => true },
      definitions: { getNad: async (ref) => byName.get(keyOf(ref)), knownNads: () => nads },
      // Any default network has the interface eth0.
      config: () => ({ ...rules, delegates: [{ name: "default-network", type: "any" }] }),
      ...{ clock: () => 0, now: () => "", bootId: () => "", leftoverDuty: "none" },
    };
    const found: PlanProblem[] = [];
    // Planning reads no records where calls retry no teardowns.
    const ctx = { ...contextWithoutCall(deps as EngineDeps, {}), problems: found };
    const { attachments } = await planAttachments(ctx, requestOfAny, pod);
    const requested = attachments.filter(({ selection }) => selection !== undefined);
    const planned = requested.map(({ displayName }) => displayName);
    return {
      networks: [...new Set([...planned, ...found.flatMap(({ network }) => network ?? [])])],
      problems: found.filter(({ error }) => !ofNodes.test(error.reason ?? "")),
    };
  }
}

function at(value: JsonObject, path: Path): JsonObject {
  return path.reduce((object: JsonObject, key) => objectOf(object[key]), value);
}

/** What an error says of fields, each with its path; or as a whole. */
function fieldsIn({
  error,
}: {
  readonly error: unknown;
}): (readonly [path: Path, reason: string])[] {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (each instanceof SelectionError)
      return each.problems.map((of) => [[of.position - 1, ...keysOf(of.key)], formatProblem(of)]);
    if (each instanceof DocumentError)
      return each.problems.map(({ path, reason }) => [keysOf(path), reason]);
  }
  return [[[], errorMessage(error)]];
}

/** `["plugins", 0, "type"]` for `plugins[0].type`; a key with dots is in `["…"]`. */
function keysOf(path: string): Path {
  return path.split(/\["|"\]/).flatMap((part, i) => {
    if (i % 2 === 1) return [part];
    const keys = part.split(/[.[\]]/).filter((key) => key !== "");
    return keys.map((key) => (/^\d+$/.test(key) ? Number(key) : key));
  });
}
