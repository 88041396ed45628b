import { parseCniArgs, parseCniArgsOfDel } from "#cni/args.ts";
import { checkWellKnownKeys, readCapabilities } from "#cni/conf/plugin-conf.ts";
import { parseJson, readDocument } from "#cni/document.ts";
import { CniError } from "#cni/error.ts";
import { checkTextLimit, limits } from "#cni/limits.ts";
import { validateNetworkName } from "#cni/names.ts";
import { type ValidAttachment, validAttachmentsKeys } from "#cni/valid-attachments.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";
import { type Command, checkedVersion, checkVariables, type Env, isCommand } from "./commands.ts";
import type { PluginRequest, RequestConf } from "./request.ts";

/**
 * Reads a call in the order of Go's plugins, with their codes and messages: variables,
 * configuration, command, versions.
 * @throws CniError 1, 3, 4, 6 or 7; 100 when the input exceeds a limit
 */
export function parsePluginRequest(env: Env, stdin: string): PluginRequest {
  const name = env.CNI_COMMAND ?? "";
  const command = isCommand(name) ? name : undefined;
  checkVariables(env, command);
  if (command !== "DEL") {
    checkTextLimit(limits.cniArgs, env.CNI_ARGS ?? "", "CNI_ARGS");
    checkTextLimit(limits.stdin, stdin, "the network configuration on stdin");
  }
  const conf = parseJson(stdin, undecodable.subject) ?? {};
  const known = readDocument(conf, undecodable, (fields) => ({
    name: fields.string("name") ?? "",
    cniVersion: fields.string("cniVersion") ?? "",
  }));
  if (known.name === "") throw new CniError("InvalidNetworkConfig", "missing network name");
  validateNetworkName(known.name);
  if (command === undefined) {
    throw new CniError("InvalidEnvironmentVariables", `unknown CNI_COMMAND: ${name}`);
  }
  const cniVersion = checkedVersion(command, known.cniVersion);
  return assemble(command, env, readRest(conf, { ...known, cniVersion }, command));
}

/** The error for a sandbox in the plugin's own network namespace. */
export function sameNetnsError(): CniError {
  return new CniError(
    "InvalidNetns",
    "plugin's netns and netns from CNI_NETNS should not be the same",
  );
}

/** Go's plugins read name and version first, and fail with this message. */
const undecodable = {
  subject: "error unmarshall network config",
  reason: "DecodingFailure",
} as const;

type RequestBody = ReturnType<typeof readRest>;

function readRest(conf: Json, known: Pick<RequestConf, "name" | "cniVersion">, command: Command) {
  const subject = "invalid network configuration on stdin";
  const options = { subject, reason: "InvalidNetworkConfig" } as const;
  return readDocument(conf, options, (fields) => {
    checkWellKnownKeys(fields);
    const type = fields.string("type") ?? "";
    const { raw } = fields;
    const runtimeConfig = readRuntimeConfig(fields, command);
    return {
      conf: { ...known, type, capabilities: readCapabilities(fields), raw, runtimeConfig },
      prevResult: fields.object("prevResult")?.raw,
      validAttachments: readValidAttachments(fields),
    };
  });
}

/** Malformed arguments do not fail a DEL: the ADD that had them was rejected and left nothing. */
function readRuntimeConfig(fields: FieldReader, command: Command): JsonObject {
  const { runtimeConfig } = fields.raw;
  if (command === "DEL") return isJsonObject(runtimeConfig) ? runtimeConfig : {};
  return fields.object("runtimeConfig")?.raw ?? {};
}

/** libcni writes null for an empty list. */
function readValidAttachments(fields: FieldReader): readonly ValidAttachment[] | undefined {
  const key = validAttachmentsKeys.find((candidate) => fields.has(candidate));
  if (key === undefined) return undefined;
  return fields.objects(key).map((item) => ({
    containerID: item.required("containerID"),
    ifname: item.required("ifname"),
  }));
}

function assemble(command: Command, env: Env, body: RequestBody): PluginRequest {
  const path = (env.CNI_PATH ?? "").split(":").filter((dir) => dir !== "");
  const { conf, prevResult, validAttachments } = body;
  const parseArgs = command === "DEL" ? parseCniArgsOfDel : parseCniArgs;
  if (command === "STATUS") return { command, conf, path };
  if (command === "GC") return omitUndefined({ command, conf, path, validAttachments });
  return omitUndefined({
    command,
    conf,
    path,
    containerId: env.CNI_CONTAINERID ?? "",
    netns: env.CNI_NETNS ?? "",
    ifName: env.CNI_IFNAME ?? "",
    cniArgs: parseArgs(env.CNI_ARGS ?? ""),
    prevResult,
    netnsOverride: /^(true|1)$/i.test(env.CNI_NETNS_OVERRIDE ?? ""),
  });
}
