import type { IncomingMessage } from "node:http";

/** A request as it arrived. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: unknown;
}

/** Matches watches of a collection. */
export const isWatch =
  (resource: string) =>
  (request: SeenRequest): boolean =>
    request.query.get("watch") === "true" && request.path.endsWith(resource);

/** Matches LISTs of a collection. */
export const isList =
  (resource: string) =>
  (request: SeenRequest): boolean =>
    request.method === "GET" &&
    !request.query.has("watch") &&
    request.path.endsWith(`/${resource}`);

/** Matches GETs of one object. */
export const isGet =
  (name: string) =>
  (request: SeenRequest): boolean =>
    request.method === "GET" && request.path.endsWith(`/${name}`);

/** Matches PATCHes of pods/status. */
export const isStatusPatch = (request: SeenRequest): boolean =>
  request.method === "PATCH" && request.path.endsWith("/status");
