import fc from "fast-check";
import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { json, mutated, validResult } from "#cni/testing/arbitrary.ts";
import { supportedVersions } from "#cni/versions.ts";
import { formatResult, printResult } from "./format.ts";
import { parseResult } from "./parse.ts";

const version = fc.constantFrom(...supportedVersions);

/** The error codes that reading and converting may end with. */
function codeOf(work: () => unknown): number | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    if (error instanceof CniError) return error.code;
    throw error;
  }
}

test("parseResult() loses nothing of a valid result", () => {
  fc.assert(
    fc.property(validResult, (raw) => {
      const result = parseResult(raw, { fallbackVersion: "" });
      const printed = printResult(formatResult(result, "1.1.0"));
      expect(parseResult(JSON.parse(printed), { fallbackVersion: "" })).toEqual(result);
      const count = (value: unknown): number => (Array.isArray(value) ? value.length : 0);
      expect(result.interfaces).toHaveLength(count(raw.interfaces));
      expect(result.ips).toHaveLength(count(raw.ips));
      expect(result.routes).toHaveLength(count(raw.routes));
      expect(result.dns ?? {}).toEqual(raw.dns);
    }),
  );
});

test("formatResult() keeps every address and route on the way through every list version", () => {
  fc.assert(
    fc.property(validResult, fc.constantFrom("0.3.0", "0.3.1", "0.4.0", "1.0.0"), (raw, via) => {
      const result = parseResult(raw, { fallbackVersion: "" });
      const there = parseResult(formatResult(result, via), { fallbackVersion: "" });
      const back = parseResult(formatResult(there, "1.1.0"), { fallbackVersion: "" });
      expect({ ...back, interfaces: [] }).toEqual({ ...result, interfaces: [] });
      expect(back.interfaces.map(({ name, mac, sandbox }) => ({ name, mac, sandbox }))).toEqual(
        result.interfaces.map(({ name, mac, sandbox }) => ({ name, mac, sandbox })),
      );
    }),
  );
});

test("parseResult() and formatResult() end mutated results with a result or an error of the protocol", () => {
  fc.assert(
    fc.property(fc.oneof(mutated(validResult), json), version, version, (raw, from, to) => {
      const code = codeOf(() => {
        const result = parseResult(raw, { fallbackVersion: from });
        const written = formatResult(result, to);
        parseResult(JSON.parse(printResult(written)), { fallbackVersion: "" });
      });
      expect([undefined, 1, 6]).toContain(code);
    }),
    { numRuns: 1000 },
  );
});
