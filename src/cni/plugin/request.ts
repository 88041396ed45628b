import { parseCniArgs } from "#cni/args.ts";
import { checkWellKnownKeys, type PluginConf, readCapabilities } from "#cni/conf/plugin-conf.ts";
import { CniError, CniErrorCode } from "#cni/error.ts";
import { FieldReader, Problems } from "#cni/field-reader.ts";
import { validateNetworkName } from "#cni/names.ts";
import type { ValidAttachment } from "#cni/runtime/delegate-stdin.ts";
import { isJsonObject, type JsonObject, jsonTypeName } from "#lib/json.ts";
import { JsonTextError, parseJsonText } from "#lib/json-text.ts";
import { type Command, checkVariables, checkVersion, type Env, isCommand } from "./commands.ts";

export { readBandwidth, readPortMappings } from "#cni/capability-values.ts";

/** The configuration that a runtime hands to a plugin on stdin. */
export interface RequestConf extends PluginConf {
  readonly name: string;
  /** As given; "" means 0.1.0. */
  readonly cniVersion: string;
}

interface Request {
  readonly conf: RequestConf;
  /** CNI_PATH, without empty elements; empty when the runtime sets none. */
  readonly path: readonly string[];
}

interface AttachmentRequest extends Request {
  readonly containerId: string;
  /** "" where DEL has none. */
  readonly netns: string;
  readonly ifName: string;
  readonly cniArgs: readonly (readonly [string, string])[];
  readonly prevResult?: JsonObject;
  /** CNI_NETNS_OVERRIDE: the sandbox may be the plugin's own network namespace. */
  readonly netnsOverride: boolean;
}

export interface AddRequest extends AttachmentRequest {
  readonly command: "ADD";
}

export interface DelRequest extends AttachmentRequest {
  readonly command: "DEL";
}

export interface CheckRequest extends AttachmentRequest {
  readonly command: "CHECK";
}

export interface StatusRequest extends Request {
  readonly command: "STATUS";
}

export interface GcRequest extends Request {
  readonly command: "GC";
  readonly validAttachments: ValidAttachments;
}

/**
 * The attachments that GC must leave alone. An empty list says that nothing is in use; without
 * any (cnitool) the runtime does not say.
 */
export type ValidAttachments =
  | { readonly kind: "absent" }
  | { readonly kind: "list"; readonly items: readonly ValidAttachment[] };

/** A call of a CNI plugin: CNI 1.1.0 §2. VERSION is not among them: the shim answers it. */
export type PluginRequest = AddRequest | DelRequest | CheckRequest | StatusRequest | GcRequest;

/**
 * Reads a call as Go's plugins do: variables, then configuration, then command, then versions,
 * with their codes and words.
 * @throws CniError 1, 3, 4, 6 or 7
 */
export function parsePluginRequest(env: Env, stdin: string): PluginRequest {
  const name = env.CNI_COMMAND ?? "";
  const command = isCommand(name) ? name : undefined;
  checkVariables(env, command);
  const conf = decodeConf(stdin);
  const network = readString(conf, "name");
  if (network === "") throw new CniError(CniErrorCode.InvalidNetworkConfig, "missing network name");
  validateNetworkName(network);
  if (command === undefined) {
    throw new CniError(CniErrorCode.InvalidEnvironmentVariables, `unknown CNI_COMMAND: ${name}`);
  }
  const cniVersion = readString(conf, "cniVersion");
  checkVersion(command, cniVersion);
  return assemble(command, env, readRest(conf, { name: network, cniVersion }));
}

/** The error for a sandbox whose network namespace is the plugin's own. */
export function sameNetnsError(): CniError {
  return new CniError(
    CniErrorCode.InvalidNetns,
    "plugin's netns and netns from CNI_NETNS should not be the same",
  );
}

function decodeConf(stdin: string): JsonObject {
  try {
    const conf = parseJsonText(stdin) ?? {};
    if (isJsonObject(conf)) return conf;
    throw undecodable(`must be an object, got ${jsonTypeName(conf)}`);
  } catch (error) {
    throw error instanceof JsonTextError ? undecodable(error.message) : error;
  }
}

function readString(conf: JsonObject, key: string): string {
  const value = conf[key] ?? "";
  if (typeof value === "string") return value;
  throw undecodable(`${key}: must be a string, got ${jsonTypeName(value)}`);
}

function undecodable(reason: string): CniError {
  return new CniError(CniErrorCode.DecodingFailure, `error unmarshall network config: ${reason}`);
}

/** What the configuration holds beyond name and version. */
interface RequestBody {
  readonly conf: RequestConf;
  readonly prevResult: JsonObject | undefined;
  readonly validAttachments: ValidAttachments;
}

/** @throws CniError 7 naming every field that is wrong */
function readRest(raw: JsonObject, known: { name: string; cniVersion: string }): RequestBody {
  const problems = new Problems();
  const fields = new FieldReader(raw, { path: "", problems });
  checkWellKnownKeys(fields);
  const type = fields.string("type") ?? "";
  const conf = { ...known, type, capabilities: readCapabilities(fields), raw };
  const prevResult = fields.object("prevResult")?.raw;
  const validAttachments = readValidAttachments(fields);
  problems.throwIfAny(CniErrorCode.InvalidNetworkConfig, "invalid network configuration on stdin");
  return { conf, prevResult, validAttachments };
}

/**
 * The list of CNI 1.1.0 §2 "GC", under the name of the specification or else of its 1.1.0 tag.
 * libcni writes null for an empty one.
 */
function readValidAttachments(fields: FieldReader): ValidAttachments {
  const keys = ["cni.dev/valid-attachments", "cni.dev/attachments"];
  const key = keys.find((candidate) => fields.has(candidate));
  if (key === undefined) return { kind: "absent" };
  const items = fields.objects(key).map((item) => ({
    containerID: item.required("containerID"),
    ifname: item.required("ifname"),
  }));
  return { kind: "list", items };
}

function assemble(command: Command, env: Env, body: RequestBody): PluginRequest {
  const path = (env.CNI_PATH ?? "").split(":").filter((dir) => dir !== "");
  const { conf, prevResult, validAttachments } = body;
  if (command === "STATUS") return { command, conf, path };
  if (command === "GC") return { command, conf, path, validAttachments };
  return {
    command,
    conf,
    path,
    containerId: env.CNI_CONTAINERID ?? "",
    netns: env.CNI_NETNS ?? "",
    ifName: env.CNI_IFNAME ?? "",
    cniArgs: parseCniArgs(env.CNI_ARGS ?? ""),
    ...(prevResult === undefined ? {} : { prevResult }),
    netnsOverride: /^(true|1)$/i.test(env.CNI_NETNS_OVERRIDE ?? ""),
  };
}
