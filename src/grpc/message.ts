import { errorMessage } from "#lib/error-message.ts";
import { MessageError, readFields } from "./wire.ts";

/** Reads the bytes of a value, such as a message. Unknown fields are skipped. @throws MessageError */
type Decode<T> = (bytes: Uint8Array) => T;

/** A field of a message: its number, and how to read its value. */
interface Field<T> {
  readonly number: number;
  /** A new value for an absent field. */
  absent(): T;
  /** Reads an occurrence; `before` is the value so far, which may be changed. */
  read(bytes: Uint8Array, before: T): T;
}

/** Declares a message type by its fields. */
export function message<T extends object>(
  fields: { readonly [K in keyof T]: Field<T[K]> },
): Decode<Readonly<T>> {
  const entries = Object.entries(fields) as [string, Field<unknown>][];
  const byNumber = new Map(entries.map(([name, field]) => [field.number, { name, field }]));
  return (message) => {
    const values = Object.fromEntries(entries.map(([name, { absent }]) => [name, absent()]));
    for (const { number, bytes } of readFields(message)) {
      const known = byNumber.get(number);
      if (known === undefined) continue;
      const { name, field } = known;
      try {
        if (bytes === undefined) throw new MessageError("is a number");
        values[name] = field.read(bytes, values[name]);
      } catch (cause) {
        throw new MessageError(`${name}: ${errorMessage(cause)}`, { cause });
      }
    }
    return values as T;
  };
}

/** `string`. */
export function text(number: number): Field<string> {
  return { number, absent: () => "", read: decodeText };
}

/** `repeated string`. */
export function texts(number: number): Field<string[]> {
  return parts(number, decodeText);
}

/** A message in a message; undefined when absent. The last occurrence counts. */
export function part<T>(number: number, decode: Decode<T>): Field<T | undefined> {
  return { number, absent: () => undefined, read: decode };
}

/** Repeated messages. */
export function parts<T>(number: number, decode: Decode<T>): Field<T[]> {
  return {
    number,
    absent: () => [],
    read(bytes, before) {
      // A copy for each item would take quadratic time.
      before.push(decode(bytes));
      return before;
    },
  };
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

function decodeText(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes);
  } catch (cause) {
    throw new MessageError("is not UTF-8", { cause });
  }
}
