import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { entries, kubeconfigDocument } from "#kube/api/kubeconfig-text.ts";
import { errorMessage } from "#lib/error-message.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { parseJsonText } from "#lib/parsing/json-text.ts";

/** Settings for `tls` of Bun's fetch(); certificates and keys are PEM. */
interface TlsSettings {
  /** Trusted instead of the system's authorities. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** @default the server's host name */
  readonly serverName?: string;
  readonly rejectUnauthorized: boolean;
}

/** A server, and a certificate or a token for it. */
export interface PlainKubeconfig {
  readonly server: URL;
  readonly tls: TlsSettings;
  readonly token?: string;
}

const clusterKeys = new Set([
  "server",
  "certificate-authority",
  "certificate-authority-data",
  "tls-server-name",
  "insecure-skip-tls-verify",
  "disable-compression",
  "extensions",
]);

const userKeys = new Set([
  "token",
  "client-certificate",
  "client-certificate-data",
  "client-key",
  "client-key-data",
  "extensions",
]);

/**
 * Reads a kubeconfig file that someone else than the node's administrator may have written:
 * certificates, or a token in the file. Nothing is executed, and no other file's content is sent to
 * the server that the file names.
 * @throws Error naming the file and what is wrong with it
 */
export function readPlainKubeconfig(path: string): PlainKubeconfig {
  try {
    return parse(readFileSync(path, "utf8"), dirname(path));
  } catch (error) {
    throw new Error(`kubeconfig ${path}: ${errorMessage(error)}`, { cause: error });
  }
}

function parse(text: string, dir: string): PlainKubeconfig {
  const { cluster, user } = currentOf(documentOf(text));
  if (!areKnown(cluster, clusterKeys) || !areKnown(user, userKeys)) {
    throw new Error("only a certificate or a token in the file can be used here");
  }
  const pem = (from: JsonObject, key: string): string | undefined => pemOf(from, { key, dir });
  const tls = omitUndefined({
    ca: pem(cluster, "certificate-authority"),
    cert: pem(user, "client-certificate"),
    key: pem(user, "client-key"),
    serverName: textIn(cluster, "tls-server-name"),
    rejectUnauthorized: !isInsecure(cluster),
  });
  return { server: serverOf(cluster), tls, ...omitUndefined({ token: tokenOf(user) }) };
}

/** plexusd writes JSON, for which the parser of YAML need not be loaded. */
function documentOf(text: string): JsonObject {
  try {
    const parsed = parseJsonText(text);
    if (isJsonObject(parsed)) return parsed;
  } catch {
    // It is not JSON.
  }
  return kubeconfigDocument(text);
}

/** The cluster and the user of the current context. */
function currentOf(document: JsonObject): { cluster: JsonObject; user: JsonObject } {
  const current = textIn(document, "current-context");
  if (current === undefined) throw new Error("current-context is missing");
  const named = (list: string, name: Json | undefined, member: string): JsonObject | undefined => {
    const value = entries(document, list).find((entry) => entry.name === name)?.[member];
    return isJsonObject(value) ? value : undefined;
  };
  const context = named("contexts", current, "context");
  const cluster = named("clusters", context?.cluster, "cluster");
  const user = named("users", context?.user, "user");
  if (cluster === undefined || user === undefined) {
    throw new Error(`context ${current}, its cluster or its user is missing`);
  }
  return { cluster, user };
}

function areKnown(member: JsonObject, keys: ReadonlySet<string>): boolean {
  return Object.entries(member).every(
    ([key, value]) => keys.has(key) || value === null || value === "" || value === false,
  );
}

function serverOf(cluster: JsonObject): URL {
  const server = textIn(cluster, "server") ?? "";
  if (!/^https?:/.test(server) || !URL.canParse(server)) {
    throw new Error("the cluster's server is not an http or https URL");
  }
  return new URL(server);
}

/** As in kubectl, data in the kubeconfig comes before a file. */
function pemOf(
  member: JsonObject,
  { key, dir }: { readonly key: string; readonly dir: string },
): string | undefined {
  const data = textIn(member, `${key}-data`);
  if (data !== undefined) return Buffer.from(data, "base64").toString();
  const file = textIn(member, key);
  return file === undefined ? undefined : readFileSync(resolve(dir, file), "utf8");
}

function isInsecure(cluster: JsonObject): boolean {
  const value = cluster["insecure-skip-tls-verify"] ?? false;
  if (typeof value === "boolean") return value;
  throw new Error("insecure-skip-tls-verify is not a boolean");
}

/** @throws Error when the token would not fit into the header of a request */
function tokenOf(user: JsonObject): string | undefined {
  const token = textIn(user, "token")?.trim();
  if (token === undefined || /^[\x21-\x7e]+$/.test(token)) return token;
  throw new Error("the token has a character that is not allowed");
}

/** Undefined when it is absent, null or empty. */
function textIn(object: JsonObject, key: string): string | undefined {
  const value = object[key] ?? "";
  if (typeof value !== "string") throw new Error(`${key} is not a string`);
  return value === "" ? undefined : value;
}
