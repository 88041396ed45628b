import { resolve } from "node:path";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { parseYamlDocuments, placeOf, YamlError } from "#lib/yaml.ts";

/**
 * A kubeconfig as the Kubernetes client library has to get it to read what kubectl reads: the library passes
 * over `tokenFile`, reads a `token-file` that nothing else knows, prefers a certificate's file to its data, and
 * takes no `http` server unless told that TLS need not be verified.
 * @throws Error when the text is no YAML document of a kubeconfig's form; it does not show any of it
 */
export function kubeconfigForLibrary(text: string, dir: string): string {
  const document = parseDocument(text);
  if (!isJsonObject(document)) throw new Error("it is not a YAML mapping");
  const clusters = entries(document, "clusters").map((entry) =>
    withMember(entry, "cluster", clusterForLibrary),
  );
  const users = entries(document, "users").map((entry) =>
    withMember(entry, "user", (user) => userForLibrary(user, dir)),
  );
  return JSON.stringify({ ...document, clusters, users, contexts: entries(document, "contexts") });
}

function parseDocument(text: string): unknown {
  const documents = documentsOf(text);
  if (documents.length > 1) throw new Error("it has several YAML documents");
  return documents[0];
}

function documentsOf(text: string): unknown[] {
  try {
    return [...parseYamlDocuments(text)];
  } catch (error) {
    // The error itself, and so as a cause, may quote a word of the file, which has secrets.
    const reason =
      error instanceof YamlError
        ? `${error.problem.code} ${placeOf(error.problem)}`
        : "its aliases cannot be resolved";
    throw new Error(`it is not YAML: ${reason}`);
  }
}

function entries(document: JsonObject, key: string): JsonObject[] {
  const list = document[key] ?? [];
  if (!Array.isArray(list) || !list.every(isJsonObject)) {
    throw new Error(`${key} is not a list of mappings`);
  }
  return list;
}

function withMember(
  entry: JsonObject,
  key: string,
  change: (member: JsonObject) => JsonObject,
): JsonObject {
  const member = entry[key];
  return isJsonObject(member) ? { ...entry, [key]: change(member) } : entry;
}

function clusterForLibrary(cluster: JsonObject): JsonObject {
  const usual = withoutFiles(cluster, ["certificate-authority"]);
  const isHttp = typeof cluster.server === "string" && cluster.server.startsWith("http:");
  return isHttp ? { ...usual, "insecure-skip-tls-verify": true } : usual;
}

function userForLibrary(user: JsonObject, dir: string): JsonObject {
  const { "token-file": _, tokenFile, token, ...rest } = user;
  const usual = withoutFiles(rest, ["client-certificate", "client-key"]);
  if (typeof tokenFile !== "string" || tokenFile === "") {
    return token === undefined ? usual : { ...usual, token };
  }
  const config = { tokenFile: resolve(dir, tokenFile) };
  return { ...usual, "auth-provider": { name: "tokenFile", config } };
}

/** Leaves out the files of which the kubeconfig has the content. */
function withoutFiles(member: JsonObject, keys: readonly string[]): JsonObject {
  const hasData = (key: string): boolean => keys.includes(key) && Boolean(member[`${key}-data`]);
  return Object.fromEntries(Object.entries(member).filter(([key]) => !hasData(key)));
}
