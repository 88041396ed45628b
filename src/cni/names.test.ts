import { expect, test } from "vitest";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { printable } from "#lib/one-line.ts";
import { CniError } from "./error.ts";
import {
  ifNameProblem,
  isPlainName,
  validateContainerId,
  validateIfName,
  validateIfNameOfDel,
  validateNetworkName,
} from "./names.ts";

function errorOf(validate: () => void): unknown {
  try {
    validate();
  } catch (error) {
    if (!(error instanceof CniError)) return error;
    const { code, message: msg, details } = error;
    return omitUndefined({ code, msg, details });
  }
  return "no error";
}

test.each(["a", "0", "cnitool-0123", "A_b.c-d", "x".repeat(200)])(
  "validateContainerId(%j) and validateNetworkName() accept it [R-0.4-07] [R-1.0-01]",
  (text) => {
    expect(() => validateContainerId(text)).not.toThrow();
    expect(() => validateNetworkName(text)).not.toThrow();
    expect(isPlainName(text)).toBe(true);
  },
);

test.each(["../../x", "a/b", "-a", ".a", "_a", "a b", "a\n", "\na", "ä", "a\u0000", "a;b"])(
  "validateContainerId(%j) and validateNetworkName() refuse it [R-0.4-07] [R-1.1-06]",
  (text) => {
    expect(errorOf(() => validateContainerId(text))).toEqual({
      code: 4,
      msg: "invalid characters in containerID",
      details: printable(text),
    });
    expect(errorOf(() => validateNetworkName(text))).toEqual({
      code: 7,
      msg: "invalid characters found in network name",
      details: printable(text),
    });
    expect(isPlainName(text)).toBe(false);
  },
);

test.each([
  [validateContainerId, "a".repeat(201), 4, "containerID has 201 characters, more than 200"],
  [validateContainerId, "", 3, "missing containerID"],
  [validateNetworkName, "", 7, "missing network name:"],
])("%o refuses %j, which is too long or empty [R-0.4-07]", (...row) => {
  const [validate, text, code, msg] = row;
  expect(errorOf(() => validate(text))).toEqual({ code, msg });
});

test.each(["eth0", "net1", "a.b", "...", "x".repeat(15), "é".repeat(7), "a@b", "a\\b"])(
  "validateIfName(%j) accepts a name that Linux accepts [R-0.1-05] [R-0.4-07]",
  (ifName) => {
    expect(() => validateIfName(ifName)).not.toThrow();
  },
);

const forbidden = "interface name contains / or : or whitespace characters";

test.each([
  ["", "interface name is empty"],
  ["x".repeat(16), "interface name is too long"],
  ["é".repeat(8), "interface name is too long"],
  [".", "interface name is . or .."],
  ["..", "interface name is . or .."],
  ["a/b", forbidden],
  ["a:b", forbidden],
  ["a b", forbidden],
  ["eth0\n", forbidden],
  ["a\tb", forbidden],
  ["a\u0085b", forbidden],
  ["a\u00a0b", forbidden],
  ["a\u2003b", forbidden],
])("validateIfName(%j) refuses it [R-0.1-05] [R-0.4-07] [R-0.4-36]", (ifName, msg) => {
  expect(errorOf(() => validateIfName(ifName))).toEqual({
    code: 4,
    msg,
    ...(msg.endsWith("long")
      ? { details: "interface name should be less than 16 characters" }
      : {}),
  });
});

const unsafe = "interface name contains % or a control character";
const reserved = "interface name is reserved by the kernel";

test.each([
  ["net%d", unsafe],
  ["%", unsafe],
  ["a\u0001b", unsafe],
  ["a\u007f", unsafe],
  ["all", reserved],
  ["default", reserved],
])("validateIfName(%j) refuses it with the value, but not in DEL [R-0.1-05]", (ifName, problem) => {
  const msg = printable(`${problem}, got ${JSON.stringify(ifName)}`);
  expect(ifNameProblem(ifName)).toBe(problem);
  expect(errorOf(() => validateIfName(ifName))).toEqual({ code: 4, msg });
  expect(errorOf(() => validateIfName(ifName, "CNI_IFNAME"))).toEqual({
    code: 4,
    msg: `CNI_IFNAME: ${msg}`,
  });
  expect(() => validateIfNameOfDel(ifName)).not.toThrow();
});

test("validateIfNameOfDel() refuses what could be no file name", () => {
  for (const name of ["", "x".repeat(16), "..", "a/b", "a b"]) {
    expect(errorOf(() => validateIfNameOfDel(name))).toMatchObject({ code: 4 });
  }
});
