import type { Logger } from "#engine/ports.ts";
import { errorMessage } from "#lib/error-message.ts";

type Level = "debug" | "info" | "warn" | "error";

/** Logs to stderr, which the runtime logs: a standalone call has no log of its own. Debug and info are left out. */
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
