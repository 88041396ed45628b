import type { NetConfList } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import { validateContainerId, validateIfName, validateNetworkName } from "#cni/names.ts";
import type { ValidAttachment } from "#cni/valid-attachments.ts";
import { isAtLeast, requireSupportedVersion } from "#cni/versions.ts";
import type { JsonObject } from "#lib/json.ts";
import type { DelegateCall, DelegateOutcome, RunDelegate } from "./delegate.ts";
import {
  attachmentCall,
  type DelegateLimits,
  networkCall,
  type RuntimeConf,
  versionCall,
} from "./delegate-calls.ts";
import { type DelegateError, delegateFailure } from "./delegate-error.ts";
import { type AddedNetwork, inListVersion, readAddOutput } from "./delegate-output.ts";

/** How the plugins of an ADD are run. */
export interface AddOptions {
  readonly run: RunDelegate;
  /** Gets each plugin's result before the next one is run. */
  readonly onResult?: (added: AddedNetwork) => Promise<void>;
}

/**
 * Runs the plugins of a list in order, each with the previous result, until one fails (CNI 1.1.0 §3
 * "Adding an attachment"). Does not roll back: the caller runs DEL.
 * @throws CniError before any plugin ran; DelegateError with the code of the failed plugin
 */
export async function addNetwork(
  list: NetConfList,
  rt: RuntimeConf,
  { run, onResult }: AddOptions,
): Promise<AddedNetwork> {
  validateContainerId(rt.containerId);
  validateNetworkName(list.name);
  validateIfName(rt.ifName);
  requireSupportedVersion(list.cniVersion);
  let added: AddedNetwork | undefined;
  for (const plugin of list.plugins) {
    const call = attachmentCall({ list, plugin, rt }, "ADD", added?.raw ?? rt.prevResult);
    const { stdout } = await execute(call, run);
    added = readAddOutput(stdout, list.cniVersion, call);
    await onResult?.(added);
  }
  if (added === undefined) throw new CniError("InvalidNetworkConfig", "no plugins in list");
  return added;
}

/**
 * The DEL calls of an attachment, last plugin first: CNI 1.1.0 §3 "Deleting an attachment". From
 * version 0.4.0 on each gets the result of the ADD in the list's version, as {@link addNetwork}
 * returns it; of an ADD that failed, the last result that it had.
 */
export function delCalls(list: NetConfList, rt: RuntimeConf, added?: JsonObject): DelegateCall[] {
  const prevResult = isAtLeast(list.cniVersion, "0.4.0") ? added : undefined;
  return list.plugins
    .map((plugin) => attachmentCall({ list, plugin, rt }, "DEL", prevResult))
    .toReversed();
}

/** The same with a stored result, of any version: they get none if it is damaged. */
export function delCallsOfStored(
  list: NetConfList,
  rt: RuntimeConf,
  stored: JsonObject | undefined,
): DelegateCall[] {
  let added: JsonObject | undefined;
  try {
    added = stored && inListVersion(stored, list.cniVersion);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
  }
  return delCalls(list, rt, added);
}

/**
 * Checks an attachment (CNI 1.1.0 §3). The list is of 0.4.0 or newer, without `disableCheck`.
 * @throws DelegateError of the first plugin that fails; CniError when the result is damaged
 */
export async function checkNetwork(
  list: NetConfList,
  rt: RuntimeConf,
  options: { prevResult: JsonObject; run: RunDelegate },
): Promise<void> {
  const known = inListVersion(options.prevResult, list.cniVersion);
  for (const plugin of list.plugins) {
    const call = attachmentCall({ list, plugin, rt }, "CHECK", known);
    await execute(call, options.run);
  }
}

/**
 * Asks every plugin of a list of 1.1.0 or newer whether it is ready for ADD.
 * @throws DelegateError of the first plugin that is not
 */
export async function statusNetwork(
  list: NetConfList,
  limits: DelegateLimits,
  run: RunDelegate,
): Promise<void> {
  for (const plugin of list.plugins) {
    const call = networkCall({ list, plugin, limits }, "STATUS");
    await execute(call, run);
  }
}

/** Runs GC with every plugin, unless the list is older than 1.1.0 or disables it. @returns errors */
export async function gcNetwork(
  list: NetConfList,
  valid: readonly ValidAttachment[],
  options: DelegateLimits & { run: RunDelegate },
): Promise<DelegateError[]> {
  if (list.disableGC || !isAtLeast(list.cniVersion, "1.1.0")) return [];
  const errors: DelegateError[] = [];
  for (const plugin of list.plugins) {
    const call = networkCall({ list, plugin, limits: options }, "GC", valid);
    const outcome = await options.run(call);
    if (!succeeded(outcome)) errors.push(delegateFailure(outcome, call));
  }
  return errors;
}

/**
 * Checks that a plugin can be executed, by VERSION (CNI 1.1.0 §2), which plugins of 0.1.0 do not know.
 * @throws DelegateError when it fails otherwise
 */
export async function checkExecutable(
  type: string,
  limits: DelegateLimits,
  run: RunDelegate,
): Promise<void> {
  const call = versionCall(type, limits);
  const outcome = await run(call);
  if (succeeded(outcome)) return;
  const failure = delegateFailure(outcome, call);
  if (!failure.message.endsWith(": unknown CNI_COMMAND: VERSION")) throw failure;
}

async function execute(call: DelegateCall, run: RunDelegate): Promise<DelegateOutcome> {
  const outcome = await run(call);
  if (succeeded(outcome)) return outcome;
  throw delegateFailure(outcome, call);
}

function succeeded(outcome: DelegateOutcome): boolean {
  return outcome.outcome === "exited" && outcome.code === 0;
}
