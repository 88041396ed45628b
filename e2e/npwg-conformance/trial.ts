import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { nadApiVersion } from "./cluster/cluster.ts";
import { NotTestable } from "./expect.ts";
import type { Implementation } from "./implementation.ts";
import type { JsonObject } from "./json.ts";
import { Pod, type PodContext, type PodOptions } from "./pod.ts";
import { execute } from "./runtime/command.ts";

/** What all requirements share. */
export interface Surroundings extends PodContext {
  readonly implementation: Implementation;
  /** Where the implementation finds configurations by their CNI name. */
  readonly confDir: string;
  /** A directory for files of plugins. */
  readonly dir: string;
  readonly readinessFile: string;
}

/** What one requirement is checked with. Everything that it makes is removed at the end. */
export class Trial implements AsyncDisposable {
  /** Part of names that only this trial uses. */
  readonly suffix = randomBytes(3).toString("hex");
  /** The namespace of pods and definitions. */
  readonly namespace = `npwg-${this.suffix}`;
  readonly otherNamespace = `npwg-${this.suffix}-other`;
  readonly #surroundings: Surroundings;
  readonly #namespaces = new Set<string>();
  readonly #pods: Pod[] = [];
  readonly #files: string[] = [];

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  /** A bridge of the node that is removed at the end. */
  get bridge(): string {
    return `npwg${this.suffix}`;
  }

  /** The configuration of IPAM by host-local, with one subnet of each family. */
  hostLocal(subnet: number, routes: readonly JsonObject[] = []): JsonObject {
    const ranges = [[{ subnet: `10.${subnet}.0.0/24` }], [{ subnet: `fd00:${subnet}::/64` }]];
    return {
      type: "host-local",
      dataDir: join(this.#surroundings.dir, this.suffix),
      ranges,
      routes,
    };
  }

  get readinessFile(): string {
    return this.#surroundings.readinessFile;
  }

  /** Keys of the implementation's configuration for a feature. @throws NotTestable if it names none */
  keysFor(feature: "isolation" | "readiness"): JsonObject {
    const keys = this.#surroundings.implementation[feature];
    if (keys !== undefined) return keys;
    throw new NotTestable(`the implementation file has no key "${feature}"`);
  }

  /** Creates or updates a NetworkAttachmentDefinition; a configuration that is no text becomes JSON. */
  async define(
    name: string,
    config?: JsonObject | string,
    namespace = this.namespace,
  ): Promise<void> {
    await this.#need(namespace);
    const text = typeof config === "object" ? JSON.stringify(config) : config;
    await this.#surroundings.cluster.apply({
      ...definition(namespace, name),
      spec: text === undefined ? {} : { config: text },
    });
  }

  /** Defines the networks `net-a`, `net-b` and so on, each with one scripted plugin. */
  async defineAll(letters: string): Promise<void> {
    for (const letter of letters) await this.define(`net-${letter}`, network(letter));
  }

  async deleteDefinition(name: string): Promise<void> {
    await this.#surroundings.cluster.delete(definition(this.namespace, name));
  }

  /** Writes a file into the directory of configurations; `name` must have the trial's suffix. */
  async writeConfiguration(name: string, content: JsonObject): Promise<void> {
    const path = join(this.#surroundings.confDir, name);
    this.#files.push(path);
    await writeFile(path, JSON.stringify(content));
  }

  /** Creates a pod that is not attached yet. */
  async pod(options: PodOptions = {}): Promise<Pod> {
    await this.#need(this.namespace);
    const pod = await Pod.create(this.#surroundings, this.namespace, options);
    this.#pods.push(pod);
    return pod;
  }

  /** Creates a pod and attaches it. @throws Mismatch if ADD fails */
  async attached(networks?: PodOptions["networks"]): Promise<Pod> {
    const pod = await this.pod(networks === undefined ? {} : { networks });
    await pod.mustAdd();
    return pod;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pod of this.#pods.reverse()) await pod[Symbol.asyncDispose]();
    for (const namespace of this.#namespaces)
      await this.#surroundings.cluster.deleteNamespace(namespace);
    await execute(["ip", "link", "delete", this.bridge]);
    for (const path of this.#files) await rm(path, { force: true });
    await rm(this.readinessFile, { force: true });
  }

  async #need(namespace: string): Promise<void> {
    if (this.#namespaces.has(namespace)) return;
    this.#namespaces.add(namespace);
    await this.#surroundings.cluster.createNamespace(namespace);
  }
}

/** The CNI version of the suite's configurations. */
export const cniVersion = "1.0.0";

/** The configuration of the network `net-LETTER`, whose plugin is `npwg-LETTER`, with more keys. */
export function network(letter: string, keys: JsonObject = {}): JsonObject {
  return { cniVersion, name: `net-${letter}`, type: `npwg-${letter}`, ...keys };
}

/** An error answer of a delegate. */
export function failure(msg: string): { stdout: JsonObject; exit: number } {
  return { stdout: { cniVersion, code: 100, msg }, exit: 1 };
}

/** A result with one interface in the sandbox; `keys` are added to the result. */
export function result(keys: JsonObject = {}, link: JsonObject = {}): { stdout: JsonObject } {
  const interfaces = [{ name: "@IFNAME@", sandbox: "@NETNS@", ...link }];
  return { stdout: { cniVersion, interfaces, ...keys } };
}

function definition(namespace: string, name: string): JsonObject {
  const kind = "NetworkAttachmentDefinition";
  return { apiVersion: nadApiVersion, kind, metadata: { namespace, name } };
}
