import { parseCniArgsOfDel } from "#cni/args.ts";
import type { CniError } from "#cni/error.ts";
import type { PluginRequest } from "#cni/plugin/request.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { CalledPod } from "./cluster.ts";
import type { NetnsState } from "./host.ts";
import { podIdentity } from "./pod-identity.ts";

interface ShimRequest {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** A call of the shim, its environment read once. Not validated: an invalid call is logged, too. */
export interface Call extends ShimRequest {
  /** CNI_COMMAND, or `AGENT`; "" when absent. */
  readonly command: string;
  /** "" when absent, as {@link ifName}. */
  readonly containerId: string;
  readonly ifName: string;
  readonly pod?: CalledPod;
  /** CNI_PATH, without empty elements. */
  readonly path: readonly string[];
  /** What the shim found at CNI_NETNS; "" when it did not look. */
  readonly netnsState: string;
  /**
   * Set when CNI_NETNS is the namespace of a process instead of one that is mounted: which process
   * that is, or "" when the shim cannot tell.
   */
  readonly netnsProcess?: string;
  /** The interfaces of that namespace; undefined when the shim did not list them. */
  readonly links?: ReadonlySet<string>;
  /** Of a GC: the containers on which operations ran when it was called; undefined if there were none. */
  readonly busy?: ReadonlySet<string>;
  /** When the shim started, in microseconds of CLOCK_MONOTONIC; NaN when unknown. */
  readonly startedUs: number;
  /** Whether the shim prints how long each phase took (PLEXUS_TRACE=1). */
  readonly isTraced: boolean;
}

/** Reads the environment of a request. */
export function readCall(request: ShimRequest): Call {
  const { env } = request;
  return omitUndefined({
    ...request,
    command: env.CNI_COMMAND ?? "",
    containerId: env.CNI_CONTAINERID ?? "",
    ifName: env.CNI_IFNAME ?? "",
    pod: podIdentity(parseCniArgsOfDel(env.CNI_ARGS ?? "")),
    path: (env.CNI_PATH ?? "").split(":").filter((dir) => dir !== ""),
    netnsState: env.PLEXUS_NETNS ?? "",
    netnsProcess: env.PLEXUS_NETNS_PROCESS,
    links: env.PLEXUS_LINKS === undefined ? undefined : namesIn(env.PLEXUS_LINKS),
    busy: env.PLEXUS_BUSY === undefined ? undefined : namesIn(env.PLEXUS_BUSY),
    startedUs: Number(env.PLEXUS_STARTED_MONOTONIC_US),
    isTraced: env.PLEXUS_TRACE === "1",
  });
}

/** The names of a list that the shim made. */
export function namesIn(links: string): ReadonlySet<string> {
  return new Set(links.split("/").filter((name) => name !== ""));
}

/** What the shim, which runs in the runtime's network namespace, found at CNI_NETNS. */
export function netnsStateOf(call: Call, request: PluginRequest): NetnsState {
  if (!("netns" in request) || request.netns === "") return "none";
  const { netnsState } = call;
  if (netnsState === "own") return request.netnsOverride ? "ok" : "own";
  return netnsState === "ok" || netnsState === "gone" ? netnsState : "unknown";
}

/** The exit code of a failure after which another engine may serve the call (shim/protocol.h). */
export const declinedExitCode = 75;

/** What the shim prints, and its exit status. */
export interface CallAnswer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A call that was served. */
export interface ServedCall {
  readonly answer: CallAnswer;
  /** Metrics and the log line. */
  log(): void;
  /** Starts what the runtime does not wait for: once the answer is sent or cannot be. */
  afterAnswer(): void;
}

/** How a call ended; `stdout` is the result or the error object that the runtime gets. */
export type CallOutcome =
  | { readonly status: "succeeded"; readonly stdout: string }
  | { readonly status: "failed"; readonly stdout: string; readonly error: CniError };
