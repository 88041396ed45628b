import { type DestinationStream, type Logger as PinoLogger, pino } from "pino";
import { CniError, defectIn, flattenCauses } from "#cni/error.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { printableLines } from "#lib/one-line.ts";

/** The process's logger: JSON lines, by default on stderr. */
export function createLogger(
  level: string,
  destination: DestinationStream = pino.destination({ fd: 2, sync: true }),
): PinoLogger {
  const settings = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: describeError },
    hooks: { streamWrite: printableLines },
  };
  return pino(settings, destination);
}

/** An error in one line, and where it happened if it is a defect of Plexus. */
function describeError(error: unknown): unknown {
  const { code, details } = error instanceof CniError ? error : {};
  const stack = defectIn(error)?.stack;
  return omitUndefined({ code, message: flattenCauses(error), details, stack });
}
