import { expect, test, vi } from "vitest";
import { parseYamlDocuments } from "./yaml.ts";

test("parseYamlDocuments() gives the value of each document", () => {
  expect([...parseYamlDocuments("a: 1\n---\n[b]\n---\n")]).toEqual([{ a: 1 }, ["b"], null]);
  expect([...parseYamlDocuments("")]).toEqual([]);
});

test("parseYamlDocuments() names the first problem and its place, and quotes no line", () => {
  const documents = parseYamlDocuments("a: 1\n---\npassword: [secret\nb: 2\n");
  expect(documents.next().value).toEqual({ a: 1 });
  expect(() => documents.next()).toThrow(/^[^\n]* at line \d+, column \d+$/);
  expect(() => [...parseYamlDocuments("token: [secret\nb")]).not.toThrow(/secret/);
});

test("parseYamlDocuments() emits no process warning about an odd document", () => {
  const emitWarning = vi.spyOn(process, "emitWarning");
  expect([...parseYamlDocuments("{a: b}: secret")]).toEqual([{ "{ a: b }": "secret" }]);
  expect(emitWarning).not.toHaveBeenCalled();
  emitWarning.mockRestore();
});

test.each([
  [
    "one quote",
    "a:\n  b: '{\n\"c\": ''1'',\n\n}'\n  d: 1\n",
    { a: { b: "{ \"c\": '1',\n}", d: 1 } },
  ],
  ["two quotes", 'a:\n  - b: "x\n\\"y\\"\\\n z"\n', { a: [{ b: 'x "y"z' }] }],
])(
  "parseYamlDocuments() accepts lines in %s without indentation, as Go's parser",
  (_, text, value) => {
    expect([...parseYamlDocuments(text)]).toEqual([value]);
  },
);

test("parseYamlDocuments() counts the lines as written, also after lines in quotes without indentation", () => {
  const text = "a:\n  b: '\n}'\nc: [\n";
  expect(() => [...parseYamlDocuments(text)]).toThrow(/ at line 5, /);
});
