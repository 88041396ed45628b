import { dirname, resolve } from "node:path";
import { tryParseJson } from "#cni/document.ts";
import { errorMessage } from "#lib/error-message.ts";
import { type Links, readTextFile } from "#lib/files/read-file.ts";
import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { parseYamlDocuments, placeOf, YamlError } from "#lib/parsing/yaml.ts";

/** TLS settings of a kubeconfig; certificates and keys are PEM. */
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

/** What a kubeconfig file contains, before its values are checked. */
interface Kubeconfig {
  readonly document: JsonObject;
  /** Relative paths in it start here. */
  readonly dir: string;
  /** Of the current context. */
  readonly cluster: JsonObject;
  readonly user: JsonObject;
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

const userKeysOfAdministrator = new Set([...userKeys, "tokenFile"]);

/**
 * Reads a kubeconfig file that needs only certificates or a token. Nothing is executed. Someone else
 * than the node's administrator may have written it, so no other file's content is sent as a token
 * to the server that it names, unless `allowsTokenFile`.
 * @throws Error naming the file and what is wrong with it
 */
export function readPlainKubeconfig(
  path: string,
  { allowsTokenFile = false, links }: { allowsTokenFile?: boolean; links?: Links } = {},
): PlainKubeconfig {
  try {
    const kubeconfig = readKubeconfig(path, links);
    const key = unusableKey(kubeconfig, allowsTokenFile ? userKeysOfAdministrator : userKeys);
    if (key === undefined) return plainKubeconfig(kubeconfig);
    const token = allowsTokenFile ? "a token" : "a token in the file";
    throw new Error(`${key}: only a certificate or ${token} can be used here`);
  } catch (error) {
    throw new Error(`kubeconfig ${path}: ${errorMessage(error)}`, { cause: error });
  }
}

/** Reads a kubeconfig file. @throws Error that quotes nothing of it */
function readKubeconfig(path: string, links: Links = "any"): Kubeconfig {
  const document = documentOf(readTextFile(path, links));
  return { document, dir: dirname(path), ...currentOf(document) };
}

/** A key with a value that asks for more than certificates and a token. */
function unusableKey({ cluster, user }: Kubeconfig, ofUser: ReadonlySet<string>) {
  const others = (of: JsonObject, keys: ReadonlySet<string>) =>
    Object.keys(of).filter((key) => !keys.has(key) && ![null, "", false].includes(of[key] as null));
  return [...others(cluster, clusterKeys), ...others(user, ofUser)][0];
}

/** The values of a kubeconfig, and of the files that it names, as kubectl reads them. @throws Error */
function plainKubeconfig(kubeconfig: Kubeconfig): PlainKubeconfig {
  const { cluster, user, dir } = kubeconfig;
  const pem = (from: JsonObject, key: string): string | undefined => pemOf(from, { key, dir });
  const tls = omitUndefined({
    ca: pem(cluster, "certificate-authority"),
    cert: pem(user, "client-certificate"),
    key: pem(user, "client-key"),
    serverName: textIn(cluster, "tls-server-name"),
    rejectUnauthorized: !isInsecure(cluster),
  });
  return { server: serverOf(kubeconfig), tls, ...omitUndefined({ token: tokenOf(kubeconfig) }) };
}

/** The API server's address. @throws Error when it is not one */
function serverOf({ cluster }: Kubeconfig): URL {
  const server = textIn(cluster, "server") ?? "";
  if (!/^https?:/.test(server) || !URL.canParse(server)) {
    throw new Error("the cluster's server is not an http or https URL");
  }
  return new URL(server);
}

/** The token, or what its file has now. @throws Error when it would not fit into a header */
function tokenOf({ user, dir }: Kubeconfig): string | undefined {
  const file = textIn(user, "tokenFile");
  const text = file === undefined ? textIn(user, "token") : readTextFile(resolve(dir, file), "any");
  const token = text?.trim();
  if (token === undefined || /^[\x21-\x7e]+$/.test(token)) return token;
  throw new Error("the token has a character that is not allowed");
}

/** @throws Error when the text is not a mapping in JSON or YAML; the message quotes none of it */
function documentOf(text: string): JsonObject {
  // plexusd writes JSON, for which the parser of YAML need not be loaded.
  const json = tryParseJson(text);
  const documents = json === undefined ? yamlOf(text) : [json];
  if (documents.length > 1) throw new Error("it has several YAML documents");
  const [document] = documents;
  if (!isJsonObject(document)) throw new Error("it is not a YAML mapping");
  return document;
}

function yamlOf(text: string): unknown[] {
  try {
    return [...parseYamlDocuments(text)];
  } catch (error) {
    // The error may quote a secret of the file, so it is not the cause either.
    const reason =
      error instanceof YamlError
        ? `${error.problem.code} ${placeOf(error.problem)}`
        : "its aliases cannot be resolved";
    throw new Error(`it is not YAML: ${reason}`);
  }
}

/** The cluster and the user of the current context. */
function currentOf(document: JsonObject): Pick<Kubeconfig, "cluster" | "user"> {
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

function entries(document: JsonObject, key: string): JsonObject[] {
  const list = document[key] ?? [];
  if (!Array.isArray(list) || !list.every(isJsonObject)) {
    throw new Error(`${key} is not a list of mappings`);
  }
  return list;
}

/** As in kubectl, data in the kubeconfig comes before a file. */
function pemOf(
  member: JsonObject,
  { key, dir }: { readonly key: string; readonly dir: string },
): string | undefined {
  const data = textIn(member, `${key}-data`);
  if (data !== undefined) return Buffer.from(data, "base64").toString();
  const file = textIn(member, key);
  return file === undefined ? undefined : readTextFile(resolve(dir, file), "any");
}

function isInsecure(cluster: JsonObject): boolean {
  const value = cluster["insecure-skip-tls-verify"] ?? false;
  if (typeof value === "boolean") return value;
  throw new Error("insecure-skip-tls-verify is not a boolean");
}

/** Undefined when it is absent, null or empty. */
function textIn(object: JsonObject, key: string): string | undefined {
  const value = object[key] ?? "";
  if (typeof value !== "string") throw new Error(`${key} is not a string`);
  return value === "" ? undefined : value;
}
