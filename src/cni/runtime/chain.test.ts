import { expect, test } from "vitest";
import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { ended, exited, FakeDelegates } from "#cni/testing/fake-delegates.ts";
import { addNetwork, checkNetwork, delCalls } from "./chain.ts";
import type { RuntimeConf } from "./delegate-calls.ts";

const rt: RuntimeConf = {
  containerId: "cid",
  netns: "/ns",
  ifName: "net1",
  cniArgs: [["K8S_POD_NAME", "p"]],
  capabilityArgs: { mac: "aa", ips: ["10.0.0.1/24"] },
  searchPath: ["/a", "/b"],
  timeoutMs: 1000,
};

function listOf(cniVersion: string, ...plugins: (string | object)[]): NetConfList {
  const objects = plugins.map((plugin) => (typeof plugin === "string" ? { type: plugin } : plugin));
  return parseNetConfList({ cniVersion, name: "n", plugins: objects }, { source: "test" });
}

const result = { cniVersion: "1.0.0", ips: [{ address: "10.0.0.1/24" }] };
const abc = listOf("1.0.0", "a", "b", "c");

test("addNetwork() runs each plugin by its type, in order, with the same environment [R-0.1-01] [R-0.1-02] [R-0.1-03] [R-0.2-02] [R-0.3-13] [R-0.3-18] [R-0.4-01] [R-0.4-08] [R-1.0-12] [R-1.0-23] [X-02]", async () => {
  const fake = new FakeDelegates({
    a: exited(0, result),
    b: exited(0, result),
    c: exited(0, result),
  });
  await addNetwork(abc, rt, fake.run);
  expect(fake.types).toEqual(["a", "b", "c"]);
  for (const call of fake.calls) {
    expect(call).toMatchObject({ searchPath: ["/a", "/b"], timeoutMs: 1000 });
    expect(call.env).toEqual({
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "cid",
      CNI_NETNS: "/ns",
      CNI_IFNAME: "net1",
      CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAME=p",
      CNI_PATH: "/a:/b",
    });
  }
});

test("addNetwork() gives each plugin the list's name and version, and what is its own unaltered [R-0.1-06] [R-0.2-03] [R-0.3-09] [R-0.4-30] [R-1.0-04] [R-1.0-26] [B-01] [B-03]", async () => {
  const plugin = {
    type: "a",
    name: "own",
    cniVersion: "0.1.0",
    capabilities: { x: true },
    args: { cni: { labels: [{ key: "app" }] } },
    "cni.dev/foo": 1,
    vendor: { nested: [null, 1.5, "<&>"] },
  };
  const fake = new FakeDelegates({ a: exited(0, result) });
  await addNetwork(listOf("1.0.0", plugin), rt, fake.run);
  expect(fake.stdins).toEqual([{ ...plugin, name: "n", cniVersion: "1.0.0" }]);
});

test("addNetwork() gives the first plugin no prevResult and each other one the result before it [R-0.3-11] [R-1.1-07] [R-0.4-30]", async () => {
  const second = { cniVersion: "1.0.0", ips: [{ address: "10.0.0.2/24" }] };
  const fake = new FakeDelegates({
    a: exited(0, result),
    b: exited(0, second),
    c: exited(0, second),
  });
  const added = await addNetwork(abc, rt, fake.run);
  expect(fake.stdins.map(({ prevResult }) => prevResult)).toEqual([undefined, result, second]);
  expect(added.raw).toEqual(second);
  expect(added.result.ips).toEqual([{ address: "10.0.0.2/24" }]);
});

test("addNetwork() drops what a file on disk says in the runtime's place [R-1.0-03] [R-1.1-07] [B-03]", async () => {
  const stale = {
    type: "a",
    prevResult: { bogus: 1 },
    runtimeConfig: { mac: "stale" },
    "cni.dev/valid-attachments": [],
    "cni.dev/attachments": [],
  };
  const fake = new FakeDelegates({ a: exited(0, result) });
  await addNetwork(listOf("1.0.0", stale), rt, fake.run);
  expect(fake.stdins).toEqual([{ type: "a", name: "n", cniVersion: "1.0.0" }]);
});

test("addNetwork() passes on capability arguments that a plugin has switched on, and no others [R-0.3-10] [R-1.0-26] [B-02]", async () => {
  const fake = new FakeDelegates({
    a: exited(0, result),
    b: exited(0, result),
    c: exited(0, result),
  });
  const list = listOf(
    "1.0.0",
    { type: "a", capabilities: { mac: true, ips: false, portMappings: true } },
    { type: "b", capabilities: { portMappings: true, toString: true } },
    "c",
  );
  await addNetwork(list, rt, fake.run);
  expect(fake.stdins.map(({ runtimeConfig }) => runtimeConfig)).toEqual([
    { mac: "aa" },
    undefined,
    undefined,
  ]);
});

test("addNetwork() stops at the first error and undoes nothing by itself [R-0.3-15] [R-1.0-23]", async () => {
  const failure = { code: 7, msg: "bad subnet", details: "10.0.0.0/33" };
  const fake = new FakeDelegates({ a: exited(0, result), b: exited(1, failure) });
  await expect(addNetwork(abc, rt, fake.run)).rejects.toMatchObject({
    name: "DelegateError",
    code: 7,
    message: 'plugin type="b" failed (add): bad subnet',
    details: "10.0.0.0/33",
    network: "n",
    ifName: "net1",
    pluginType: "b",
  });
  expect(fake.types).toEqual(["a", "b"]);
});

test("addNetwork() fails on a missing plugin and does not reach the next one [R-1.0-23] [X-01]", async () => {
  const fake = new FakeDelegates({ a: exited(0, result), b: ended("missing", 2) });
  await expect(addNetwork(abc, rt, fake.run)).rejects.toThrow(
    'plugin type="b" failed (add): failed to find plugin "b" in path [/a /b]',
  );
  expect(fake.types).toEqual(["a", "b"]);
});

test.each([
  [{ containerId: "" }, 3, "missing containerID"],
  [{ containerId: "a/b" }, 4, "invalid characters in containerID"],
  [{ ifName: "" }, 4, "interface name is empty"],
  [{ ifName: "a:b" }, 4, "interface name contains / or : or whitespace characters"],
  [
    { cniArgs: [["K", "a;IP=1.1.1.1"]] as const },
    4,
    'CNI_ARGS K: value "a;IP=1.1.1.1" contains ; or NUL',
  ],
])("addNetwork() with %j runs nothing [R-0.4-07] [O-01]", async (part, code, message) => {
  const fake = new FakeDelegates();
  await expect(addNetwork(abc, { ...rt, ...part }, fake.run)).rejects.toMatchObject({
    code,
    message,
  });
  expect(fake.calls).toEqual([]);
});

test("addNetwork() runs nothing for a network without a name, or of a version that is not ours", async () => {
  const fake = new FakeDelegates();
  await expect(addNetwork({ ...abc, name: "../x" }, rt, fake.run)).rejects.toMatchObject({
    code: 7,
  });
  await expect(addNetwork(listOf("9.9.9", "a"), rt, fake.run)).rejects.toMatchObject({ code: 1 });
  await expect(addNetwork({ ...abc, plugins: [] }, rt, fake.run)).rejects.toMatchObject({
    code: 7,
  });
  expect(fake.calls).toEqual([]);
});

test.each([
  ["", "cannot decode result: nothing was printed"],
  ["\n", "cannot decode result: nothing was printed"],
  [
    "hello",
    'cannot decode result: not valid JSON: unexpected "h", expected a value at line 1, column 1',
  ],
  ["[]", "cannot decode result: must be an object, got []"],
  ['"{}"', 'cannot decode result: must be an object, got "{}"'],
  [
    '{"ips":[{"address":"1.2.3.4"}]}',
    'cannot decode result: ips[0].address: invalid CIDR address: "1.2.3.4"',
  ],
  [
    '{"cniVersion":"9.9.9"}',
    'cannot decode result: cniVersion: unsupported CNI result version "9.9.9"',
  ],
])(
  "addNetwork() refuses the output %j of a plugin that succeeded [X-10]",
  async (stdout, problem) => {
    const fake = new FakeDelegates({ a: exited(0, stdout) });
    await expect(addNetwork(abc, rt, fake.run)).rejects.toMatchObject({
      name: "DelegateError",
      code: 6,
      message: `plugin type="a" failed (add): ${problem}`,
    });
  },
);

test.each([
  { printed: {}, wire: { cniVersion: "0.4.0", dns: {} } },
  { printed: null, wire: { cniVersion: "0.4.0", dns: {} } },
  { printed: { cniVersion: "" }, wire: { cniVersion: "0.4.0", dns: {} } },
  {
    printed: { cniVersion: "0.3.1", ips: [{ version: "4", address: "10.0.0.1/24", x: 1 }], y: 2 },
    wire: {
      cniVersion: "0.4.0",
      ips: [{ version: "4", address: "10.0.0.1/24", x: 1 }],
      dns: {},
      y: 2,
    },
  },
  {
    printed: { cniVersion: "1.0.0", ips: [{ address: "10.0.0.1/24", x: 1 }], y: 2 },
    wire: { cniVersion: "0.4.0", ips: [{ version: "4", address: "10.0.0.1/24" }], dns: {} },
  },
])(
  "addNetwork() gives the result in the list's version: $printed [R-0.4-31] [R-1.0-40]",
  async ({ printed, wire }) => {
    const fake = new FakeDelegates({ a: exited(0, JSON.stringify(printed)) });
    const { raw, result: read } = await addNetwork(listOf("0.4.0", "a"), rt, fake.run);
    expect(raw).toEqual(wire);
    expect(read.cniVersion).toBe("0.4.0");
  },
);

test("addNetwork() reads what a 0.1.0 plugin prints [R-0.1-08]", async () => {
  const printed = {
    ip4: { ip: "10.0.0.1/24", gateway: "10.0.0.254", routes: [{ dst: "0.0.0.0/0" }] },
  };
  const fake = new FakeDelegates({ a: exited(0, printed) });
  const { raw, result: read } = await addNetwork(listOf("0.1.0", "a"), rt, fake.run);
  expect(raw).toEqual({ cniVersion: "0.1.0", ...printed, dns: {} });
  expect(read).toMatchObject({
    ips: [{ address: "10.0.0.1/24", gateway: "10.0.0.254" }],
    routes: [{ dst: "0.0.0.0/0" }],
  });
});

test("addNetwork() keeps what plugins print beyond the specification, under canonical keys", async () => {
  const printed = {
    cniVersion: "1.0.0",
    Interfaces: [{ Name: "eth0", driver: "x", mtu: 0 }],
    ips: [{ address: "FD00::1/64", interface: -1, lease: { seconds: 5 } }],
    dns: { ttl: 5 },
    vendor: [1],
  };
  const fake = new FakeDelegates({
    a: exited(0, printed),
    b: exited(0, result),
    c: exited(0, result),
  });
  await addNetwork(abc, rt, fake.run);
  expect(fake.stdins[1]?.prevResult).toEqual({
    cniVersion: "1.0.0",
    interfaces: [{ name: "eth0", driver: "x" }],
    ips: [{ address: "fd00::1/64", lease: { seconds: 5 } }],
    dns: { ttl: 5 },
    vendor: [1],
  });
});

test("addNetwork() passes on what ends the call for everybody", async () => {
  const gone = new Error("the shim has gone");
  await expect(addNetwork(abc, rt, () => Promise.reject(gone))).rejects.toBe(gone);
});

test("delCalls() are the whole list in reverse, each with the final result and the parameters of ADD [R-0.1-15] [R-0.3-14] [R-0.3-16] [R-0.4-10] [R-0.4-12] [R-0.4-30] [R-1.0-24] [R-1.1-10]", () => {
  const list = listOf("1.0.0", { type: "a", capabilities: { mac: true } }, "b");
  const calls = delCalls(list, rt, result);
  expect(calls.map(({ type }) => type)).toEqual(["b", "a"]);
  expect(calls.map(({ env }) => env.CNI_COMMAND)).toEqual(["DEL", "DEL"]);
  expect(calls[1]?.env).toMatchObject({
    CNI_CONTAINERID: "cid",
    CNI_NETNS: "/ns",
    CNI_IFNAME: "net1",
  });
  expect(calls.map(({ stdin }) => JSON.parse(stdin))).toEqual([
    { type: "b", name: "n", cniVersion: "1.0.0", prevResult: result },
    {
      type: "a",
      name: "n",
      cniVersion: "1.0.0",
      capabilities: { mac: true },
      runtimeConfig: { mac: "aa" },
      prevResult: result,
    },
  ]);
});

test.each([
  ["0.3.1", result, undefined],
  ["0.1.0", result, undefined],
  [
    "0.4.0",
    result,
    { cniVersion: "0.4.0", ips: [{ version: "4", address: "10.0.0.1/24" }], dns: {} },
  ],
  ["1.1.0", result, { ...result, cniVersion: "1.1.0" }],
  ["1.0.0", { ...result, vendor: 1 }, { ...result, vendor: 1 }],
  ["1.0.0", undefined, undefined],
  ["1.0.0", { cniVersion: "9.9.9" }, undefined],
  ["1.0.0", { ips: [{}] }, undefined],
])(
  "delCalls() of a %s list with the result %j has the prevResult %j [R-0.3-14] [R-0.4-12] [R-0.4-13] [O-02]",
  (version, given, known) => {
    const [call] = delCalls(listOf(version, "a"), rt, given);
    expect(JSON.parse(call?.stdin ?? "").prevResult).toEqual(known);
  },
);

test("checkNetwork() gives every plugin the final result and the parameters of ADD [R-0.4-24] [R-0.4-30] [R-1.0-16] [R-1.0-25]", async () => {
  const fake = new FakeDelegates();
  await checkNetwork(listOf("0.4.0", "a", "b"), rt, { prevResult: result, run: fake.run });
  expect(fake.types).toEqual(["a", "b"]);
  expect(fake.calls[0]?.env).toMatchObject({
    CNI_COMMAND: "CHECK",
    CNI_NETNS: "/ns",
    CNI_IFNAME: "net1",
  });
  for (const { prevResult } of fake.stdins)
    expect(prevResult).toMatchObject({ cniVersion: "0.4.0" });
});

test("checkNetwork() stops at the first error, with its code [R-0.4-24] [R-1.0-25] [R-1.0-31]", async () => {
  const fake = new FakeDelegates({ b: exited(1, { code: 123, msg: "gone" }) });
  await expect(checkNetwork(abc, rt, { prevResult: result, run: fake.run })).rejects.toMatchObject({
    code: 123,
    message: 'plugin type="b" failed (check): gone',
  });
  expect(fake.types).toEqual(["a", "b"]);
});

test.each([
  { conf: { cniVersion: "0.3.1" }, why: "has no CHECK" },
  { conf: { cniVersion: "1.0.0", disableCheck: true }, why: "switches it off" },
  { conf: { cniVersion: "0.4.0", disableCheck: "true" }, why: "switches it off in a string" },
])("checkNetwork() skips a list that $why [R-0.4-24] [R-0.4-32] [R-1.0-25]", async ({ conf }) => {
  const list = parseNetConfList(
    { name: "n", plugins: [{ type: "a" }], ...conf },
    { source: "test" },
  );
  const fake = new FakeDelegates();
  await checkNetwork(list, rt, { prevResult: result, run: fake.run });
  expect(fake.calls).toEqual([]);
});

test("checkNetwork() refuses a result that cannot be read [O-02]", async () => {
  const fake = new FakeDelegates();
  const options = { prevResult: { cniVersion: "0.4567.0" }, run: fake.run };
  await expect(checkNetwork(abc, rt, options)).rejects.toMatchObject({ code: 6 });
  expect(fake.calls).toEqual([]);
});
