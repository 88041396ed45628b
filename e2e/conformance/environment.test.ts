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

/** A rejected call: its changed variables (empty if missing), and its conf unless it is the usual one. */
interface Refusal {
  readonly commands: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly conf?: string;
  readonly error: { readonly code: number; readonly msg: unknown; readonly details?: unknown };
}

const attaching = ["ADD", "DEL", "CHECK"];
const all = [...attaching, "GC", "STATUS"];
const nothing = { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_PATH: "" };
const missing = (...names: string[]) => ({
  code: 4,
  msg: `required env variables [${names}] missing`,
});
const versioned = (version: string): string => `{"cniVersion":"${version}","name":"plexus"}`;
const versions = cniVersions.map((version) => `"${version}"`).join(" ");

// src/cni/plugin/parse-request.test.ts has every rule; here each kind of them ends a call of the executable.
const refusals: readonly Refusal[] = [
  {
    commands: ["ADD", "CHECK"],
    env: nothing,
    error: missing("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"),
  },
  { commands: ["DEL"], env: nothing, error: missing("CNI_CONTAINERID", "CNI_IFNAME") },
  { commands: ["GC"], env: nothing, error: missing("CNI_PATH") },
  {
    commands: attaching,
    env: { CNI_CONTAINERID: "../x" },
    error: {
      code: 4,
      msg: "invalid characters in containerID",
      details: "reason=InvalidEnvironmentVariables; ../x",
    },
  },
  {
    commands: attaching,
    env: { CNI_IFNAME: "a\u0085b" },
    error: { code: 4, msg: "interface name contains / or : or whitespace characters" },
  },
  {
    commands: ["ADD", "CHECK"],
    env: { CNI_IFNAME: "net%d" },
    error: {
      code: 4,
      msg: 'CNI_IFNAME: interface name contains % or a control character, got "net%d"',
    },
  },
  {
    commands: all,
    conf: "{",
    error: { code: 6, msg: expect.stringMatching(/^error unmarshall network config: /) },
  },
  {
    commands: all,
    conf: '{"cniVersion":"1.1.0","type":"plexus"}',
    error: { code: 7, msg: "missing network name" },
  },
  {
    commands: all,
    conf: '{"cniVersion":"1.1.0","name":"a/b"}',
    error: { code: 7, msg: "invalid characters found in network name" },
  },
  {
    commands: ["FROB"],
    error: {
      code: 4,
      msg: "unknown CNI_COMMAND: FROB",
      details: "reason=InvalidEnvironmentVariables",
    },
  },
  {
    commands: ["ADD"],
    conf: versioned("1.2.0"),
    error: {
      code: 1,
      msg: "incompatible CNI versions",
      details: `reason=IncompatibleCniVersion; config is "1.2.0", plugin supports [${versions}]`,
    },
  },
  ...["CHECK", "GC", "STATUS"].flatMap((command) => [
    {
      commands: [command],
      conf: versioned("9.9.9"),
      error: { code: 1, msg: `plugin version does not allow ${command}` },
    },
    {
      commands: [command],
      conf: versioned("0.3.1"),
      error: { code: 1, msg: `config version does not allow ${command}` },
    },
  ]),
];

test.for(refusals)(
  "$commands with $env and the conf $conf: $error.msg [R-0.1-05] [R-0.1-10] [R-0.4-07] [R-0.4-31] [R-0.4-36] [R-1.0-12] [R-1.1-06] [R-1.1-30] [R-1.1-43]",
  async ({ commands, env, conf, error }, { plugins, call }) => {
    const cniVersion = conf === undefined ? "1.1.0" : /"cniVersion":"(.*?)"/.exec(conf)?.[1];
    for (const command of commands) {
      const printed = specifiedError(await call(command, env, conf));
      expect(printed, command).toMatchObject({ ...error, ...(cniVersion && { cniVersion }) });
    }
    expect(await plugins.order()).toEqual([]);
  },
);

test("a DEL of a version that Plexus lacks detaches", async ({ node, plugins, call }) => {
  const conf = node.conf({ cniVersion: "1.2.0" });
  expect(await call("DEL", {}, conf)).toMatchObject({ exitCode: 0 });
  expect(await plugins.order()).not.toEqual([]);
});

test("each command requires only its own variables [R-1.0-12]", async ({ call }) => {
  for (const [command, names] of [
    ["DEL", ["CNI_NETNS", "CNI_PATH"]],
    ["GC", ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"]],
    ["STATUS", Object.keys(nothing)],
  ] as const) {
    const env = Object.fromEntries([...names, "CNI_ARGS"].map((name) => [name, ""]));
    expect((await call(command, env)).json, command).not.toMatchObject({ code: 4 });
  }
});

test.for([...cniVersions, "none"])(
  "VERSION answers in the CNI version of its input: %s [R-0.2-01] [R-1.0-12] [R-1.0-42]",
  async (version, { node }) => {
    const cniVersion = version === "none" ? "1.1.0" : version;
    const conf = version === "none" ? "" : { cniVersion };
    const outcome = await rawCall(node, { command: "VERSION", conf });
    expect(outcome).toMatchObject({ exitCode: 0, stderr: "" });
    expect(outcome.json).toEqual({ cniVersion, supportedVersions: cniVersions });
  },
);

test("without CNI_COMMAND the shim prints its versions on stderr [R-0.1-11]", async ({ node }) => {
  const { exitCode, stdout, stderr } = await rawCall(node, { command: "" });
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "" });
  expect(stderr).toMatch(`CNI protocol versions supported: ${cniVersions.join(", ")}\n`);
});

test("DEL treats a sandbox path that is the runtime's own namespace as a deleted namespace", async ({
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

test("every command except DEL rejects a plexus configuration with a value of a wrong type [R-0.4-36]", async ({
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
