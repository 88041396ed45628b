import { expect, test } from "vitest";
import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { limits } from "#cni/limits.ts";
import { parseResult } from "#cni/result/parse.ts";
import { ended, exited, FakeDelegates } from "#cni/testing/fake-delegates.ts";
import { addNetwork, checkExecutable, checkNetwork, delCallsOfStored } from "./chain.ts";
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

test("addNetwork() passes the result of each plugin to the next one as prevResult [R-0.3-11] [R-1.1-07] [R-0.4-30]", async () => {
  const second = { cniVersion: "1.0.0", ips: [{ address: "10.0.0.2/24" }] };
  const ofB = exited(0, second);
  const fake = new FakeDelegates({ a: exited(0, result), b: ofB, c: ofB });
  const added = await addNetwork(abc, rt, fake);
  expect(fake.stdins.map(({ prevResult }) => prevResult)).toEqual([undefined, result, second]);
  for (const call of fake.calls) {
    expect(call).toMatchObject({ searchPath: ["/a", "/b"], timeoutMs: 1000 });
    expect(call.env.CNI_ARGS).toBe("IgnoreUnknown=1;K8S_POD_NAME=p");
  }
  expect(added.raw).toEqual(second);
  expect(added.result.ips).toEqual([{ address: "10.0.0.2/24" }]);
});

test("addNetwork() stops at the first error of a plugin or of the shim, without a rollback [R-0.3-15] [R-1.0-23] [X-01]", async () => {
  const failure = { code: 7, msg: "bad subnet", details: "10.0.0.0/33" };
  const fake = new FakeDelegates({ a: exited(0, result), b: exited(1, failure) });
  const bad = { name: "DelegateError", pluginType: "b" };
  await expect(addNetwork(abc, rt, fake)).rejects.toMatchObject({
    ...{ ...bad, code: 7, message: 'plugin type="b" failed (add): bad subnet' },
    details: "10.0.0.0/33",
  });
  expect(fake.types).toEqual(["a", "b"]);
  const { run } = new FakeDelegates({ a: exited(0, result), b: ended("missing", 2) });
  await expect(addNetwork(abc, rt, { run })).rejects.toThrow(
    'failed to find plugin "b" in path [/a /b]',
  );
});

test.each<[object, object, number]>([
  [{}, { containerId: "" }, 3],
  [{}, { containerId: "a/b" }, 4],
  [{}, { ifName: "a:b" }, 4],
  [{}, { cniArgs: [["K", "a;IP=1.1.1.1"]] }, 4],
  [{ name: "../x" }, {}, 7],
  [{ cniVersion: "9.9.9" }, {}, 1],
  [{ plugins: [] }, {}, 7],
])("addNetwork() executes nothing for list %j and call %j [R-0.4-07] [O-01]", async (...row) => {
  const [list, call, code] = row;
  const fake = new FakeDelegates();
  const added = addNetwork({ ...abc, ...list }, { ...rt, ...call }, fake);
  await expect(added).rejects.toMatchObject({ code });
  expect(fake.calls).toEqual([]);
});

test.each([
  ["\n", "cannot decode result: nothing was printed"],
  [
    "hello",
    'cannot decode result: not valid JSON: unexpected "h", expected a value at line 1, column 1; the plugin printed "hello"',
  ],
  ["[]", "cannot decode result: must be an object, got []"],
])("addNetwork() rejects the result %j of exit code 0 [X-10]", async (stdout, problem) => {
  const fake = new FakeDelegates({ a: exited(0, stdout) });
  await expect(addNetwork(abc, rt, fake)).rejects.toMatchObject({
    name: "DelegateError",
    code: 6,
    message: `plugin type="a" failed (add): ${problem}`,
  });
});

test.each([
  [100, "OverLimit", `"${" ".repeat(limits.result.max)}"`],
  [6, "PluginOutput", '{"cniVersion":"9.9.9"}'],
  [1, "IncompatibleCniVersion", '{"cniVersion":"1.0.0"}'],
])("addNetwork() of a 0.2.0 list fails with code %i and %s", async (code, reason, stdout) => {
  const { run } = new FakeDelegates({ a: exited(0, stdout) });
  const added = addNetwork(listOf("0.2.0", "a"), rt, { run });
  await expect(added).rejects.toMatchObject({ name: "DelegateError", code, reason });
});

const address = "10.0.0.1/24";
const legacy = { cniVersion: "0.4.0", dns: {} };
const ip4 = { ip: address, gateway: "10.0.0.254", routes: [{ dst: "0.0.0.0/0" }] };

test.each([
  ["0.4.0", {}, legacy],
  ["0.4.0", null, legacy],
  ["0.4.0", { cniVersion: "" }, legacy],
  [
    "0.4.0",
    { cniVersion: "0.3.1", ips: [{ version: "4", address, x: 1 }], y: 2 },
    { ...legacy, ips: [{ version: "4", address, x: 1 }], y: 2 },
  ],
  [
    "0.4.0",
    { cniVersion: "1.0.0", ips: [{ address, x: 1 }], y: 2 },
    { ...legacy, ips: [{ version: "4", address }] },
  ],
  ["0.1.0", { ip4 }, { cniVersion: "0.1.0", ip4, dns: {} }],
  [
    "0.2.0",
    { ip4: { IP: address, Routes: [{ DST: "0.0.0.0/0", x: 1 }], y: 2 } },
    {
      cniVersion: "0.2.0",
      ip4: { ip: address, routes: [{ dst: "0.0.0.0/0", x: 1 }], y: 2 },
      dns: {},
    },
  ],
  ["0.4.0", { dns: null, routes: null }, legacy],
  ["1.0.0", { dns: { domain: "" }, routes: null, ips: [] }, { cniVersion: "1.0.0" }],
  [
    "1.0.0",
    { Interfaces: null, interfaces: [{ name: "a" }] },
    { cniVersion: "1.0.0", interfaces: [{ name: "a" }] },
  ],
])("addNetwork() of a %s list has %j as %j [R-0.1-08] [R-0.4-31] [R-1.0-40]", async (...row) => {
  const [version, printed, wire] = row;
  const fake = new FakeDelegates({ a: exited(0, JSON.stringify(printed)) });
  const added = await addNetwork(listOf(version, "a"), rt, fake);
  expect(added.raw).toEqual(wire);
  expect(added.result).toEqual(parseResult(wire, { fallbackVersion: "" }));
});

test("addNetwork() keeps unknown fields of a result and normalizes the names of known ones", async () => {
  const printed = {
    cniVersion: "1.0.0",
    Interfaces: [{ Name: "eth0", driver: "x", mtu: 0 }],
    ips: [{ address: "FD00::1/64", interface: -1, lease: { seconds: 5 } }],
    dns: { ttl: 5 },
    vendor: [1],
  };
  const fake = new FakeDelegates({ a: exited(0, printed), b: exited(0, result) });
  await addNetwork(listOf("1.0.0", "a", "b"), rt, fake);
  expect(fake.stdins[1]?.prevResult).toEqual({
    cniVersion: "1.0.0",
    interfaces: [{ name: "eth0", driver: "x" }],
    ips: [{ address: "fd00::1/64", lease: { seconds: 5 } }],
    dns: { ttl: 5 },
    vendor: [1],
  });
});

test("addNetwork() rejects with the error of a shim that disconnected", async () => {
  const gone = new Error("the shim has gone");
  await expect(addNetwork(abc, rt, { run: () => Promise.reject(gone) })).rejects.toBe(gone);
});

test.each([
  ["0.3.1", result, undefined],
  ["0.1.0", result, undefined],
  ["0.4.0", result, { ...legacy, ips: [{ version: "4", address }] }],
  ["1.1.0", result, { ...result, cniVersion: "1.1.0" }],
  ["1.0.0", { ...result, vendor: 1 }, { ...result, vendor: 1 }],
  ["1.0.0", undefined, undefined],
  ["1.0.0", { cniVersion: "9.9.9" }, undefined],
  ["1.0.0", { ips: [{}] }, undefined],
])(
  "delCallsOfStored() of a %s list with the result %j passes the prevResult %j [R-0.3-14] [R-0.4-12] [R-0.4-13] [O-02]",
  (version, given, known) => {
    const [call] = delCallsOfStored(listOf(version, "a"), rt, given);
    expect(JSON.parse(call?.stdin ?? "").prevResult).toEqual(known);
  },
);

test("checkNetwork() rejects a result of an unknown version [O-02]", async () => {
  const fake = new FakeDelegates();
  const options = { prevResult: { cniVersion: "0.4567.0" }, run: fake.run };
  await expect(checkNetwork(abc, rt, options)).rejects.toMatchObject({ code: 6 });
  expect(fake.calls).toEqual([]);
});

test.each([
  exited(0, { cniVersion: "1.0.0", supportedVersions: ["1.0.0"] }),
  exited(1, { code: 4, msg: "unknown CNI_COMMAND: VERSION" }),
])("checkExecutable() accepts %j [X-11]", async (outcome) => {
  await checkExecutable("a", rt, new FakeDelegates({ a: outcome }).run);
});

test.each([
  [exited(1, { code: 9, msg: "broken" }), "broken"],
  [ended("missing", 2), 'failed to find plugin "a" in path [/a /b]'],
])("checkExecutable() refuses %j [X-11]", async (outcome, message) => {
  const { run } = new FakeDelegates({ a: outcome });
  await expect(checkExecutable("a", rt, run)).rejects.toThrow(message);
});
