import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { supportedVersions } from "#cni/versions.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { parsePluginRequest, sameNetnsError } from "./parse-request.ts";
import type { GcRequest } from "./request.ts";

const env = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "cid",
  CNI_NETNS: "/ns",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAME=p",
  CNI_PATH: "/a::/b:",
};
const conf = { cniVersion: "1.1.0", name: "n", type: "plexus" };

const parse = (
  variables: Readonly<Record<string, string | undefined>> = env,
  stdin: unknown = conf,
): ReturnType<typeof parsePluginRequest> =>
  parsePluginRequest(variables, typeof stdin === "string" ? stdin : JSON.stringify(stdin));

function errorOf(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof CniError)) return error;
    const { code, message: msg, details } = error;
    return omitUndefined({ code, msg, details });
  }
}

test.each(["ADD", "DEL", "CHECK"] as const)(
  "parsePluginRequest() reads %s with all its parameters [R-0.1-03] [R-0.2-03] [R-0.2-04] [R-0.3-18] [R-0.4-08] [R-0.4-33] [R-1.0-12]",
  (command) => {
    const raw = {
      ...conf,
      capabilities: { ips: true },
      prevResult: { ips: [] },
      args: { a: 1 },
      vendor: [null],
    };
    expect(parse({ ...env, CNI_COMMAND: command }, raw)).toEqual({
      command,
      containerId: "cid",
      netns: "/ns",
      ifName: "eth0",
      cniArgs: [
        ["IgnoreUnknown", "1"],
        ["K8S_POD_NAME", "p"],
      ],
      path: ["/a", "/b"],
      conf: {
        name: "n",
        cniVersion: "1.1.0",
        type: "plexus",
        capabilities: { ips: true },
        runtimeConfig: {},
        raw,
      },
      prevResult: { ips: [] },
      netnsOverride: false,
    });
  },
);

test("parsePluginRequest() reads STATUS and GC without an attachment [R-1.1-23] [R-1.1-30]", () => {
  const confOnly = { conf: { ...conf, capabilities: {}, runtimeConfig: {}, raw: conf } };
  expect(parse({ CNI_COMMAND: "STATUS" })).toEqual({ command: "STATUS", path: [], ...confOnly });
  expect(parse({ CNI_COMMAND: "GC", CNI_PATH: "/a", CNI_CONTAINERID: "../ignored" })).toEqual({
    command: "GC",
    path: ["/a"],
    ...confOnly,
  });
});

test("parsePluginRequest() rejects a runtimeConfig that is not an object, except in a DEL", () => {
  for (const runtimeConfig of ["x", [], 1]) {
    const raw = { ...conf, runtimeConfig };
    expect(errorOf(() => parse(env, raw))).toMatchObject({
      code: 7,
      msg: expect.stringContaining("runtimeConfig: must be an object, got "),
    });
    expect(parse({ ...env, CNI_COMMAND: "DEL" }, raw).conf.runtimeConfig).toEqual({});
  }
  expect(parse(env, { ...conf, runtimeConfig: null }).conf.runtimeConfig).toEqual({});
  expect(parse(env, { ...conf, runtimeConfig: { a: 1 } }).conf.runtimeConfig).toEqual({ a: 1 });
});

test("parsePluginRequest() rejects malformed CNI_ARGS, except in a DEL (multus.md §2.1)", () => {
  const variables = { ...env, CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAME" };
  expect(errorOf(() => parse(variables))).toMatchObject({
    code: 4,
    msg: 'invalid CNI_ARGS: "K8S_POD_NAME" is not KEY=VALUE',
  });
  expect(parse({ ...variables, CNI_COMMAND: "DEL" })).toMatchObject({
    cniArgs: [["IgnoreUnknown", "1"]],
  });
});

test("parsePluginRequest() accepts a DEL without network namespace and prevResult [R-0.4-13] [R-1.1-10]", () => {
  const { CNI_NETNS: _none, ...rest } = env;
  expect(parse({ ...rest, CNI_COMMAND: "DEL" })).toMatchObject({ command: "DEL", netns: "" });
});

const missing = (...names: string[]): object => ({
  code: 4,
  msg: `required env variables [${names.join(",")}] missing`,
});

test.each([
  ["ADD", missing("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME")],
  ["CHECK", missing("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME")],
  ["DEL", missing("CNI_CONTAINERID", "CNI_IFNAME")],
  ["GC", missing("CNI_PATH")],
  ["", missing("CNI_COMMAND")],
])("parsePluginRequest() of %j names all it lacks [R-1.0-12] [R-0.4-36]", (command, error) => {
  expect(errorOf(() => parse({ CNI_COMMAND: command }))).toEqual(error);
  const empty = { CNI_CONTAINERID: "", CNI_IFNAME: "", CNI_PATH: "" };
  expect(errorOf(() => parse({ CNI_COMMAND: command, ...empty }))).toEqual(error);
});

test.each([
  [{ CNI_CONTAINERID: "a/b", CNI_IFNAME: "a:b" }, 4, "invalid characters in containerID"],
  [
    { CNI_IFNAME: "a:b", CNI_NETNS: "" },
    4,
    "interface name contains / or : or whitespace characters",
  ],
  [{ CNI_IFNAME: "x".repeat(16) }, 4, "interface name is too long"],
  [
    { CNI_IFNAME: "net%d" },
    4,
    'CNI_IFNAME: interface name contains % or a control character, got "net%d"',
  ],
])("parsePluginRequest() rejects the malformed %j first of all [R-0.4-07]", (part, code, msg) => {
  expect(errorOf(() => parse({ ...env, ...part }, "{"))).toMatchObject({ code, msg });
});

test("parsePluginRequest() of a DEL accepts an interface name that its ADD refused", () => {
  const named = { ...env, CNI_IFNAME: "net%d" };
  expect(parse({ ...named, CNI_COMMAND: "DEL" })).toMatchObject({ ifName: "net%d" });
  expect(errorOf(() => parse({ ...named, CNI_COMMAND: "CHECK" }))).toMatchObject({ code: 4 });
});

test.each(["VERSION", "add", "FOO", "__proto__", "toString"])(
  "parsePluginRequest() rejects the unknown command %j after checking the configuration [S-03]",
  (command) => {
    const unknown = { ...env, CNI_COMMAND: command };
    expect(errorOf(() => parse(unknown, "{"))).toMatchObject({ code: 6 });
    expect(errorOf(() => parse(unknown))).toEqual({
      code: 4,
      msg: `unknown CNI_COMMAND: ${command}`,
    });
  },
);

test.each([
  ["", 6, "error unmarshall network config: not valid JSON: unexpected end"],
  ["{", 6, "error unmarshall network config: not valid JSON: unexpected end"],
  ["[]", 6, "error unmarshall network config: must be an object, got []"],
  ["null", 7, /^missing network name$/],
  [{ cniVersion: "1.1.0" }, 7, /^missing network name$/],
  [{ name: "" }, 7, /^missing network name$/],
  [{ name: 3 }, 6, "error unmarshall network config: name: must be a string, got 3"],
  [{ name: "../x" }, 7, "invalid characters found in network name"],
  [
    { name: "n", cniVersion: 1 },
    6,
    "error unmarshall network config: cniVersion: must be a string",
  ],
  [
    { ...conf, capabilities: { a: 1 } },
    7,
    "invalid network configuration on stdin: capabilities.a: must be true or false",
  ],
  [
    { ...conf, prevResult: 1, dns: [] },
    7,
    "invalid network configuration on stdin: prevResult: must be an object, got 1; dns: ",
  ],
])("parsePluginRequest() refuses the configuration %j [S-05] [R-0.4-36]", (stdin, code, text) => {
  for (const command of ["ADD", "DEL", "CHECK", "STATUS", "GC"]) {
    const error = errorOf(() => parse({ ...env, CNI_COMMAND: command }, stdin));
    const msg =
      typeof text === "string" ? expect.stringContaining(text) : expect.stringMatching(text);
    expect(error).toMatchObject({ code, msg });
  }
});

test.each([undefined, "", ...supportedVersions])(
  "parsePluginRequest() accepts ADD and DEL of version %j [R-1.0-41] [S-06]",
  (cniVersion) => {
    for (const CNI_COMMAND of ["ADD", "DEL"]) {
      const read = parse({ ...env, CNI_COMMAND }, { name: "n", cniVersion }).conf;
      expect(read).toMatchObject({ cniVersion: cniVersion ?? "", type: "" });
    }
  },
);

const incompatible = "incompatible CNI versions";
const noVersion = 'invalid CNI version "banana": not one to three numbers with dots between';

test.each([
  ["ADD", "9.9.9", 1, incompatible],
  ["ADD", "banana", 1, incompatible],
  ["CHECK", undefined, 1, "config version does not allow CHECK"],
  ["CHECK", "0.3.1", 1, "config version does not allow CHECK"],
  ["CHECK", "9.9.9", 1, "plugin version does not allow CHECK"],
  ["CHECK", "0.5.0", 1, incompatible],
  ["CHECK", "banana", 6, noVersion],
  ["GC", "1.0.0", 1, "config version does not allow GC"],
  ["GC", "1.2.0", 1, "plugin version does not allow GC"],
  ["GC", "banana", 6, noVersion],
  ["STATUS", "", 1, "config version does not allow STATUS"],
  ["STATUS", "2.0.0", 1, "plugin version does not allow STATUS"],
  ["STATUS", "banana", 6, noVersion],
])(
  "parsePluginRequest() refuses %s of version %j [R-0.1-10] [R-0.4-31] [S-06] [S-07] [S-08]",
  (...row) => {
    const [CNI_COMMAND, cniVersion, code, msg] = row;
    const error = errorOf(() => parse({ ...env, CNI_COMMAND }, { ...conf, cniVersion }));
    expect(error).toMatchObject({ code, msg });
  },
);

test.each(["1.2.0", "0.5.0", "banana"])(
  "parsePluginRequest() takes a DEL of version %j for one of the newest version",
  (cniVersion) => {
    const read = parse({ ...env, CNI_COMMAND: "DEL" }, { ...conf, cniVersion });
    expect(read.conf).toMatchObject({ cniVersion: "1.1.0", raw: { cniVersion } });
  },
);

const gc = { CNI_COMMAND: "GC", CNI_PATH: "/a" };
const item = { containerID: "cid", ifname: "eth0" };

test.each([
  [{}, undefined],
  [{ "cni.dev/valid-attachments": null }, []],
  [{ "cni.dev/valid-attachments": [] }, []],
  [{ "cni.dev/valid-attachments": [item] }, [item]],
  [{ "cni.dev/attachments": [item] }, [item]],
  [{ "cni.dev/attachments": null }, []],
  [{ "cni.dev/valid-attachments": [], "cni.dev/attachments": [item] }, []],
])("parsePluginRequest() reads attachments of a GC: %j [R-1.1-30]", (keys, validAttachments) => {
  const request = parse(gc, { ...conf, ...keys }) as GcRequest;
  expect(request.validAttachments).toEqual(validAttachments);
});

test.each([
  [[{ containerID: "cid" }], "cni.dev/attachments[0].ifname: is missing"],
  [[item, null], "cni.dev/attachments[1]: must be an object, got null"],
  [
    [{ containerID: 3, ifname: "e" }],
    "cni.dev/attachments[0].containerID: must be a string, got 3",
  ],
  ["all", 'cni.dev/attachments: must be an array, got "all"'],
])("parsePluginRequest() rejects a GC with invalid attachments: %j [R-1.1-30]", (list, problem) => {
  expect(errorOf(() => parse(gc, { ...conf, "cni.dev/attachments": list }))).toEqual({
    code: 7,
    msg: `invalid network configuration on stdin: ${problem}`,
  });
});

test.each([
  ["TRUE", true],
  ["1", true],
  ["True", true],
  ["0", false],
  ["10", false],
  ["untrue", false],
  ["", false],
])("parsePluginRequest() reads CNI_NETNS_OVERRIDE=%j [S-111]", (value, netnsOverride) => {
  expect(parse({ ...env, CNI_NETNS_OVERRIDE: value })).toMatchObject({ netnsOverride });
});

test("sameNetnsError() has the code and message of the Go plugins [S-111]", () => {
  expect(sameNetnsError()).toMatchObject({
    code: 8,
    message: "plugin's netns and netns from CNI_NETNS should not be the same",
  });
});

test("parsePluginRequest() accepts every call that libcni makes [R-1.0-12]", () => {
  const file = new URL("../../../e2e/vectors/libcni-invocations.txt", import.meta.url);
  const calls = [...readFileSync(file, "utf8").matchAll(/^(CNI_.*)\n {3}stdin=(.*)$/gm)];
  const commands = calls.map(([, variables = "", stdin = ""]) => {
    const pairs = [...variables.matchAll(/(CNI_[A-Z]+)=(\S*)/g)];
    const called = Object.fromEntries(pairs.map(([, name = "", value = ""]) => [name, value]));
    return called.CNI_COMMAND === "VERSION" ? "VERSION" : parsePluginRequest(called, stdin).command;
  });
  const pair = (command: string): string[] => [command, command];
  expect(commands).toEqual([
    ...["ADD", "CHECK", "GC", "DEL", "GC", "GC", "STATUS"].flatMap(pair),
    "VERSION",
  ]);
});
