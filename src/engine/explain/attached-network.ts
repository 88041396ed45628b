import { currentEntries } from "#engine/check/not-attached.ts";
import type { PodState } from "#engine/ports/cluster.ts";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { type JsonObject, objectsOf } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { lastAdd } from "./advice/facts.ts";
import type { CallRecord, ExplainedNetwork } from "./explanation.ts";

/** A network that the pod has, or whose ADD failed. */
export interface AttachedNetwork {
  readonly name: string;
  readonly isDefault: boolean;
  readonly explained: Omit<ExplainedNetwork, "network">;
  /** Absent where another meta-plugin attached it. */
  readonly recorded?: RecordedAttachment;
}

/** The record of a pod, and the last calls for it. */
export interface AttachedBefore {
  readonly record: AttachmentRecord | undefined;
  readonly calls: readonly CallRecord[];
}

/** The pod's networks by its record, or else by the status that another meta-plugin wrote. */
export async function attachedTo(
  { multusFiles }: EngineDeps,
  pod: PodState,
  { record, calls }: AttachedBefore,
): Promise<AttachedNetwork[]> {
  if (record !== undefined) return record.attachments.map(fromRecord);
  const mayBeOfOther = pod.phase === "Running" && lastAdd(calls) === undefined;
  const entries = mayBeOfOther ? currentEntries(pod) : [];
  const ofMultus = await multusFiles.containers().catch(() => []);
  return entries.map(fromStatus(ofMultus.length > 0 ? "Multus" : "another meta-plugin"));
}

function fromRecord(recorded: RecordedAttachment): AttachedNetwork {
  const { displayName: name, isDefault, state, ifName, device, ignoredRequests } = recorded;
  const addresses = addressesOf(recorded);
  const seen = omitUndefined({ ifName, addresses, device: device?.id, ignored: ignoredRequests });
  const isAttached = state === "attached";
  const explained = { isDefault, ...(isAttached && seen), ...requestsOf(recorded) };
  return { name, isDefault, recorded, explained };
}

function fromStatus(attachedBy: string): (entry: JsonObject) => AttachedNetwork {
  return ({ name, interface: ifName, ips, default: isFirst }) => {
    const isDefault = isFirst === true;
    const texts = (value: unknown): string[] => (typeof value === "string" ? [value] : []);
    const [shown] = texts(ifName);
    const addresses = Array.isArray(ips) ? ips.flatMap(texts) : [];
    const explained = omitUndefined({ isDefault, ifName: shown, addresses, attachedBy });
    return { name: texts(name)[0] ?? "", isDefault, explained };
  };
}

/** Plugins get these from every runtime, whatever the pod asks for. */
const usualArgs = /^(?:K8S_|IgnoreUnknown$)/;
const usualCapabilities = /^(?:io\.kubernetes\.|CNIDeviceInfoFile$)/;

/** What the plugins of an attachment are asked for, apart from what each of them gets. */
export function requestsOf(
  of: Pick<RecordedAttachment, "capabilityArgs" | "cniArgs">,
): Pick<ExplainedNetwork, "runtimeConfig" | "cniArgs"> {
  const given = Object.entries(of.capabilityArgs);
  const capabilities = given.filter(([key]) => !usualCapabilities.test(key));
  const args = of.cniArgs.filter(([key]) => !usualArgs.test(key));
  return {
    ...(capabilities.length > 0 && { runtimeConfig: Object.fromEntries(capabilities) }),
    ...(args.length > 0 && { cniArgs: args }),
  };
}

/** The addresses that its ADD gave to an attachment. */
export function addressesOf({ result }: RecordedAttachment): string[] {
  const addresses = objectsOf(result?.ips).map(({ address }) => address);
  return addresses.filter((address) => typeof address === "string");
}
