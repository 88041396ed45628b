import fc from "fast-check";
import { expect, test } from "vitest";
import {
  encodeFrame,
  type Frame,
  FrameReader,
  fieldsMax,
  frameMax,
  ProtocolError,
} from "./frame.ts";

function read(...chunks: Uint8Array[]): Frame[] {
  const reader = new FrameReader();
  return chunks.flatMap((chunk) => reader.push(chunk));
}

/** A frame's bytes with a length that is true, whatever its body. */
function raw(...body: number[]): Buffer {
  return Buffer.concat([Buffer.from([0, 0, 0, body.length]), Buffer.from(body)]);
}

test("encodeFrame() lays frames out as shim/protocol.h says", () => {
  expect([...encodeFrame(6, ["ab", ""])]).toEqual([
    0, 0, 0, 13, 6, 0, 0, 0, 2, 97, 98, 0, 0, 0, 0, 0, 0,
  ]);
  expect([...encodeFrame(3, [])]).toEqual([0, 0, 0, 1, 3]);
});

test("FrameReader decodes what encodeFrame() encoded, however the bytes are split", () => {
  const frames = fc.array(
    fc.record({
      type: fc.nat(255),
      fields: fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 5 }),
    }),
    { maxLength: 4 },
  );
  fc.assert(
    fc.property(frames, fc.array(fc.nat(200), { maxLength: 8 }), (sent, cuts) => {
      const bytes = Buffer.concat(sent.map(({ type, fields }) => encodeFrame(type, fields)));
      const at = [
        0,
        ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((a, b) => a - b),
        bytes.length,
      ];
      const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end));
      const received = read(...chunks).map(({ type, fields }) => ({
        type,
        fields: fields.map((field) => Uint8Array.from(field)),
      }));
      expect(received).toEqual(sent);
    }),
  );
});

test("FrameReader accepts bytes one at a time", () => {
  const bytes = encodeFrame(1, ["version", "stdin"]);
  const reader = new FrameReader();
  for (const byte of bytes.subarray(0, -1)) {
    expect(reader.push(Uint8Array.of(byte))).toEqual([]);
  }
  expect(reader.push(bytes.subarray(-1))[0]?.fields.map(String)).toEqual(["version", "stdin"]);
});

test("encodeFrame() and FrameReader accept a frame of the maximum size and reject a larger one", () => {
  const largest = frameMax - 6;
  const frame = encodeFrame(3, [Buffer.alloc(largest, 7)]);
  expect(read(frame)[0]?.fields[0]).toHaveLength(largest);
  expect(() => encodeFrame(3, [Buffer.alloc(largest + 1)])).toThrow(ProtocolError);
  const header = Buffer.alloc(4);
  header.writeUInt32BE(frameMax + 1);
  expect(() => read(header)).toThrow(`frame length ${frameMax + 1}`);
});

test("encodeFrame() and FrameReader accept a frame with the most fields and reject one with more", () => {
  const fields = Array.from({ length: fieldsMax }, () => "");
  const frame = encodeFrame(10, fields);
  expect(read(frame)[0]?.fields).toHaveLength(fieldsMax);
  expect(() => encodeFrame(10, [...fields, ""])).toThrow(ProtocolError);
  const longer = Buffer.concat([frame, Buffer.alloc(5)]);
  longer.writeUInt32BE(longer.length - 4);
  expect(() => read(longer)).toThrow("a frame has more than 120 fields");
});

test.each([
  ["has no type", Buffer.from([0, 0, 0, 0])],
  ["holds a field that is longer than the frame", raw(1, 0, 0, 0, 9, 97, 0)],
  ["announces a field of 4 GiB", raw(1, 255, 255, 255, 255, 97, 0)],
  ["lacks the NUL after a field", raw(1, 0, 0, 0, 1, 97, 98)],
  ["ends after the length of a field", raw(1, 0, 0, 0, 0)],
  ["has bytes after its fields", raw(1, 0, 0, 0, 1, 97, 0, 9)],
])("FrameReader rejects a frame that %s", (_, bytes) => {
  expect(() => read(bytes)).toThrow(ProtocolError);
});
