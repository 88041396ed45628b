/* The used part of protocol buffers' wire format (protobuf.dev/programming-guides/encoding). */

/** A field on the wire: its number, and the value of a varint or the bytes of any other type. */
export interface WireField {
  readonly number: number;
  readonly value: bigint | Uint8Array;
}

/** An invalid message. */
export class MessageError extends Error {
  override readonly name = "MessageError";
}

const wireTypes = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;
const maxFieldNumber = 2 ** 29 - 1;
const maxVarintBytes = 10;

/** The fields of a message in order, including unknown ones. @throws MessageError */
export function* readFields(message: Uint8Array): Generator<WireField> {
  const reader = new WireReader(message);
  while (reader.offset < message.length) {
    const tag = reader.length();
    const number = Math.floor(tag / 8);
    if (number < 1 || number > maxFieldNumber) {
      throw new MessageError(`a field cannot have the number ${number}`);
    }
    yield { number, value: reader.value(tag % 8) };
  }
}

class WireReader {
  readonly #bytes: Uint8Array;
  offset = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  value(wireType: number): bigint | Uint8Array {
    switch (wireType) {
      case wireTypes.varint:
        return this.varint();
      case wireTypes.bytes:
        return this.#take(this.length());
      case wireTypes.fixed64:
        return this.#take(8);
      case wireTypes.fixed32:
        return this.#take(4);
      default:
        throw new MessageError(`wire type ${wireType} does not exist in proto3`);
    }
  }

  /** A tag or length. These are mostly small, and frequent. */
  length(): number {
    const byte = this.#bytes[this.offset];
    if (byte === undefined || byte >= 0x80) return Number(this.varint());
    this.offset += 1;
    return byte;
  }

  varint(): bigint {
    let value = 0n;
    for (let length = 0; length < maxVarintBytes; length += 1) {
      const byte = this.#bytes[this.offset];
      if (byte === undefined) throw new MessageError("the message ends within a number");
      this.offset += 1;
      value |= BigInt(byte & 0x7f) << BigInt(7 * length);
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new MessageError("a number has more than ten bytes");
  }

  #take(length: number): Uint8Array {
    if (length > this.#bytes.length - this.offset) {
      throw new MessageError(`the message ends within a field of ${length} bytes`);
    }
    const end = this.offset + length;
    const taken = this.#bytes.subarray(this.offset, end);
    this.offset = end;
    return taken;
  }
}

/** Encodes a field with its tag. */
export function writeField(number: number, value: bigint | Uint8Array): Uint8Array {
  const isVarint = typeof value === "bigint";
  const wireType = isVarint ? wireTypes.varint : wireTypes.bytes;
  const tag = writeVarint(BigInt(number * 8 + wireType));
  if (isVarint) return Buffer.concat([tag, writeVarint(value)]);
  return Buffer.concat([tag, writeVarint(BigInt(value.length)), value]);
}

function writeVarint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}
