import type { Logger } from "#engine/ports/logger.ts";

/** One logged line. */
interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Collects what it and its children log. */
export class FakeLogger implements Logger {
  readonly lines: LogLine[];
  readonly #bound: object;

  constructor(parent?: { lines: LogLine[]; bound: object }) {
    this.lines = parent?.lines ?? [];
    this.#bound = parent?.bound ?? {};
  }

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

  child(fields: object): Logger {
    return new FakeLogger({ lines: this.lines, bound: { ...this.#bound, ...fields } });
  }

  /** The messages of one level. */
  at(level: LogLine["level"]): string[] {
    return this.lines.filter((line) => line.level === level).map((line) => line.message);
  }

  #add(level: LogLine["level"], entry: { fields: object; message: string }): void {
    const fields = { ...this.#bound, ...entry.fields };
    this.lines.push({ level, message: entry.message, fields });
  }
}
