import type * as z from "zod";
import { CniError, flattenCauses } from "#cni/error.ts";
import type { Logger } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";
import { oneLine } from "#lib/one-line.ts";
import type { NetworkDriver } from "./protocol.ts";
import { type Method, methodsWithoutBody, requestSchemas } from "./requests.ts";

/** An HTTP answer: its status, and what its body holds as JSON. */
export interface HttpAnswer {
  readonly status: number;
  readonly body: object;
}

/** One HTTP request of the engine. */
export interface HttpRequest {
  /** `POST`. */
  readonly method: string;
  /** `/NetworkDriver.Join`. */
  readonly url: string;
  readonly body: string;
}

/**
 * Serves one request of the engine: 404 for what the protocol does not have, so that the engine can tell a
 * method that is missing from one that failed; 4xx for a body that cannot be read; and `{"Err": …}` for an
 * operation that is refused.
 */
export async function serveRequest(
  request: HttpRequest,
  { driver, logger }: { readonly driver: NetworkDriver; readonly logger: Logger },
): Promise<HttpAnswer> {
  const name = request.url.replace(/^\//, "");
  if (!isMethod(name)) return failure(404, `unknown method ${JSON.stringify(name.slice(0, 100))}`);
  if (request.method !== "POST") return failure(405, `${name} is called with POST`);
  const read = readBody(name, request.body);
  if ("problem" in read) {
    logger.warn({ method: name, problem: read.problem }, "a request of the engine is malformed");
    return failure(400, `${name}: ${read.problem}`);
  }
  try {
    // The schema of the method has read the body.
    const answer = await driver[name](read.value as never);
    return { status: 200, body: answer };
  } catch (error) {
    logger.warn({ method: name, err: error }, "an operation is refused");
    return failure(200, oneLine(messageOf(error)));
  }
}

/** A failure as the engine reads it; a driver for addresses would have `Error` in place of `Err`. */
export function failure(status: number, message: string): HttpAnswer {
  return { status, body: { Err: message, Error: message } };
}

function isMethod(name: string): name is Method {
  return Object.hasOwn(requestSchemas, name);
}

function messageOf(error: unknown): string {
  return error instanceof CniError ? flattenCauses(error) : errorMessage(error);
}

/** The engine repeats a request after a broken connection, and may then send an empty body. */
function readBody(
  name: Method,
  text: string,
): { readonly value: unknown } | { readonly problem: string } {
  if (text.trim() === "" && methodsWithoutBody.has(name)) return { value: {} };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { problem: text.trim() === "" ? "the body is empty" : "the body is not valid JSON" };
  }
  const parsed = requestSchemas[name].safeParse(json);
  return parsed.success ? { value: parsed.data } : { problem: problemsOf(parsed.error) };
}

/** Names the members, never their values, which may be confidential. */
function problemsOf({ issues }: z.ZodError): string {
  return issues
    .map(({ path, message }) => `${path.length === 0 ? "the body" : path.join(".")}: ${message}`)
    .join("; ");
}
