import { type Logger as PinoLogger, pino, stdSerializers } from "pino";
import pretty from "pino-pretty";
import { CniError, flattenCauses } from "#cni/error.ts";

/** The process's logger: JSON lines on stderr, or readable text with `LOG_FORMAT=pretty`. */
export function createLogger(options: {
  readonly level: string;
  readonly format: string | undefined;
}): PinoLogger {
  const settings = {
    level: options.level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: describeError },
  };
  if (options.format !== "pretty") return pino(settings, pino.destination({ fd: 2, sync: true }));
  return pino(
    settings,
    pretty({ destination: 2, sync: true, translateTime: "HH:MM:ss.l", ignore: "pid,hostname" }),
  );
}

/** Expected errors without a stack. */
function describeError(error: unknown): unknown {
  if (error instanceof CniError && error.code !== 999) {
    return { code: error.code, message: flattenCauses(error), details: error.details };
  }
  return error instanceof Error ? stdSerializers.err(error) : error;
}
