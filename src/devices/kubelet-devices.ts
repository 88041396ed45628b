import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { CniError } from "#cni/error.ts";
import type { DeviceLookup, DeviceSource } from "#engine/ports/devices.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { errorMessage } from "#lib/error-message.ts";
import { runtimeUid } from "#npwg/object-meta.ts";
import { type ContainerNames, containerNames, devicesFromCheckpoint } from "./checkpoint.ts";
import { isTooLong, KubeletClient, NoKubeletSocketError } from "./kubelet-client.ts";
import { orderedDevices, type PodDevices } from "./ordered-devices.ts";
import type { PodResources } from "./pod-resources.ts";

const apiName = "the kubelet's pod-resources API";

interface KubeletDevicesOptions {
  readonly kubeletDir: string;
  readonly logger: Logger;
  /** The time limit of an answer. @default 10000 */
  readonly timeoutMs?: number;
}

/**
 * The devices that the kubelet allocated to a pod from device plugins. It allocates them before it
 * creates the sandbox, so a missing device never appears later.
 */
export class KubeletDevices implements DeviceSource {
  readonly #client: KubeletClient;
  readonly #socketPath: string;
  readonly #checkpointPath: string;
  readonly #logger: Logger;

  constructor({ kubeletDir, logger, ...options }: KubeletDevicesOptions) {
    this.#socketPath = join(kubeletDir, "pod-resources/kubelet.sock");
    this.#checkpointPath = join(kubeletDir, "device-plugins/kubelet_internal_checkpoint");
    this.#client = new KubeletClient({ socketPath: this.#socketPath, ...options });
    this.#logger = logger;
  }

  /** @throws CniError 11 when the kubelet does not answer in time */
  async devicesOf(lookup: DeviceLookup): Promise<PodDevices> {
    // Both are asked at once, because neither needs the other's answer.
    const containers = this.#containersOf(lookup);
    try {
      return await this.#fromKubelet(lookup, containers);
    } catch (error) {
      if (error instanceof CniError) throw error;
      const isUnusable = error instanceof NoKubeletSocketError || isTooLong(error);
      if (!isUnusable) throw this.#unavailable(lookup, error);
      return this.#fromCheckpoint(lookup, containers, error);
    }
  }

  async #fromKubelet(
    { pod, signal }: DeviceLookup,
    containers: Promise<ContainerNames | undefined>,
  ): Promise<PodDevices> {
    const found = await this.#client.find(pod, signal);
    const names = await containers;
    const isThePod = (candidate: PodResources): boolean =>
      names === undefined || hasContainers(candidate, names);
    if (found.length === 0) return new Map();
    const own = found.find(isThePod) ?? (await this.#client.findInList(pod, signal)).find(isThePod);
    if (own === undefined) {
      throw new CniError(
        "DevicesUnknown",
        `${apiName} knows a pod ${pod.namespace}/${pod.name} with other containers, probably a predecessor ` +
          "of the same name: which devices this one was allocated is not known yet",
      );
    }
    const entries = own.containers.map(({ devices }) => devices);
    return orderedDevices(entries, apiName);
  }

  async #fromCheckpoint(
    lookup: DeviceLookup,
    containers: Promise<ContainerNames | undefined>,
    reason: Error,
  ): Promise<PodDevices> {
    try {
      const content = await readFile(this.#checkpointPath, "utf8");
      const pod = { uid: runtimeUid(lookup.pod), containers: await containers };
      return devicesFromCheckpoint(content, pod);
    } catch (error) {
      const detail = `${reason.message}, and no checkpoint: ${errorMessage(error)}`;
      throw this.#unavailable(lookup, new Error(detail, { cause: error }));
    }
  }

  /** Undefined when the API is unavailable: the devices are known without it. */
  async #containersOf({ pod, podObject }: DeviceLookup): Promise<ContainerNames | undefined> {
    try {
      const object = await podObject();
      return object === undefined ? undefined : containerNames(object);
    } catch (error) {
      const fields = { err: error, podNamespace: pod.namespace, podName: pod.name };
      this.#logger.warn(fields, "the pod's containers are not known: its devices are not checked");
      return undefined;
    }
  }

  #unavailable({ pod }: DeviceLookup, cause: unknown): CniError {
    return new CniError(
      "DevicesUnknown",
      `cannot find out which devices pod ${pod.namespace}/${pod.name} was allocated, as ${apiName} ` +
        `at ${this.#socketPath} does not answer: ${errorMessage(cause)}`,
      { cause },
    );
  }
}

/**
 * Whether these are the pod's containers. The kubelet gives no UID, but a predecessor of the same
 * name has other containers unless its template is the same. Before 1.29 sidecars are missing.
 */
function hasContainers({ containers }: PodResources, { sidecars, main }: ContainerNames): boolean {
  const listed = new Set(containers.map(({ name }) => name));
  const known = new Set([...sidecars, ...main]);
  return [...listed].every((name) => known.has(name)) && main.every((name) => listed.has(name));
}
