import type { IncomingMessage } from "node:http";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { ApiError, answerTooLong, apiErrorOf } from "./api-error.ts";

/**
 * The longest answer that is read, in bytes and decompressed: an object can have some 10 MiB at most (1.5 MiB
 * in etcd, JSON escapes), and parsing takes a multiple of an answer's length in memory.
 */
const maxAnswerBytes = 16 * 1024 * 1024;

/** Whether the server did what it was asked for. */
export function isSuccess(response: IncomingMessage): boolean {
  const status = response.statusCode ?? 0;
  return status >= 200 && status < 300;
}

/** What an answer without success says. `name` is that of its request. */
export async function failureOf(response: IncomingMessage, name: string): Promise<ApiError> {
  let body: unknown;
  try {
    const text = await textOf(response, name);
    body = { message: text.slice(0, 200) };
    body = JSON.parse(text);
  } catch {
    // Not a Status object: a proxy's page, or cut off. What is known of it is in `body`.
  }
  const retryAfter = response.headers["retry-after"];
  return apiErrorOf(name, { status: response.statusCode ?? 0, body, retryAfter });
}

/**
 * The text of an answer. Ends the connection when it is too long.
 * @throws ApiError with the reason {@link answerTooLong}; Error when it is cut off or wrongly compressed
 */
export async function textOf(response: IncomingMessage, name: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of decompressed(response)) {
    bytes += (chunk as Buffer).length;
    if (bytes > maxAnswerBytes) {
      const message = `${name}: the answer is longer than the limit of ${maxAnswerBytes} bytes`;
      throw new ApiError(message, { status: 0, reason: answerTooLong });
    }
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Decompresses no further than it is read, so that a small answer cannot become a large one in memory. */
function decompressed(response: IncomingMessage): AsyncIterable<unknown> {
  if (response.headers["content-encoding"] !== "gzip") return response;
  // Whoever reads gets the errors of both, and ends both by leaving early.
  return pipeline(response, createGunzip(), () => undefined);
}
