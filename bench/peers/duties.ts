import { closeSync, fsync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { ApiClient } from "#kube/api/client.ts";
import { kubeconfigCredentials } from "#kube/api/kubeconfig.ts";
import { apiPaths } from "#kube/api/paths.ts";
import type { JsonObject } from "#lib/json.ts";
import type { Frame } from "#protocol/frame.ts";
import { decodeExecResult, decodeRequest, type RequestMessage } from "#protocol/messages.ts";

const sync = promisify(fsync);
const podOf = /K8S_POD_NAMESPACE=([^;]*);K8S_POD_NAME=([^;]*)/;
const statusAnnotation = "k8s.v1.cni.cncf.io/network-status";
const timeoutMs = 10_000;

/** Where an engine does its duties: its records, and the API. */
export interface DutyPlace {
  readonly dir: string;
  readonly dirFd: number;
  readonly client: ApiClient;
}

export async function openDutyPlace(dir: string, kubeconfig: string): Promise<DutyPlace> {
  const client = new ApiClient(await kubeconfigCredentials(kubeconfig));
  return { dir, dirFd: openSync(dir, "r"), client };
}

/**
 * What no engine can leave out of one call, with the least code that does it: a record of what undoes the call before
 * the first plugin runs, the results in it before the answer, both durable because a power cut must not leak an address,
 * and network-status and an event after the answer. It plans, checks and remembers nothing.
 */
export class Duties {
  readonly #place: DutyPlace;
  readonly #results: JsonObject[] = [];
  #env: RequestMessage["env"] = {};
  #record: { readonly fd: number; readonly synced: Promise<unknown> } | undefined;

  constructor(place: DutyPlace) {
    this.#place = place;
  }

  /** Before the first order. `undo` is what detaches the pod without this engine. */
  begin(frame: Frame, undo: readonly Buffer[]): void {
    const { env, stdin } = decodeRequest(frame);
    JSON.parse(stdin);
    this.#env = env;
    if (env.CNI_COMMAND !== "ADD") return;
    const fd = openSync(this.#path(), "wx", 0o600);
    writeSync(fd, Buffer.concat(undo));
    this.#record = { fd, synced: Promise.all([sync(fd), sync(this.#place.dirFd)]) };
  }

  /** After each plugin. */
  keep(frame: Frame): void {
    const { stdout } = decodeExecResult(frame);
    if (stdout !== "") this.#results.push(JSON.parse(stdout));
  }

  /** Before the answer. */
  async finish(): Promise<void> {
    if (this.#record === undefined) return rmSync(this.#path());
    const { fd, synced } = this.#record;
    writeSync(fd, JSON.stringify(this.#results));
    await Promise.all([synced, sync(fd)]);
    closeSync(fd);
  }

  /** After the answer. */
  async publish(): Promise<void> {
    if (this.#record === undefined) return;
    const [, namespace = "", name = ""] = podOf.exec(this.#env.CNI_ARGS ?? "") ?? [];
    const { client } = this.#place;
    const status = this.#results.map((_, nth) => ({ interface: nth === 0 ? "eth0" : `net${nth}` }));
    await client.write({
      method: "PATCH",
      path: `${apiPaths.pod({ namespace, name })}/status`,
      contentType: "application/merge-patch+json",
      body: { metadata: { annotations: { [statusAnnotation]: JSON.stringify(status) } } },
      timeoutMs,
    });
    const body = { kind: "Event", involvedObject: { namespace, name }, message: "attached" };
    await client.write({ method: "POST", path: apiPaths.events(namespace), body, timeoutMs });
  }

  #path(): string {
    return join(this.#place.dir, this.#env.CNI_CONTAINERID ?? "");
  }
}
