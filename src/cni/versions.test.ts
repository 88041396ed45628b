import { expect, test } from "vitest";
import {
  compareVersions,
  isAtLeast,
  negotiateVersion,
  parseVersion,
  requireSupportedVersion,
  resultFamily,
  supportedVersions,
} from "./versions.ts";

test.each([
  ["", [0, 1, 0]],
  ["1", [1, 0, 0]],
  ["1.2", [1, 2, 0]],
  ["1.2.3", [1, 2, 3]],
  ["0.3.1", [0, 3, 1]],
])("parseVersion(%j) returns its numbers [L-07]", (text, parts) => {
  expect(parseVersion(text)).toEqual(parts);
});

test.each([
  "asdf.",
  ".x",
  "0.",
  "..",
  "1.2.3.4",
  "1.2.3.4.5",
  "1.0.0-rc1",
  "1.0.0\n",
  " 1.0.0",
  "-1.0.0",
  "1..0",
])("parseVersion(%j) rejects an invalid version [L-07]", (text) => {
  expect(() => parseVersion(text)).toThrow(/^invalid CNI version/);
});

test.each([
  ["1.10.0", "1.9.0", 1],
  ["0.4.0", "0.3.1", 1],
  ["0.3.1", "0.3.0", 1],
  ["1.0", "1.0.0", 0],
  ["", "0.1.0", 0],
  ["0.9.9", "1.0.0", -1],
])("compareVersions(%j, %j) compares numbers, not texts [L-07]", (a, b, sign) => {
  expect(Math.sign(compareVersions(a, b))).toBe(sign);
  expect(Math.sign(compareVersions(b, a))).toBe(sign === 0 ? 0 : -sign);
  expect(isAtLeast(a, b)).toBe(sign >= 0);
});

test.each([
  { cniVersion: "", cniVersions: ["0.3.1", "1.1.0", "1.0.0"], chosen: "1.1.0" },
  { cniVersion: "1.0.0", cniVersions: ["0.3.1"], chosen: "1.0.0" },
  { cniVersion: "0.4.0", cniVersions: ["1.0.0", "99.0.0"], chosen: "1.0.0" },
  { cniVersion: "99.0.0", cniVersions: ["0.3.1", "0.4.0"], chosen: "0.4.0" },
  { cniVersion: "99.0.0", cniVersions: ["98.0.0"], chosen: "99.0.0" },
  { cniVersion: "1.2.0", cniVersions: ["1.3.0"], chosen: "1.1.0" },
  { cniVersion: "1.1.1", cniVersions: [], chosen: "1.1.0" },
  { cniVersion: "0.5.0", cniVersions: [], chosen: "0.5.0" },
  { cniVersion: "2.0.0", cniVersions: [], chosen: "2.0.0" },
  { cniVersion: "1.0.0", cniVersions: ["1.0.1"], chosen: "1.0.0" },
  { cniVersion: "", cniVersions: [], chosen: "" },
])("negotiateVersion() chooses the highest supported one: $chosen [R-1.1-01] [L-07]", (c) => {
  expect(negotiateVersion(c.cniVersion, c.cniVersions)).toBe(c.chosen);
});

test("negotiateVersion() rejects an invalid version in the list [L-07]", () => {
  expect(() => negotiateVersion("1.0.0", ["1.0.0", "foo"])).toThrow(/"foo"/);
});

test.each(["", ...supportedVersions])("requireSupportedVersion(%j) accepts it", (version) => {
  expect(() => requireSupportedVersion(version)).not.toThrow();
});

test.each(["9.9.9", "1.0", "banana"])(
  "requireSupportedVersion(%j) fails with code 1 [R-0.1-10] [S-06]",
  (version) => {
    expect(() => requireSupportedVersion(version)).toThrow(
      expect.objectContaining({
        code: 1,
        message: "incompatible CNI versions",
        details: `config is ${JSON.stringify(version)}, plugin supports ["0.1.0" "0.2.0" "0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"]`,
      }),
    );
  },
);

test("resultFamily() groups the versions by the shape of their results", () => {
  const families = ["0.2", "0.2", "0.2", "0.4", "0.4", "0.4", "1", "1", undefined];
  expect(["", ...supportedVersions, "2.0.0"].map(resultFamily)).toEqual(families);
});
