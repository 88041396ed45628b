import { flattenCauses } from "#cni/error.ts";
import type { Logger } from "#engine/ports/logger.ts";

type Level = "warn" | "error";

/** The warnings and errors of a call, which its shim prints with the answer: the runtime logs them. */
export class CallLog {
  #lines = "";

  readonly logger: Logger = this.#loggerWith({});

  /** The lines that were not taken yet. */
  take(): string {
    const lines = this.#lines;
    this.#lines = "";
    return lines;
  }

  #loggerWith(bound: object): Logger {
    const line = (level: Level) => (fields: object, message: string) => {
      const err = "err" in fields ? { err: flattenCauses(fields.err) } : {};
      this.#lines += `${JSON.stringify({ level, ...bound, ...fields, ...err, msg: message })}\n`;
    };
    return {
      debug: () => undefined,
      info: () => undefined,
      warn: line("warn"),
      error: line("error"),
      child: (fields) => this.#loggerWith({ ...bound, ...fields }),
    };
  }
}
