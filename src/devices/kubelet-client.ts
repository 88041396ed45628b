import { stat } from "node:fs/promises";
import type { PodName } from "#engine/ports/cluster.ts";
import { callUnary, GrpcError, GrpcStatus, type UnaryMethod } from "#grpc/call-unary.ts";
import { encodeTexts } from "#grpc/wire.ts";
import { Backoff } from "#lib/concurrency/backoff.ts";
import { pause, untilAborted } from "#lib/concurrency/deadline.ts";
import { NextRun } from "#lib/concurrency/next-run.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { getPodResources, listPodResources, type PodResources } from "./pod-resources.ts";

/** Transient failures: a rate limit (100 per second), a kubelet that restarts or is busy. */
const transientStatus: readonly number[] = [
  GrpcStatus.ResourceExhausted,
  GrpcStatus.Unavailable,
  GrpcStatus.DeadlineExceeded,
  GrpcStatus.Cancelled,
];

/** There is no socket: the kubelet never ran, or its directory is elsewhere. */
export class NoKubeletSocketError extends Error {
  override readonly name = "NoKubeletSocketError";
}

interface KubeletClientOptions {
  readonly socketPath: string;
  /** The time limit of all attempts for one answer. @default 10000 */
  readonly timeoutMs?: number;
}

/** The kubelet's pod-resources API, with retries. It remembers whether this socket serves `Get`. */
export class KubeletClient {
  readonly #socketPath: string;
  readonly #timeoutMs: number;
  readonly #lists = new NextRun(() => this.#list());
  /** The socket whose kubelet does not serve `Get`. */
  #withoutGet: string | undefined;

  constructor({ socketPath, timeoutMs = 10_000 }: KubeletClientOptions) {
    this.#socketPath = socketPath;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * The kubelet's entries for a pod's name, from `Get` or, with older kubelets, from the list of
   * all pods. A pod that has ended may have the same name, so there may be several.
   * @throws NoKubeletSocketError, GrpcError, MessageError
   */
  async find(pod: PodName, signal?: AbortSignal): Promise<readonly PodResources[]> {
    const socket = await this.#socket();
    if (this.#withoutGet === socket) return this.findInList(pod, signal);
    const request = encodeTexts({ 1: pod.name, 2: pod.namespace });
    try {
      const { podResources } = await this.#call(getPodResources, request, signal);
      return podResources === undefined ? [] : [podResources];
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error;
      if (isUnknownPod(error)) return [];
      if (!isWithoutGet(error)) throw error;
      this.#withoutGet = socket;
      return this.findInList(pod, signal);
    }
  }

  /** Like {@link find}, but always by `List`, which concurrent callers share. */
  async findInList(pod: PodName, signal?: AbortSignal): Promise<readonly PodResources[]> {
    const all = await untilAborted(this.#lists.run(), signal);
    return all.filter(({ namespace, name }) => namespace === pod.namespace && name === pod.name);
  }

  async #list(): Promise<readonly PodResources[]> {
    return (await this.#call(listPodResources, encodeTexts({}))).podResources;
  }

  async #call<Response>(
    method: UnaryMethod<Response>,
    request: Buffer,
    signal?: AbortSignal,
  ): Promise<Response> {
    const socketPath = this.#socketPath;
    const endsAt = performance.now() + this.#timeoutMs;
    const backoff = new Backoff({ initialMs: 50, maxMs: 800 });
    for (;;) {
      const leftMs = endsAt - performance.now();
      try {
        // Without a socket no kubelet restarts; the caller looks elsewhere.
        await this.#socket();
        // Half of the remaining time, so that a second attempt is possible after a hanging one.
        const timeoutMs = Math.max(50, Math.ceil(leftMs / 2));
        return await callUnary(method, { socketPath, request, timeoutMs, signal });
      } catch (error) {
        const delayMs = backoff.next();
        const isOver = signal?.aborted === true || performance.now() + delayMs >= endsAt;
        if (isOver || !isTransient(error)) throw error;
        await pause(delayMs, signal);
      }
    }
  }

  /** Identifies the socket file: a restarted kubelet may reuse the inode number. */
  async #socket(): Promise<string> {
    try {
      const { ino, ctimeNs } = await stat(this.#socketPath, { bigint: true });
      return `${ino} ${ctimeNs}`;
    } catch (cause) {
      if (!isAbsent(cause)) throw cause;
      throw new NoKubeletSocketError(`there is no socket ${this.#socketPath}`, { cause });
    }
  }
}

function isTransient(error: unknown): boolean {
  return error instanceof GrpcError && transientStatus.includes(error.status) && !isTooLong(error);
}

/** Whether an answer exceeds the limit: so does the next one. */
export function isTooLong(error: unknown): error is GrpcError {
  return error instanceof GrpcError && /message larger than max/.test(error.details);
}

/** The kubelet's message for a disabled `Get` (until 1.35), or gRPC's for an unknown method. */
function isWithoutGet({ status, details }: GrpcError): boolean {
  return status === GrpcStatus.Unimplemented || /Get method disabled/.test(details);
}

/** The kubelet has no status for that. */
function isUnknownPod({ status, details }: GrpcError): boolean {
  return (
    status === GrpcStatus.NotFound ||
    (status === GrpcStatus.Unknown && details.startsWith("pod ") && details.endsWith(" not found"))
  );
}
