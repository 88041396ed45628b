import type { IncomingMessage, ServerResponse } from "node:http";
import { asObject, type JsonObject } from "../json.ts";
import { nadApiVersion } from "./cluster.ts";
import { decodeMetadata, isProtobuf } from "./protobuf.ts";

/** A request to the suite's API server. */
export interface Request {
  readonly method: string;
  readonly query: URLSearchParams;
  /** The client wants the metadata alone. */
  readonly metadataOnly: boolean;
  readonly body: JsonObject;
  readonly collection: string;
  readonly namespace: string;
  readonly name: string;
}

/** Kind and version of the objects of each collection. */
export const kinds: Readonly<Record<string, JsonObject>> = {
  namespaces: { kind: "Namespace", apiVersion: "v1" },
  nodes: { kind: "Node", apiVersion: "v1" },
  pods: { kind: "Pod", apiVersion: "v1" },
  "network-attachment-definitions": {
    kind: "NetworkAttachmentDefinition",
    apiVersion: nadApiVersion,
  },
};

/** An object as the client wants it: whole, or its metadata alone. */
export function viewed(object: JsonObject, { metadataOnly }: Request): JsonObject {
  if (!metadataOnly) return object;
  return { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: object.metadata };
}

/** Namespace and field selectors on `metadata` and `spec`. */
export function isSelected(object: JsonObject, { namespace, query }: Request): boolean {
  if (namespace !== "" && asObject(object.metadata).namespace !== namespace) return false;
  const terms = (query.get("fieldSelector") ?? "").split(",").filter((term) => term !== "");
  return terms.every((term) => {
    const [path = "", value] = term.split("=");
    const [part = "", key = ""] = path.split(".");
    return (asObject(object[part])[key] ?? "") === value;
  });
}

/** @throws SyntaxError if the body is neither JSON nor protobuf */
export async function readRequest(incoming: IncomingMessage): Promise<Request> {
  const url = new URL(incoming.url ?? "/", "https://server");
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const parts = url.pathname.split("/").filter((part) => part !== "");
  const rest = parts.slice(parts[0] === "api" ? 2 : 3);
  const isNamespaced = rest[0] === "namespaces" && rest.length > 2;
  const [collection = "", name = ""] = isNamespaced ? rest.slice(2) : rest;
  return {
    method: incoming.method ?? "",
    query: url.searchParams,
    metadataOnly: incoming.headers.accept?.includes("as=PartialObjectMetadata") ?? false,
    body: body.length === 0 ? {} : isProtobuf(body) ? decodeMetadata(body) : JSON.parse(`${body}`),
    collection,
    namespace: isNamespaced ? (rest[1] ?? "") : "",
    name,
  };
}

/** `COLLECTION/NAMESPACE/NAME` of an object. */
export function keyOf(object: JsonObject): string {
  const { namespace = "", name } = asObject(object.metadata);
  const [collection] = Object.entries(kinds).find(([, { kind }]) => kind === object.kind) ?? [];
  return `${collection}/${namespace}/${name}`;
}

/** Answers with JSON. */
export function send(response: ServerResponse, status: number, body: JsonObject): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** Answers with a Status object. */
export function sendStatus(response: ServerResponse, code: number, reason: string): void {
  const message = reason === "NotFound" ? "not found" : "the object has changed";
  send(response, code, {
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code,
    reason,
    message,
  });
}
