import { type EnteredSandbox, type SandboxToEnter, world } from "../../world/world.ts";
import { netnsState, ShimCall } from "./call.ts";
import { lockTry } from "./lock.ts";
import { planIsLive } from "./replay.ts";

/** `agent_enter` of shim/agent.c: locks the sandbox, for which the session's further orders then are. */
export function agentEnter(session: ShimCall, sandbox: SandboxToEnter): EnteredSandbox {
  const { containerId, ifName, netns } = sandbox;
  const { process, runtime, stdin } = session;
  const env = {
    ...session.env,
    ...{ CNI_COMMAND: "ADD", CNI_CONTAINERID: containerId, CNI_IFNAME: ifName, CNI_NETNS: netns },
  };
  const own = new ShimCall({ env, stdin }, { process, runtime });
  const call = lockTry(own);
  if (call === undefined) return refusal("busy", "another operation on the sandbox runs");
  session.entered = call;
  if (call.lock === undefined) return refusal("refused", "the sandbox cannot be locked");
  if (!planIsLive(call, call))
    return refusal("gone", "the sandbox has no record, or its DEL has begun");
  const state = netnsState(netns);
  if (state === "gone") return refusal("gone", "the sandbox's network namespace is gone");
  if (state !== "ok") return refusal("refused", "the path is not where a namespace is mounted");
  const names = world().kernel.linkNames(netns);
  return { outcome: "ok", message: "", links: names.map((name) => `${name}/`).join("") };
}

function refusal(
  outcome: Exclude<EnteredSandbox["outcome"], "ok">,
  message: string,
): EnteredSandbox {
  return { outcome, message, links: "" };
}
