/* The used part of protocol buffers' wire format (protobuf.dev/programming-guides/encoding). */

/** An invalid message. */
export class MessageError extends Error {
  override readonly name = "MessageError";
}

const wireTypes = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;
const maxFieldNumber = 2 ** 29 - 1;
const maxVarintBytes = 10;

/**
 * The fields of a message in order, including unknown ones: their numbers and bytes. A varint has
 * no bytes, because no known field is one. @throws MessageError
 */
export function* readFields(message: Uint8Array) {
  const reader = new WireReader(message);
  while (reader.offset < message.length) {
    const tag = reader.varint();
    const number = Math.floor(tag / 8);
    if (number < 1 || number > maxFieldNumber) {
      throw new MessageError(`a field cannot have the number ${number}`);
    }
    yield { number, bytes: reader.value(tag % 8) };
  }
}

class WireReader {
  readonly #bytes: Uint8Array;
  offset = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  value(wireType: number): Uint8Array | undefined {
    switch (wireType) {
      case wireTypes.varint:
        return void this.varint();
      case wireTypes.bytes:
        return this.#take(this.varint());
      case wireTypes.fixed64:
        return this.#take(8);
      case wireTypes.fixed32:
        return this.#take(4);
      default:
        throw new MessageError(`wire type ${wireType} does not exist in proto3`);
    }
  }

  /** Not exact above 2^53, which no length and no tag may be. */
  varint(): number {
    let value = 0;
    for (let length = 0; length < maxVarintBytes; length += 1) {
      const byte = this.#bytes[this.offset];
      if (byte === undefined) throw new MessageError("the message ends within a number");
      this.offset += 1;
      value += (byte & 0x7f) * 2 ** (7 * length);
      if (byte < 0x80) return value;
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

/** Encodes a message whose fields are texts, by their numbers: every request of Plexus is one. */
export function encodeTexts(texts: Readonly<Record<number, string>>): Buffer {
  const fields = Object.entries(texts).map(([number, text]) => {
    const tag = Number(number) * 8 + wireTypes.bytes;
    return [...encodeVarint(tag), ...encodeVarint(Buffer.byteLength(text)), ...Buffer.from(text)];
  });
  return Buffer.from(fields.flat());
}

function encodeVarint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...encodeVarint(value >>> 7)];
}
