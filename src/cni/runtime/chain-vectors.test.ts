import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseNetConfList } from "#cni/conf/conf.ts";
import { exited, FakeDelegates } from "#cni/testing/fake-delegates.ts";
import { isJsonObject, type JsonObject } from "#lib/json.ts";
import {
  addNetwork,
  checkExecutable,
  checkNetwork,
  delCalls,
  gcNetwork,
  statusNetwork,
} from "./chain.ts";

/** One execution: its environment and its stdin. */
interface Invocation {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: JsonObject;
}

/** What libcni ran for one list of two plugins: e2e/vectors/libcni-invocations.txt. */
function readInvocations(): Invocation[] {
  const file = new URL("../../../e2e/vectors/libcni-invocations.txt", import.meta.url);
  const calls = readFileSync(file, "utf8").matchAll(/^(CNI_.*)\n {3}stdin=(.*)$/gm);
  return [...calls].map(([, variables = "", stdin = ""]) => {
    const pairs = [...variables.matchAll(/(CNI_[A-Z]+)=(\S*)/g)];
    return {
      env: Object.fromEntries(pairs.map(([, name = "", value = ""]) => [name, value])),
      stdin: JSON.parse(stdin),
    };
  });
}

const recorded = readInvocations();

function of(command: string): Invocation[] {
  return recorded.filter(({ env }) => env.CNI_COMMAND === command);
}

/**
 * Where we differ from libcni on purpose (cni.md §3.8): keys that only a runtime may set are not
 * taken from disk, so that the vectors' stale ones are not expected.
 */
function withoutStaleKeys({ env, stdin }: Invocation): Invocation {
  const { prevResult, runtimeConfig, ...rest } = stdin;
  const isStale = (value: unknown): boolean =>
    isJsonObject(value) && ("bogus" in value || "stale" in value);
  return {
    env,
    stdin: {
      ...rest,
      ...(prevResult === undefined || isStale(prevResult) ? {} : { prevResult }),
      ...(runtimeConfig === undefined || isStale(runtimeConfig) ? {} : { runtimeConfig }),
    },
  };
}

function made(fake: FakeDelegates): Invocation[] {
  const stdins = fake.stdins;
  return fake.calls.map(({ env }, index) => ({ env, stdin: stdins[index] ?? {} }));
}

const list = parseNetConfList(
  `{"cniVersion":"1.1.0","name":"n","plugins":[
    {"type":"a","args":{"cni":{"z":1}},"big":12345678901234567890,"capabilities":{"mac":true,"x":false},
     "cni.dev/foo":1,"f":1.5,"html":"<&>","prevResult":{"bogus":1},"runtimeConfig":{"stale":1}},
    {"type":"b","name":"own","cniVersion":"0.1.0","cni.dev/valid-attachments":[],"cni.dev/attachments":[]}]}`,
  { source: "vector" },
);
const limits = { searchPath: ["/a", "/b"], timeoutMs: 1000 };
const rt = {
  containerId: "cid",
  netns: "/ns",
  ifName: "eth0",
  cniArgs: [
    ["K", "V=1"],
    ["IgnoreUnknown", "1"],
  ] as const,
  capabilityArgs: { mac: "aa", x: 1, other: 2 },
  ...limits,
};
const result = { cniVersion: "1.1.0", ips: [{ address: "10.0.0.1/24" }] };
const succeeding = { a: exited(0, result), b: exited(0, result) };

test("addNetwork() makes the same plugin calls as libcni [R-0.1-01] [R-0.1-02] [R-0.1-03] [R-0.1-06] [R-0.2-02] [R-0.2-03] [R-0.3-09] [R-0.3-10] [R-0.3-13] [R-0.3-18] [R-0.3-19] [R-0.4-01] [R-0.4-08] [R-0.4-30] [R-1.0-03] [R-1.0-04] [R-1.0-12] [R-1.0-23] [R-1.0-26] [R-1.1-07] [B-01] [B-02] [B-03] [B-04] [X-02]", async () => {
  const fake = new FakeDelegates(succeeding);
  await addNetwork(list, rt, fake);
  expect(made(fake)).toEqual(of("ADD").map(withoutStaleKeys));
});

test("checkNetwork() makes the same plugin calls as libcni, with the keys in the same order [R-1.0-25]", async () => {
  const fake = new FakeDelegates();
  await checkNetwork(list, rt, { prevResult: result, run: fake.run });
  expect(made(fake)).toEqual(of("CHECK"));
  const keys = ({ stdin }: Invocation): string[] => Object.keys(stdin);
  expect(made(fake).map(keys)).toEqual(of("CHECK").map(keys));
});

test("delCalls() returns the same plugin calls as libcni makes [R-0.1-15] [R-0.3-14] [R-0.3-16] [R-0.4-10] [R-0.4-12] [R-0.4-30] [R-1.0-24] [R-1.1-10]", async () => {
  const fake = new FakeDelegates();
  for (const call of delCalls(list, rt, result)) await fake.run(call);
  expect(made(fake)).toEqual(of("DEL"));
});

test("statusNetwork() makes the same plugin calls as libcni [R-1.1-22] [R-1.1-23] [B-07]", async () => {
  const fake = new FakeDelegates();
  await statusNetwork(list, limits, fake.run);
  expect(made(fake)).toEqual(of("STATUS").map(withoutStaleKeys));
});

test("gcNetwork() makes the same plugin calls as libcni, but writes an empty list instead of null [R-1.1-30] [R-1.1-32] [R-1.1-34] [O-04]", async () => {
  const [validA, validB, emptyA, emptyB] = of("GC").map(withoutStaleKeys);
  const fake = new FakeDelegates();
  await gcNetwork(list, [{ containerID: "cid", ifname: "eth0" }], { ...limits, run: fake.run });
  expect(made(fake)).toEqual([validA, validB]);
  const none = new FakeDelegates();
  await gcNetwork(list, [], { ...limits, run: none.run });
  const empty = { "cni.dev/valid-attachments": [], "cni.dev/attachments": [] };
  expect(made(none)).toEqual(
    [emptyA, emptyB].map((call) => ({ ...call, stdin: { ...call?.stdin, ...empty } })),
  );
});

test("checkExecutable() makes the same plugin calls as libcni [X-11]", async () => {
  const fake = new FakeDelegates({
    a: exited(0, { cniVersion: "1.1.0", supportedVersions: ["1.1.0"] }),
  });
  await checkExecutable("a", limits, fake.run);
  expect(made(fake)).toEqual(of("VERSION"));
});
