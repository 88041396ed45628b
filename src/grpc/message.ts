import { errorMessage } from "#lib/error-message.ts";
import { MessageError, readFields, writeField } from "./wire.ts";

/**
 * A field of a message: its number, and how to read and write its value. Repeated fields collect
 * all occurrences; of other fields the last one counts.
 */
export interface Field<T> {
  readonly number: number;
  /** A new value for an absent field. */
  absent(): T;
  /** Reads an occurrence; `before` is the value so far, which may be changed. */
  read(wire: bigint | Uint8Array, before: T): T;
  write(value: T): readonly (bigint | Uint8Array)[];
}

/** Reads and writes the messages of a type. */
export interface MessageType<T> {
  /** Unknown fields are skipped. @throws MessageError */
  decode(bytes: Uint8Array): T;
  /** Missing fields are not written. */
  encode(value: Partial<T>): Uint8Array;
}

/** Declares a message type by its fields. */
export function message<T extends object>(
  fields: { readonly [K in keyof T]: Field<T[K]> },
): MessageType<Readonly<T>> {
  const entries = Object.entries(fields) as [string, Field<unknown>][];
  const byNumber = new Map(entries.map(([name, field]) => [field.number, { name, field }]));
  return {
    decode(bytes) {
      const values: Record<string, unknown> = {};
      for (const [name, { absent }] of entries) values[name] = absent();
      for (const { number, value } of readFields(bytes)) {
        const known = byNumber.get(number);
        if (known === undefined) continue;
        const { name, field } = known;
        try {
          values[name] = field.read(value, values[name]);
        } catch (cause) {
          throw new MessageError(`${name}: ${errorMessage(cause)}`, { cause });
        }
      }
      return values as T;
    },
    encode(values) {
      const parts = entries.flatMap(([name, { number, absent, write }]) => {
        const value = (values as Record<string, unknown>)[name] ?? absent();
        return write(value).map((wire) => writeField(number, wire));
      });
      return Buffer.concat(parts);
    },
  };
}

/** `string`. */
export function text(number: number): Field<string> {
  return {
    number,
    absent: () => "",
    read: (wire) => utf8Text.decode(asBytes(wire)),
    write: (value) => (value === "" ? [] : [utf8Text.encode(value)]),
  };
}

/** `repeated string`. */
export function texts(number: number): Field<string[]> {
  return parts(number, utf8Text);
}

/** `int32`, `uint32` or an enumeration, without negative values. */
export function integer(number: number): Field<number> {
  return {
    number,
    absent: () => 0,
    read: (wire) => Number(BigInt.asUintN(32, asVarint(wire))),
    write: (value) => (value === 0 ? [] : [BigInt(value)]),
  };
}

/** A message in a message; undefined when absent. */
export function part<T>(number: number, type: MessageType<T>): Field<T | undefined> {
  return {
    number,
    absent: () => undefined,
    read: (wire) => type.decode(asBytes(wire)),
    write: (value) => (value === undefined ? [] : [type.encode(value)]),
  };
}

/** Repeated messages. */
export function parts<T>(number: number, type: MessageType<T>): Field<T[]> {
  return {
    number,
    absent: () => [],
    read(wire, before) {
      // A copy for each item would take quadratic time.
      before.push(type.decode(asBytes(wire)));
      return before;
    },
    write: (values) => values.map((value) => type.encode(value)),
  };
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

const utf8Text: MessageType<string> = {
  decode(bytes) {
    try {
      return strictUtf8.decode(bytes);
    } catch (cause) {
      throw new MessageError("is not UTF-8", { cause });
    }
  },
  encode: (value) => Buffer.from(value),
};

function asBytes(wire: bigint | Uint8Array): Uint8Array {
  if (typeof wire === "bigint") throw new MessageError("is a number");
  return wire;
}

function asVarint(wire: bigint | Uint8Array): bigint {
  if (typeof wire !== "bigint") throw new MessageError("is not a number");
  return wire;
}
