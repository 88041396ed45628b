import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";

/** The outcome of a plugin that exits; stdout is JSON when it is no string. */
export function exited(code: number, stdout: unknown = "", stderr = ""): DelegateOutcome {
  const printed = typeof stdout === "string" ? stdout : JSON.stringify(stdout);
  return { outcome: "exited", code, stdout: printed, stderr, message: "", elapsedUs: 1 };
}

/** An outcome in which the plugin did not run, or not to its end. */
export function ended(
  outcome: DelegateOutcome["outcome"],
  code: number,
  message = "",
): DelegateOutcome {
  return { ...exited(code), outcome, message };
}

/** Plugins by type, with a record of their calls. A type without a script prints nothing and succeeds. */
export class FakeDelegates {
  readonly calls: DelegateCall[] = [];
  readonly #outcomes: Readonly<Record<string, DelegateOutcome>>;

  constructor(outcomes: Readonly<Record<string, DelegateOutcome>> = {}) {
    this.#outcomes = outcomes;
  }

  readonly run = (call: DelegateCall): Promise<DelegateOutcome> => {
    this.calls.push(call);
    return Promise.resolve(this.#outcomes[call.type] ?? exited(0));
  };

  /** The types that were called, in order. */
  get types(): string[] {
    return this.calls.map((call) => call.type);
  }

  /** What each call had on stdin, decoded. */
  get stdins(): JsonObject[] {
    return this.calls.map((call) => {
      const value: unknown = JSON.parse(call.stdin);
      if (!isJsonObject(value)) throw new Error(`stdin of ${call.type} is no object`);
      return value;
    });
  }
}
