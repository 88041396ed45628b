import type { CniError } from "#cni/error.ts";
import type { RunDelegate } from "#cni/runtime/delegate.ts";
import { configForCall, type EngineConfig } from "#engine/config.ts";
import type { Call } from "#engine/ports/call.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import {
  type CallHost,
  type DelegateHost,
  HostGoneError,
  type NetnsState,
} from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import type { JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { CallDelegates } from "./call-delegates.ts";
import { Trace } from "./trace.ts";

/** What the functions that serve one call work with. */
export interface CallContext {
  readonly deps: EngineDeps;
  readonly config: EngineConfig;
  readonly host: DelegateHost;
  /** When the call arrived, by {@link EngineDeps.clock}. */
  readonly startedAt: number;
  /** The call's CNI_NETNS; `ok` also for the shim's own one if CNI_NETNS_OVERRIDE allows it. */
  readonly netnsState: NetnsState;
  /** As {@link Call.netnsProcess}. */
  readonly netnsProcess?: string | undefined;
  /** The interfaces of the sandbox when the call began; absent when the shim did not list them. */
  readonly links?: ReadonlySet<string> | undefined;
  /** As {@link Call.startedUs}. */
  readonly shimStartedUs?: number;
  /** As {@link Call.busy}. */
  readonly busy?: ReadonlySet<string> | undefined;
  readonly delegateRunner: (network: string) => RunDelegate;
  readonly logger: Logger;
  readonly trace: Trace;
  readonly signal: AbortSignal;
  /** Resolves when the runtime has its answer: for work that it does not wait for. */
  readonly answered: Promise<void>;
  readonly notes: CallNotes;
}

/** What the log line of a call says besides its outcome. */
interface CallNotes {
  /** Why a failed ADD stays recorded. */
  notRolledBack: readonly CniError[];
  /** Whether nothing of a DEL's sandbox was attached, as far as is known. */
  hadNothing: boolean;
}

/** What a call is served with. */
export interface CallTools extends Pick<CallContext, "startedAt" | "trace" | "answered" | "notes"> {
  readonly host: CallHost;
  readonly delegates: CallDelegates;
  /** Resolves `answered`. */
  readonly noteAnswered: () => void;
}

/** The tools of a call that arrives now. */
export function callTools({ clock }: EngineDeps, host: CallHost): CallTools {
  const startedAt = clock();
  const trace = new Trace(clock);
  const { promise: answered, resolve: noteAnswered } = Promise.withResolvers<void>();
  const delegates = new CallDelegates(host, trace);
  const notes = { notRolledBack: [], hadNothing: false };
  return { host, startedAt, trace, answered, notes, noteAnswered, delegates };
}

async function refuse(): Promise<never> {
  throw new HostGoneError("there is no call, so nothing is executed");
}

/** What the functions that serve a call work with. */
export function callContext(
  deps: EngineDeps,
  tools: CallTools,
  call: Omit<CallContext, "deps" | "delegateRunner" | "signal" | keyof CallTools>,
): CallContext {
  const { delegates, noteAnswered: _, ...others } = tools;
  const delegateRunner: CallContext["delegateRunner"] = (network) => delegates.runner(network);
  return { deps, ...others, delegateRunner, signal: others.host.gone, ...call };
}

/**
 * The context of work that no call carries, and that executes nothing.
 * @param conf the conf with which the container runtime calls Plexus
 * @param host looks up plugins, and asks the kernel. @default refuses
 * @throws CniError 7 for an invalid configuration
 */
export function contextWithoutCall(
  deps: EngineDeps,
  conf: JsonObject,
  host: Partial<Pick<CallHost, "find" | "netlink">> = {},
): CallContext {
  const gone = new AbortController().signal;
  const refusing = { gone, exec: refuse, netlink: refuse, occupants: refuse, find: refuse };
  const tools = callTools(deps, { ...refusing, ...host });
  tools.noteAnswered();
  const { logger } = deps;
  const config = configForCall(deps.config(), conf);
  return callContext(deps, tools, { config, logger, netnsState: "none" });
}

/** The fields of every log line of a sandbox: never its configuration or environment. */
export function sandboxFields(
  sandbox: Pick<Call, "containerId" | "ifName" | "pod">,
): Partial<Record<string, string>> {
  const { containerId, ifName, pod: { namespace: podNamespace, name: podName } = {} } = sandbox;
  const named = { containerId: containerId || undefined, ifName: ifName || undefined };
  return omitUndefined({ ...named, podNamespace, podName });
}
