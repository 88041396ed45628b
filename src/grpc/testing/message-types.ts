import protobuf from "protobufjs";

/** How a field is declared to protobufjs, another implementation than Plexus's. */
interface Field<T> {
  readonly number: number;
  readonly type: string;
  readonly rule?: "repeated";
  /** Only says which type a value has. */
  readonly value?: T;
}

/** Reads and writes the messages of a type. */
export interface MessageType<T> {
  readonly name: string;
  decode(bytes: Uint8Array): T;
  /** Missing fields are not written. */
  encode(value: Partial<T>): Buffer;
}

const root = new protobuf.Root();

/** Declares a message type by its fields. */
export function message<T extends object>(
  fields: { readonly [K in keyof T]: Field<T[K]> },
): MessageType<Readonly<T>> {
  const type = new protobuf.Type(`Message${root.nestedArray.length}`);
  for (const [name, { number, type: ofField, rule }] of Object.entries<Field<unknown>>(fields)) {
    type.add(new protobuf.Field(name, number, ofField, rule));
  }
  root.add(type);
  return {
    name: type.name,
    decode: (bytes) => type.toObject(type.decode(bytes), { defaults: true }) as T,
    encode: (value) => Buffer.from(type.encode(type.fromObject(value)).finish()),
  };
}

export function text(number: number): Field<string> {
  return { number, type: "string" };
}

export function texts(number: number): Field<string[]> {
  return { number, type: "string", rule: "repeated" };
}

export function integer(number: number): Field<number> {
  return { number, type: "uint32" };
}

export function part<T>(number: number, { name }: MessageType<T>): Field<T | undefined> {
  return { number, type: name };
}

export function parts<T>(number: number, { name }: MessageType<T>): Field<T[]> {
  return { number, type: name, rule: "repeated" };
}
