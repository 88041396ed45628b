import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { multusSource } from "../../bench/peers/multus.ts";

/*
 * `plexusctl migrate` knows every key and argument of Multus: its unit tests compare its tables with a record, and
 * this compares the record with the source that the other tests build Multus from.
 */

const recorded = JSON.parse(readFileSync("e2e/fixtures/multus/multus-4.3.0.json", "utf8"));
let source = "";

beforeAll(async () => {
  source = await multusSource();
});

const read = (file: string): string => readFileSync(join(source, file), "utf8");

/** The keys in the JSON tags of a Go struct. */
function tagsOf(file: string, struct: string): string[] {
  const [, fields = ""] =
    new RegExp(`^type ${struct} struct \\{\n(.*?)^\\}`, "ms").exec(read(file)) ?? [];
  const keys = Array.from(fields.matchAll(/`json:"([^",]+)/g), ([, key = ""]) => key);
  return keys.filter((key) => key !== "-");
}

test("the recorded keys are those of the structs of Multus 4.3.0", () => {
  for (const { file, name, keys } of recorded.structs) {
    expect(tagsOf(file, name), `${name} in ${file}`).toEqual(keys);
  }
});

test("the recorded arguments are the flags of the programs of Multus 4.3.0", () => {
  const { thinFlags, thickFlags } = recorded;
  const thin = [...read(thinFlags.file).matchAll(/fs\.(\w+)Var\(&o\.\w+, "([a-z-]+)"/g)];
  const thick = read(thickFlags.file).matchAll(/flag\.\w+\("([a-z-]+)"/g);

  expect(thin.map(([, , name]) => name)).toEqual(thinFlags.flags);
  expect(thin.flatMap(([, type, name]) => (type === "Bool" ? [name] : []))).toEqual(
    thinFlags.booleans,
  );
  expect(Array.from(thick, ([, name]) => name)).toEqual(thickFlags.flags);
});
