import type { CniArgs } from "#cni/args.ts";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import type { ValidAttachment } from "#cni/valid-attachments.ts";
import type { JsonObject } from "#lib/json.ts";

/** The configuration that a runtime hands to a plugin on stdin. */
export interface RequestConf extends PluginConf {
  readonly name: string;
  /** As given; "" means 0.1.0. */
  readonly cniVersion: string;
  /** The runtime's values for declared capabilities; empty when it sends none. */
  readonly runtimeConfig: JsonObject;
}

interface Request<C extends string> {
  readonly command: C;
  readonly conf: RequestConf;
  /** CNI_PATH, without empty elements; empty when the runtime sets none. */
  readonly path: readonly string[];
}

interface AttachmentRequest<C extends string> extends Request<C> {
  readonly containerId: string;
  /** "" when DEL has none. */
  readonly netns: string;
  readonly ifName: string;
  readonly cniArgs: CniArgs;
  readonly prevResult?: JsonObject;
  /** CNI_NETNS_OVERRIDE: the sandbox may be the plugin's own network namespace. */
  readonly netnsOverride: boolean;
}

export type AddRequest = AttachmentRequest<"ADD">;
export type DelRequest = AttachmentRequest<"DEL">;
export type CheckRequest = AttachmentRequest<"CHECK">;
export type StatusRequest = Request<"STATUS">;

export interface GcRequest extends Request<"GC"> {
  /** The attachments to keep; absent (cnitool) when the runtime does not say. */
  readonly validAttachments?: readonly ValidAttachment[];
}

/** A call of a CNI plugin (CNI 1.1.0 §2), except VERSION, which the shim answers. */
export type PluginRequest = AddRequest | DelRequest | CheckRequest | StatusRequest | GcRequest;
