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

interface Request {
  readonly conf: RequestConf;
  /** CNI_PATH, without empty elements; empty when the runtime sets none. */
  readonly path: readonly string[];
}

interface AttachmentRequest extends Request {
  readonly containerId: string;
  /** "" when DEL has none. */
  readonly netns: string;
  readonly ifName: string;
  readonly cniArgs: CniArgs;
  readonly prevResult?: JsonObject;
  /** CNI_NETNS_OVERRIDE: the sandbox may be the plugin's own network namespace. */
  readonly netnsOverride: boolean;
}

/** CNI 1.1.0 §2 "ADD". */
export interface AddRequest extends AttachmentRequest {
  readonly command: "ADD";
}

/** CNI 1.1.0 §2 "DEL". */
export interface DelRequest extends AttachmentRequest {
  readonly command: "DEL";
}

/** CNI 1.1.0 §2 "CHECK". */
export interface CheckRequest extends AttachmentRequest {
  readonly command: "CHECK";
}

/** CNI 1.1.0 §2 "STATUS". */
export interface StatusRequest extends Request {
  readonly command: "STATUS";
}

/** CNI 1.1.0 §2 "GC". */
export interface GcRequest extends Request {
  readonly command: "GC";
  readonly validAttachments: ValidAttachments;
}

/** The attachments that GC must keep; absent (cnitool) when the runtime does not say. */
export type ValidAttachments =
  | { readonly kind: "absent" }
  | { readonly kind: "list"; readonly items: readonly ValidAttachment[] };

/** A call of a CNI plugin (CNI 1.1.0 §2), except VERSION, which the shim answers. */
export type PluginRequest = AddRequest | DelRequest | CheckRequest | StatusRequest | GcRequest;
