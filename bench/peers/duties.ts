import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { JsonApi } from "#kube/api/json-api.ts";
import { apiPaths, type ObjectName } from "#kube/api/paths.ts";
import { syncFile } from "#lib/files/sync.ts";
import type { JsonObject } from "#lib/json.ts";
import type { RequestMessage } from "#protocol/messages.ts";

const podOf = /K8S_POD_NAMESPACE=([^;]*);K8S_POD_NAME=([^;]*)/;
const statusAnnotation = "k8s.v1.cni.cncf.io/network-status";
export const timeoutMs = 10_000;

/** Where an engine does its duties: its records, and the API. */
export interface DutyPlace {
  readonly dir: string;
  readonly dirFd: number;
  readonly client: Pick<JsonApi, "write">;
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
  begin({ env, stdin }: RequestMessage, undo: readonly Buffer[]): void {
    JSON.parse(stdin);
    this.#env = env;
    if (env.CNI_COMMAND !== "ADD") return;
    const fd = openSync(this.#path(), "wx", 0o600);
    writeSync(fd, Buffer.concat(undo));
    this.#record = { fd, synced: Promise.all([syncFile(fd), syncFile(this.#place.dirFd)]) };
  }

  /** After each plugin. */
  keep(stdout: string): void {
    if (stdout !== "") this.#results.push(JSON.parse(stdout));
  }

  /** Before the answer. */
  async finish(): Promise<void> {
    if (this.#record === undefined) return rmSync(this.#path());
    const { fd, synced } = this.#record;
    writeSync(fd, JSON.stringify(this.#results));
    await Promise.all([synced, syncFile(fd)]);
    closeSync(fd);
  }

  /** Writes network-status: after the answer, if this process lives longer than the call. */
  async publish(): Promise<void> {
    if (this.#record === undefined) return;
    const status = this.#results.map((_, nth) => ({ interface: nth === 0 ? "eth0" : `net${nth}` }));
    await this.#place.client.write({
      method: "PATCH",
      path: `${apiPaths.pod(podIn(this.#env))}/status`,
      contentType: "application/merge-patch+json",
      body: { metadata: { annotations: { [statusAnnotation]: JSON.stringify(status) } } },
      timeoutMs,
    });
  }

  /** After the answer. */
  async emit(): Promise<void> {
    if (this.#record === undefined) return;
    const involvedObject = podIn(this.#env);
    const path = apiPaths.events(involvedObject.namespace);
    const body = { kind: "Event", involvedObject, message: "attached" };
    await this.#place.client.write({ method: "POST", path, body, timeoutMs });
  }

  #path(): string {
    return recordPath(this.#place.dir, this.#env);
  }
}

/** Where the record of a call's sandbox is. */
export function recordPath(dir: string, env: RequestMessage["env"]): string {
  return join(dir, env.CNI_CONTAINERID ?? "");
}

/** The pod of a call. */
export function podIn({ CNI_ARGS: args = "" }: RequestMessage["env"]): ObjectName {
  const [, namespace = "", name = ""] = podOf.exec(args) ?? [];
  return { namespace, name };
}
