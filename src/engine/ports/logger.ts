/** Structured logging: fields first, then one line. pino's loggers fit. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Logger;
}

/** Drops what is logged. */
export const noLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => noLogger,
};
