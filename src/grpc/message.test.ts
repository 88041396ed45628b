import fc from "fast-check";
import { expect, test } from "vitest";
import { message, part, parts, text, texts } from "./message.ts";
import * as protobuf from "./testing/message-types.ts";
import { encodeTexts, MessageError } from "./wire.ts";

const inner = message({ name: text(1) });
const outer = message({
  title: text(1),
  tags: texts(2),
  inner: part(4, inner),
  items: parts(5, inner),
  labels: texts(16),
});

const innerOfServer = protobuf.message({ name: protobuf.text(1), count: protobuf.integer(2) });
const outerOfServer = protobuf.message({
  title: protobuf.text(1),
  tags: protobuf.texts(2),
  count: protobuf.integer(3),
  inner: protobuf.part(4, innerOfServer),
  items: protobuf.parts(5, innerOfServer),
  labels: protobuf.texts(16),
});

const decode = (bytes: string) => outer(Buffer.from(bytes, "hex"));

const absent = { title: "", tags: [], inner: undefined, items: [], labels: [] };

test("a message type reads what another implementation encodes", () => {
  expect(outer(new Uint8Array())).toEqual(absent);
  const item = fc.record({ name: fc.string() });
  const value = fc.record({
    title: fc.string({ unit: "grapheme" }),
    tags: fc.array(fc.string()),
    inner: fc.option(item, { nil: undefined }),
    items: fc.array(item),
    labels: fc.array(fc.string()),
  });
  fc.assert(
    fc.property(value, fc.nat(), (each, count) => {
      const items = each.items.map((one) => ({ ...one, count }));
      const inner = each.inner && { ...each.inner, count };
      expect(outer(outerOfServer.encode({ ...each, items, inner, count }))).toEqual(each);
    }),
  );
});

test("encodeTexts() writes what another implementation reads", () => {
  expect(encodeTexts({})).toHaveLength(0);
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 300 }), fc.string(), (title, label) => {
      const read = outerOfServer.decode(encodeTexts({ 1: title, 16: label }));
      expect(read).toMatchObject({ title, labels: [label] });
    }),
  );
});

test("a message type skips unknown fields of every wire type", () => {
  const unknown = ["3801", "390102030405060708", "3d01020304", "3a03616263"];
  expect(decode(`${unknown.join("")}0a0178`)).toEqual({ ...absent, title: "x" });
});

test("a message type uses the last value of a field, and collects all values of a repeated field", () => {
  expect(decode("0a01610a0162120163120164")).toMatchObject({ title: "b", tags: ["c", "d"] });
});

test.each([
  ["a field's length beyond the end", "0a0561", "the message ends within a field of 5 bytes"],
  ["a length beyond all memory", "0affffffffffffffffff01", "ends within a field of 184467"],
  [
    "a number of more than ten bytes",
    "18ffffffffffffffffffff01",
    "a number has more than ten bytes",
  ],
  ["a truncated number", "1880", "ends within a number"],
  ["a group", "0b", "wire type 3 does not exist"],
  ["the field number 0", "02", "a field cannot have the number 0"],
  ["a number for a text", "0801", "title: is a number"],
  ["a text that is not UTF-8", "0a01ff", "title: is not UTF-8"],
  ["an invalid nested field", "220408010801", "inner: name: is a number"],
])("a message type refuses %s", (_, bytes, problem) => {
  expect(() => decode(bytes)).toThrow(MessageError);
  expect(() => decode(bytes)).toThrow(problem);
});

test("a message type takes linear time for many small items", () => {
  expect(outer(Buffer.alloc(1_000_000, Buffer.from("2a00", "hex"))).items).toHaveLength(500_000);
});
