import fc from "fast-check";
import { expect, test } from "vitest";
import { integer, message, part, parts, text, texts } from "./message.ts";
import { MessageError } from "./wire.ts";

const inner = message({ name: text(1), count: integer(2) });
const outer = message({
  title: text(1),
  tags: texts(2),
  count: integer(3),
  inner: part(4, inner),
  items: parts(5, inner),
  labels: texts(16),
});

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const decode = (bytes: string) => outer.decode(Buffer.from(bytes, "hex"));

const absent = { title: "", tags: [], count: 0, inner: undefined, items: [], labels: [] };

test("encode() writes the same bytes as protoc, and omits absent fields", () => {
  expect(hex(outer.encode({}))).toBe("");
  expect(outer.decode(new Uint8Array())).toEqual(absent);
  expect(hex(inner.encode({ name: "testing", count: 150 }))).toBe("0a0774657374696e67109601");
  expect(hex(outer.encode({ tags: ["a", ""], count: 1 }))).toBe("12016112001801");
  expect(hex(outer.encode({ inner: { name: "", count: 1 } }))).toBe("22021001");
  expect(hex(outer.encode({ labels: ["k"] }))).toBe("8201016b");
});

test("decode() reads what encode() writes", () => {
  const item = fc.record({ name: fc.string(), count: fc.nat() });
  const value = fc.record({
    title: fc.string({ unit: "grapheme" }),
    tags: fc.array(fc.string()),
    count: fc.nat(),
    inner: fc.option(item, { nil: undefined }),
    items: fc.array(item),
    labels: fc.array(fc.string()),
  });
  fc.assert(
    fc.property(value, (each) => {
      expect(outer.decode(outer.encode(each))).toEqual(each);
    }),
  );
});

test("decode() skips unknown fields of every wire type", () => {
  const unknown = ["3801", "390102030405060708", "3d01020304", "3a03616263"];
  expect(decode(`${unknown.join("")}0a0178`)).toEqual({ ...absent, title: "x" });
});

test("decode() uses the last value of a field, and collects all values of a repeated field", () => {
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
  ["a text for a number", "1a0161", "count: is not a number"],
  ["a text that is not UTF-8", "0a01ff", "title: is not UTF-8"],
  ["an invalid nested field", "220408010801", "inner: name: is a number"],
])("decode() refuses %s", (_, bytes, problem) => {
  expect(() => decode(bytes)).toThrow(MessageError);
  expect(() => decode(bytes)).toThrow(problem);
});

test("decode() takes linear time for many small items", () => {
  const many = Buffer.alloc(1_000_000, Buffer.from("2a00", "hex"));
  expect(outer.decode(many).items).toHaveLength(500_000);
});
