import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { convert } from "./convert.ts";
import { findMultus } from "./multus-files.ts";
import { multusRows } from "./multus-table.ts";

/** e2e/conformance/multus-source.test.ts compares this record with the source of Multus. */
const recorded = JSON.parse(readFileSync("e2e/fixtures/multus/multus-4.3.0.json", "utf8"));

function sorted(...lists: readonly string[][]): string[] {
  return [...new Set(lists.flat())].sort();
}

test("the table of keys has every key that a struct of Multus 4.3 has, and no other", () => {
  const structs = recorded.structs.map(({ keys }: { keys: string[] }) => keys);
  const written = recorded.templateKeys.keys;

  expect(namesOf("key").sort()).toEqual(sorted(...structs, recorded.embedded.keys, written));
});

test("the table of arguments has every flag of the thin entry point of Multus 4.3, and no other", () => {
  const { flags, booleans } = recorded.thinFlags;

  const switches = multusRows.filter(({ notedIf }) => notedIf !== undefined);
  expect(namesOf("argument").sort()).toEqual(sorted(flags));
  expect(switches.flatMap(({ argument }) => argument ?? []).sort()).toEqual(sorted(booleans));
});

const namesOf = (name: "key" | "argument"): string[] =>
  multusRows.flatMap((row) => row[name] ?? []);

function own(text: string): { notes: string[]; configuration: JsonObject } {
  const { notes, configuration } = convert(findMultus(text, "f"));
  const own = notes.filter(({ source }) => source.startsWith("f"));
  return { notes: own.map(({ key }) => key), configuration };
}

/** Whether a value changes neither the result nor its notes. */
function isSilent(text: string, without: string): boolean {
  return JSON.stringify(own(text)) === JSON.stringify(own(without));
}

test("every key of Multus is translated or noted, except keys of CNI and defaults", () => {
  const conf = (keys: object): string => JSON.stringify({ type: "multus", name: "mine", ...keys });
  const keys = namesOf("key").filter((key) => key !== "type");
  const silent = keys.filter((key) => isSilent(conf({ [key]: "something" }), conf({})));

  const cniKeys = ["cniVersion", "name", "prevResult", "runtimeConfig"];
  expect(silent).toEqual([...cniKeys, "cni.dev/valid-attachments", "logToStderr"]);
  expect(isSilent(conf({ logToStderr: false }), conf({}))).toBe(false);
});

test("every argument of Multus is translated or noted, except defaults", () => {
  const thin = (args: string[]): string => {
    const containers = [{ command: ["/thin_entrypoint"], args }];
    return JSON.stringify({ kind: "DaemonSet", spec: { template: { spec: { containers } } } });
  };
  const flags = namesOf("argument").filter((flag) => flag !== "multus-conf-file");
  const silent = flags.filter((flag) => isSilent(thin([`--${flag}=something`]), thin([])));

  expect(silent).toEqual(["multus-log-to-stderr"]);
  expect(isSilent(thin(["--multus-log-to-stderr=false"]), thin([]))).toBe(false);
});
