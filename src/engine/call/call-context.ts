import type { PluginRequest } from "#cni/plugin/request.ts";
import { configForCall } from "#engine/config.ts";
import { HostGoneError, type NetnsState } from "#engine/ports.ts";
import type { JsonObject } from "#lib/json.ts";
import type { Call, CallHost } from "./call.ts";
import { CallDelegates } from "./call-delegates.ts";
import type { CallContext, EngineDeps } from "./deps.ts";
import { Trace } from "./trace.ts";

/** What a call is served with. */
export interface CallTools extends Pick<CallContext, "startedAt" | "trace" | "answered"> {
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
  return { host, startedAt, trace, answered, noteAnswered, delegates };
}

async function refuse(): Promise<never> {
  throw new HostGoneError("there is no call, so nothing is executed");
}

/** What the functions that serve a call work with. */
export function callContext(
  deps: EngineDeps,
  tools: CallTools,
  call: Pick<CallContext, "config" | "logger" | "netnsState" | "netnsProcess" | "links">,
): CallContext {
  const { delegates, noteAnswered: _, ...others } = tools;
  const delegateRunner: CallContext["delegateRunner"] = (network) => delegates.runner(network);
  return { deps, ...others, delegateRunner, signal: others.host.gone, ...call };
}

/**
 * The context of work that no call carries, and that executes nothing.
 * @param conf the conf with which the container runtime calls Plexus
 * @param find looks up plugins. @default refuses
 * @throws CniError 7 for an invalid configuration
 */
export function contextWithoutCall(
  deps: EngineDeps,
  conf: JsonObject,
  find: CallHost["find"] = refuse,
): CallContext {
  const gone = new AbortController().signal;
  const tools = callTools(deps, { gone, exec: refuse, netlink: refuse, find });
  tools.noteAnswered();
  const { logger } = deps;
  const config = configForCall(deps.config(), conf);
  return callContext(deps, tools, { config, logger, netnsState: "none" });
}

/** What the shim, which runs in the runtime's network namespace, found at CNI_NETNS. */
export function netnsStateOf(call: Call, request: PluginRequest): NetnsState {
  if (!("netns" in request) || request.netns === "") return "none";
  const { netnsState } = call;
  if (netnsState === "own") return request.netnsOverride ? "ok" : "own";
  return netnsState === "ok" || netnsState === "gone" ? netnsState : "unknown";
}
