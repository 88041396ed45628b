/** Frame types of the shim protocol; shim/protocol.h is the specification of this folder. */
export const FrameType = {
  Request: 1,
  Exec: 2,
  ExecResult: 3,
  Netlink: 4,
  NetlinkResult: 5,
  Done: 6,
  Plan: 7,
  PlanEnd: 8,
  Find: 9,
  FindResult: 10,
  Record: 11,
  Require: 12,
  Sandbox: 13,
  SandboxResult: 14,
  Occupants: 15,
  OccupantsResult: 16,
  Alive: 17,
} as const;

/** The protocol's version, first field of `REQUEST`. */
export const protocolVersion = "4";

/** The largest length of a frame, type and fields together, in bytes. */
export const frameMax = 16 << 20;

/**
 * The most fields of any frame: a `FIND_RESULT` has two for each type. Each field costs an object,
 * so that a frame of empty ones would take twenty times its length in memory.
 * @internal
 */
export const fieldsMax = 120;

/** One frame: its type and its fields, not decoded. */
export interface Frame {
  readonly type: number;
  readonly fields: readonly Buffer[];
}

/** A frame that breaks the protocol; the connection it came over cannot be used further. */
export class ProtocolError extends Error {
  override readonly name: string = "ProtocolError";
}

/**
 * The bytes of one frame: `length:u32be type:u8 (length:u32be bytes NUL)*`.
 * @throws ProtocolError when it would exceed {@link frameMax} or {@link fieldsMax}
 */
export function encodeFrame(type: number, fields: readonly (string | Uint8Array)[]): Buffer {
  checkFieldCount(fields.length);
  const lengths = fields.map((f) => (typeof f === "string" ? Buffer.byteLength(f) : f.length));
  const length = lengths.reduce((sum, each) => sum + each + 5, 1);
  if (length > frameMax) {
    throw new ProtocolError(`a frame of ${length} bytes exceeds the limit of ${frameMax}`);
  }
  const frame = Buffer.allocUnsafe(4 + length);
  frame.writeUInt32BE(length, 0);
  frame.writeUInt8(type, 4);
  let offset = 5;
  // An iterator of the entries would be a tenth of what a call allocates.
  fields.forEach((field, i) => {
    const size = lengths[i] as number;
    frame.writeUInt32BE(size, offset);
    if (typeof field === "string") frame.write(field, offset + 4);
    else frame.set(field, offset + 4);
    frame.writeUInt8(0, offset + 4 + size);
    offset += size + 5;
  });
  return frame;
}

/** The types of the whole frames that bytes begin with, and where each begins and ends. */
export function* wholeFrames(bytes: Buffer) {
  for (let at = 0; bytes.length - at >= 5; ) {
    const length = bytes.readUInt32BE(at);
    const end = at + 4 + length;
    if (length < 1 || length > frameMax || end > bytes.length) return;
    yield { type: bytes.readUInt8(at + 4), at, end };
    at = end;
  }
}

/** Splits a byte stream into frames. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #size = 0;
  /** How many bytes complete the first frame, or its length field. */
  #needed = 4;

  /**
   * Returns the frames that the next bytes complete. Joins chunks only then, because a large frame
   * comes in many.
   * @throws ProtocolError when a frame is too long, has too many fields, or they do not add up
   */
  push(chunk: Uint8Array): Frame[] {
    this.#chunks.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length));
    this.#size += chunk.length;
    const frames: Frame[] = [];
    while (this.#size >= this.#needed) {
      const bytes = this.#joined();
      const length = readLength(bytes, 0);
      this.#needed = 4 + length;
      if (this.#size < this.#needed) break;
      frames.push(decodeBody(bytes.subarray(4, this.#needed)));
      this.#chunks = [bytes.subarray(this.#needed)];
      this.#size -= this.#needed;
      this.#needed = 4;
    }
    return frames;
  }

  #joined(): Buffer {
    const [first] = this.#chunks;
    const bytes =
      first !== undefined && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
    this.#chunks = [bytes];
    return bytes;
  }
}

function readLength(bytes: Buffer, offset: number): number {
  const length = bytes.readUInt32BE(offset);
  if (length >= 1 && length <= frameMax) return length;
  throw new ProtocolError(`frame length ${length} is not between 1 and ${frameMax}`);
}

function checkFieldCount(count: number): void {
  if (count > fieldsMax) throw new ProtocolError(`a frame has more than ${fieldsMax} fields`);
}

function decodeBody(body: Buffer): Frame {
  const fields: Buffer[] = [];
  let offset = 1;
  while (offset < body.length) {
    const rest = body.length - offset;
    const length = rest < 5 ? Number.POSITIVE_INFINITY : body.readUInt32BE(offset);
    if (length > rest - 5) throw new ProtocolError(`field ${fields.length} passes its frame's end`);
    if (body[offset + 4 + length] !== 0) {
      throw new ProtocolError(`field ${fields.length} does not end with a NUL`);
    }
    checkFieldCount(fields.length + 1);
    fields.push(body.subarray(offset + 4, offset + 4 + length));
    offset += length + 5;
  }
  return { type: body.readUInt8(0), fields };
}
