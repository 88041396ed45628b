import type { Logger } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";

type Level = "debug" | "info" | "warn" | "error";

/** Logs warnings and errors to stderr, which the container runtime logs. */
export function stderrLogger(write: (line: string) => void, bound: object = {}): Logger {
  const line = (level: Level) => (fields: object, message: string) => {
    const err = "err" in fields ? { err: errorMessage(fields.err) } : {};
    write(`${JSON.stringify({ level, ...bound, ...fields, ...err, msg: message })}\n`);
  };
  return {
    debug: () => undefined,
    info: () => undefined,
    warn: line("warn"),
    error: line("error"),
    child: (fields) => stderrLogger(write, { ...bound, ...fields }),
  };
}
