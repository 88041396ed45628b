import { resolve } from "node:path";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import { parseYamlDocuments, placeOf, YamlError } from "#lib/parsing/yaml.ts";

/**
 * Rewrites a kubeconfig so that the Kubernetes client library reads what kubectl reads. The library
 * ignores `tokenFile`, reads a `token-file` that no other client knows, prefers a certificate's file
 * to its data, and refuses an `http` server unless TLS need not be verified.
 * @throws Error when the text is not a kubeconfig in YAML; the message quotes none of it
 */
export function kubeconfigForLibrary(text: string, dir: string): string {
  const document = kubeconfigDocument(text);
  const withMember = (
    { list, member }: { list: string; member: string },
    change: (value: JsonObject) => JsonObject,
  ): JsonObject[] =>
    entries(document, list).map((entry) => {
      const value = entry[member];
      return isJsonObject(value) ? { ...entry, [member]: change(value) } : entry;
    });
  return JSON.stringify({
    ...document,
    clusters: withMember({ list: "clusters", member: "cluster" }, clusterForLibrary),
    users: withMember({ list: "users", member: "user" }, (user) => userForLibrary(user, dir)),
    contexts: entries(document, "contexts"),
  });
}

/**
 * The mapping that a kubeconfig consists of.
 * @throws Error when the text is not one in YAML; the message quotes none of it
 */
export function kubeconfigDocument(text: string): JsonObject {
  const documents = documentsOf(text);
  if (documents.length > 1) throw new Error("it has several YAML documents");
  const [document] = documents;
  if (!isJsonObject(document)) throw new Error("it is not a YAML mapping");
  return document;
}

function documentsOf(text: string): unknown[] {
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

/** A list of the kubeconfig. @throws Error when it is not one */
export function entries(document: JsonObject, key: string): JsonObject[] {
  const list = document[key] ?? [];
  if (!Array.isArray(list) || !list.every(isJsonObject)) {
    throw new Error(`${key} is not a list of mappings`);
  }
  return list;
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

/** Removes the files whose content the kubeconfig has, too. */
function withoutFiles(member: JsonObject, keys: readonly string[]): JsonObject {
  const hasData = (key: string): boolean => keys.includes(key) && Boolean(member[`${key}-data`]);
  return Object.fromEntries(Object.entries(member).filter(([key]) => !hasData(key)));
}
