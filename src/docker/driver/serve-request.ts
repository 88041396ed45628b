import type * as z from "zod";
import { CniError, flattenCauses } from "#cni/error.ts";
import type { Logger } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";
import { oneLine } from "#lib/one-line.ts";
import type { NetworkDriver } from "./protocol.ts";
import { type Method, methodsWithoutBody, requestSchemas } from "./requests.ts";

/** An HTTP answer; the body is sent as JSON. */
export interface HttpAnswer {
  readonly status: number;
  readonly body: object;
}

/** An HTTP request of dockerd: `POST /NetworkDriver.Join`. */
export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  readonly body: string;
}

/**
 * Serves one request of dockerd. An unknown method gets 404, so that dockerd can tell it from one
 * that failed; an unreadable body gets 4xx; a refused operation gets `{"Err": …}`.
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
    logger.warn({ method: name, problem: read.problem }, "dockerd sent a malformed request");
    return failure(400, `${name}: ${read.problem}`);
  }
  try {
    // readBody() has checked the body with this method's schema.
    return { status: 200, body: await driver[name](read.value as never) };
  } catch (error) {
    logger.warn({ method: name, err: error }, "refused an operation");
    const message = error instanceof CniError ? flattenCauses(error) : errorMessage(error);
    return failure(200, oneLine(message));
  }
}

/** A failure as dockerd reads it: `Err` of network drivers, `Error` of IPAM drivers. */
export function failure(status: number, message: string): HttpAnswer {
  return { status, body: { Err: message, Error: message } };
}

function isMethod(name: string): name is Method {
  return Object.hasOwn(requestSchemas, name);
}

/** dockerd repeats a request after a broken connection, and may then send an empty body. */
function readBody(
  name: Method,
  text: string,
): { readonly value: unknown } | { readonly problem: string } {
  const isEmpty = text.trim() === "";
  if (isEmpty && methodsWithoutBody.has(name)) return { value: {} };
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { problem: isEmpty ? "the body is empty" : "the body is not valid JSON" };
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
