// SPDX-License-Identifier: Apache-2.0

import { expect } from "vitest";
import type { CallOutcome } from "../support/node/cni-call.ts";
import { scriptedTest } from "../support/node/test.ts";
import { fullEnvironment, type RawCall, rawCall, specifiedError } from "./calls.ts";
import { cniVersions } from "./tools.ts";

/** Makes a call that is complete but for the variables given. */
type CallWith = (
  command: string,
  changes?: Record<string, string>,
  conf?: RawCall["conf"],
) => Promise<CallOutcome>;

const test = scriptedTest.extend("call", { scope: "file" }, async ({ node }): Promise<CallWith> => {
  await node.lab.addNetns("env");
  return (command, changes = {}, conf) => {
    const env = { ...fullEnvironment(node, "env"), ...changes };
    return rawCall(node, { command, env, ...(conf === undefined ? {} : { conf }) });
  };
});

const identity = ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"];

test.for([
  { command: "ADD", required: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"] },
  { command: "CHECK", required: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"] },
  { command: "DEL", required: ["CNI_CONTAINERID", "CNI_IFNAME"] },
  { command: "GC", required: ["CNI_PATH"] },
  { command: "STATUS", required: [] },
])(
  "$command requires $required and no other variable [R-0.4-36] [R-1.0-12] [R-1.1-30]",
  async ({ command, required }, { call }) => {
    for (const name of required) {
      const { code, msg } = specifiedError(await call(command, { [name]: "" }));
      expect({ code, msg }).toEqual({ code: 4, msg: `required env variables [${name}] missing` });
    }
    const nothing = Object.fromEntries(identity.map((name) => [name, ""]));
    if (required.length > 0) {
      const { code, msg } = specifiedError(await call(command, nothing));
      expect({ code, msg }).toEqual({
        code: 4,
        msg: `required env variables [${required}] missing`,
      });
    }
    const others = identity.filter((name) => !required.includes(name));
    const optional = Object.fromEntries(others.map((name) => [name, ""]));
    const { json } = await call(command, { ...optional, CNI_ARGS: "" });
    expect(json).not.toMatchObject({ code: 4 });
  },
);

test.for([
  [{ CNI_CONTAINERID: "-x" }, "invalid characters in containerID", "-x"],
  [{ CNI_CONTAINERID: "../x" }, "invalid characters in containerID", "../x"],
  [
    { CNI_CONTAINERID: "x y\n" },
    "invalid characters in containerID",
    expect.stringContaining("x y"),
  ],
  [
    { CNI_IFNAME: "sixteen-letters0" },
    "interface name is too long",
    "interface name should be less than 16 characters",
  ],
  [
    { CNI_IFNAME: "ééééééééé" },
    "interface name is too long",
    "interface name should be less than 16 characters",
  ],
  [{ CNI_IFNAME: ".." }, "interface name is . or ..", undefined],
  [{ CNI_IFNAME: "a/b" }, "interface name contains / or : or whitespace characters", undefined],
  [
    { CNI_IFNAME: "a\u0085b" },
    "interface name contains / or : or whitespace characters",
    undefined,
  ],
])(
  "ADD, DEL and CHECK refuse %j with code 4 [R-0.1-05] [R-0.4-07] [R-0.4-36]",
  async ([changes, msg, details], { call }) => {
    for (const command of ["ADD", "DEL", "CHECK"]) {
      const error = specifiedError(await call(command, changes));
      expect(error).toMatchObject({ cniVersion: "1.1.0", code: 4, msg });
      const [reason, own] = `${error.details}`.split("; ");
      expect([reason, own]).toEqual(["reason=InvalidEnvironmentVariables", details]);
    }
    for (const command of ["GC", "STATUS"]) {
      expect(
        (await call(command, changes)).json,
        `${command} does not look at it`,
      ).not.toMatchObject({ code: 4 });
    }
  },
);

test.for([
  ["", 6, /^error unmarshall network config: not valid JSON: unexpected end/],
  ["{", 6, /^error unmarshall network config: /],
  ["[]", 6, /^error unmarshall network config: must be an object/],
  [
    '{"cniVersion":1,"name":"n"}',
    6,
    /^error unmarshall network config: cniVersion: must be a string/,
  ],
  ["null", 7, /^missing network name$/],
  ['{"cniVersion":"1.1.0","type":"plexus"}', 7, /^missing network name$/],
  ['{"cniVersion":"1.1.0","name":"a/b"}', 7, /^invalid characters found in network name$/],
] as const)(
  "every command refuses the configuration %j [R-0.4-36] [R-1.1-06]",
  async ([conf, code, msg], { plugins, call }) => {
    for (const command of ["ADD", "DEL", "CHECK", "GC", "STATUS"]) {
      const error = specifiedError(await call(command, {}, conf));
      expect(error).toMatchObject({ code, msg: expect.stringMatching(msg) });
    }
    expect(await plugins.order()).toEqual([]);
  },
);

test("an unknown command is code 4 [R-0.4-36]", async ({ call }) => {
  const error = specifiedError(await call("FROB"));
  expect(error).toEqual({
    cniVersion: "1.1.0",
    code: 4,
    msg: "unknown CNI_COMMAND: FROB",
    details: "reason=InvalidEnvironmentVariables",
  });
});

test.for(["ADD", "DEL", "CHECK", "GC", "STATUS"])(
  "%s of an unsupported version is code 1 [R-0.1-10] [R-0.4-31] [R-1.1-43]",
  async (command, { node, call }) => {
    for (const cniVersion of ["9.9.9", "1.2.0"]) {
      const error = specifiedError(await call(command, {}, node.conf({ cniVersion })));
      const since = command === "ADD" || command === "DEL";
      const msg = since ? "incompatible CNI versions" : `plugin version does not allow ${command}`;
      expect(error).toMatchObject({ cniVersion, code: 1, msg });
      if (since)
        expect(error.details).toBe(
          `reason=IncompatibleCniVersion; config is "${cniVersion}", plugin supports [${cniVersions.map((v) => `"${v}"`).join(" ")}]`,
        );
    }
  },
);

test.for([
  { command: "CHECK", since: "0.4.0" },
  { command: "STATUS", since: "1.1.0" },
  { command: "GC", since: "1.1.0" },
])(
  "$command is refused with code 1 before $since, and is let in from then on [R-0.1-10] [R-0.4-36]",
  async ({ command, since }, { node, call }) => {
    const first = cniVersions.indexOf(since);
    for (const [index, cniVersion] of cniVersions.entries()) {
      const { json } = await call(command, {}, node.conf({ cniVersion }));
      const refused = { code: 1, msg: `config version does not allow ${command}` };
      if (index < first) expect(json).toMatchObject({ cniVersion, ...refused });
      else expect(json).not.toMatchObject({ code: 1 });
    }
  },
);

test.for(cniVersions)(
  "VERSION answers with the input's version: %s [R-0.2-01] [R-1.0-12] [R-1.0-42]",
  async (cniVersion, { node }) => {
    const outcome = await rawCall(node, { command: "VERSION", conf: { cniVersion } });
    expect(outcome).toMatchObject({ exitCode: 0, stderr: "" });
    expect(outcome.json).toEqual({ cniVersion, supportedVersions: cniVersions });
  },
);

test("VERSION needs no input [R-0.2-01]", async ({ node }) => {
  const { json } = await rawCall(node, { command: "VERSION", conf: "" });
  expect(json).toEqual({ cniVersion: "1.1.0", supportedVersions: cniVersions });
});

test("without CNI_COMMAND the shim says on stderr what it is [R-0.1-11]", async ({ node }) => {
  const { exitCode, stdout, stderr } = await rawCall(node, { command: "" });
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "" });
  expect(stderr).toMatch(`CNI protocol versions supported: ${cniVersions.join(", ")}\n`);
});

test("ADD refuses a sandbox that is the runtime's own namespace with code 8, unless CNI_NETNS_OVERRIDE is set [R-0.4-36]", async ({
  node,
  plugins,
  call,
}) => {
  const own = { CNI_NETNS: `/proc/${node.lab.pid}/ns/net`, CNI_CONTAINERID: "c-own" };
  const error = specifiedError(await call("ADD", own));
  expect(error).toMatchObject({
    code: 8,
    msg: "plugin's netns and netns from CNI_NETNS should not be the same",
  });
  expect(await plugins.order()).toEqual([]);
  for (const CNI_NETNS_OVERRIDE of ["TRUE", "true", "1"]) {
    const meant = { ...own, CNI_NETNS_OVERRIDE };
    expect((await call("ADD", meant)).json).not.toMatchObject({ code: 8 });
    await call("DEL", meant);
  }
  const refused = specifiedError(await call("ADD", { ...own, CNI_NETNS_OVERRIDE: "yes" }));
  expect(refused.code).toBe(8);
});

test("DEL takes a sandbox path that has become the runtime's own namespace for one that is gone", async ({
  node,
  plugins,
  call,
}) => {
  const own = { CNI_NETNS: `/proc/${node.lab.pid}/ns/net`, CNI_CONTAINERID: "c-own" };
  expect(await call("DEL", own)).toMatchObject({ exitCode: 0 });
  const variables = (await plugins.executions()).flatMap(({ env }) => env);
  const namespaces = variables.filter((variable) => variable.startsWith("CNI_NETNS="));
  expect(new Set(namespaces)).toEqual(new Set(["CNI_NETNS="]));
});

test("every command but DEL refuses a plexus configuration with a wrong type; DEL must not depend on it [R-0.4-36]", async ({
  plugins,
  call,
}) => {
  const conf = '{"cniVersion":"1.1.0","name":"n","delegates":{}}';
  for (const command of ["ADD", "CHECK", "GC", "STATUS"]) {
    const error = specifiedError(await call(command, {}, conf));
    expect(error).toMatchObject({ code: 7, msg: expect.stringMatching(/delegates/) });
  }
  expect(await call("DEL", { CNI_CONTAINERID: "never-added" }, conf)).toMatchObject({
    exitCode: 0,
    stdout: "",
  });
  expect(await plugins.order()).toEqual([]);
});
