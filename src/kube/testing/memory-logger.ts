import type { Logger } from "#engine/ports.ts";

/** Keeps what is logged. */
export class MemoryLogger implements Logger {
  readonly lines: string[] = [];
  debug(fields: object, message: string): void {
    this.#add("debug", { fields, message });
  }
  info(fields: object, message: string): void {
    this.#add("info", { fields, message });
  }
  warn(fields: object, message: string): void {
    this.#add("warn", { fields, message });
  }
  error(fields: object, message: string): void {
    this.#add("error", { fields, message });
  }
  child(): Logger {
    return this;
  }
  #add(level: string, entry: { fields: object; message: string }): void {
    this.lines.push(`${level} ${entry.message} ${JSON.stringify(entry.fields)}`);
  }
}
