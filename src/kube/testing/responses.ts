import type { ServerResponse } from "node:http";
import { failure } from "./object-store.ts";
import type { SeenRequest } from "./requests.ts";

/** What to do with the next matching requests instead of answering them. */
export interface Script {
  readonly when: (request: SeenRequest) => boolean;
  /** @default 1 */
  times?: number;
  /**
   * A status to answer with; `"hang"` = never answer; `"reset"` = close the connection; a promise =
   * carry the request out when it resolves, even if the client has gone.
   */
  readonly answer: number | "hang" | "reset" | Promise<void>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/** Answers as a script says, and counts that down. */
export function play(script: Script, response: ServerResponse, carryOut: () => void): void {
  script.times = (script.times ?? 1) - 1;
  if (script.answer === "hang") return;
  if (script.answer instanceof Promise) {
    void script.answer.then(carryOut);
    return;
  }
  if (script.answer === "reset") {
    response.socket?.resetAndDestroy();
    return;
  }
  const { answer: status, headers = {} } = script;
  const reason = status === 404 ? "NotFound" : "Scripted";
  const { body = failure(status, reason, "fake failure").body } = script;
  send(response, status, { body, headers });
}

/** Answers with JSON, or with a text as it is. */
export function send(
  response: ServerResponse,
  status: number,
  content: { body: unknown; headers?: Readonly<Record<string, string>> },
): void {
  response.writeHead(status, { "content-type": "application/json", ...content.headers });
  const { body } = content;
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}
