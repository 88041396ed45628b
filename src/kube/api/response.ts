import type { IncomingMessage } from "node:http";
import { pipeline } from "node:stream";
import { finished } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { type ApiError, apiErrorOf, parseErrorBody, readText } from "./api-error.ts";

/** The limit of a line of a stream: longer than any object that an API server stores. */
const maxLineBytes = 32 * 1024 * 1024;

/** The error that a response describes; undefined if it is a success. `name` is the request's. */
export async function failureOf(
  response: IncomingMessage,
  name: string,
): Promise<ApiError | undefined> {
  const { statusCode: status = 0, headers } = response;
  const { "retry-after": retryAfter, location } = headers;
  if (status >= 200 && status < 300) return undefined;
  // A response that is cut off still has a status.
  const text = await textOf(response, name).catch(() => undefined);
  const body = text === undefined ? undefined : parseErrorBody(text);
  return apiErrorOf(name, { status, body, retryAfter, location });
}

/** Reads a response, compressed or not. @throws as {@link readText}; Error when it is cut off */
export function textOf(response: IncomingMessage, name: string): Promise<string> {
  return readText(name, decompressed(response));
}

/** Receives the rest of a response without keeping it. @throws Error when it is cut off */
export function skipped(response: IncomingMessage): Promise<void> {
  return finished(response.resume());
}

/** Decompresses only what is read, so that a small response cannot fill the memory. */
function decompressed(response: IncomingMessage): AsyncIterable<Buffer> {
  if (response.headers["content-encoding"] !== "gzip") return response;
  // The reader gets the errors of both streams, and ends both by leaving early.
  return pipeline(response, createGunzip(), () => undefined);
}

/**
 * The lines of a stream, without empty ones and an unterminated last one, which is a cut-off object.
 * @throws Error for a line longer than 32 MiB
 */
export async function* linesOf(
  stream: AsyncIterable<Buffer>,
): AsyncGenerator<string, void, undefined> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for await (let chunk of stream) {
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a)) {
      const line = Buffer.concat([...pending, chunk.subarray(0, end)]).toString("utf8");
      pending = [];
      pendingBytes = 0;
      chunk = chunk.subarray(end + 1);
      if (line.trim() !== "") yield line;
    }
    if (chunk.length > 0) pending.push(chunk);
    pendingBytes += chunk.length;
    if (pendingBytes > maxLineBytes) throw new Error(`a line is longer than ${maxLineBytes} bytes`);
  }
}
