import { expectEqual, expectThat } from "../expect.ts";
import { asList, type JsonObject } from "../json.ts";
import type { Checks } from "../requirement.ts";
import { cniVersion, network, result, type Trial } from "../trial.ts";

const mac = "02:00:00:00:00:0b";
const dns = { nameservers: ["10.9.0.1", "fd00:9::1"], domain: "a.b", search: ["a.b", "b"] };

/** Three interfaces: one of the host, the attachment's, and another one of the pod. */
const fullResult: JsonObject = {
  cniVersion,
  interfaces: [
    { name: "veth1", mac: "02:00:00:00:00:0a" },
    { name: "@IFNAME@", mac, sandbox: "@NETNS@" },
    { name: "other0", mac: "02:00:00:00:00:0c", sandbox: "@NETNS@" },
  ],
  ips: [
    { address: "10.9.0.1/24", interface: 0 },
    { address: "10.9.0.7/24", interface: 1 },
    { address: "fd00:9::7/64", interface: 1 },
    { address: "10.9.9.9/24", interface: 2 },
  ],
  dns,
};
/** Of the attachment's interface. */
const ips = ["10.9.0.7", "fd00:9::7"];

const withoutSandbox: JsonObject = {
  cniVersion,
  interfaces: [{ name: "veth1" }],
  ips: [{ address: "10.9.0.1/24", interface: 0 }, { address: "10.9.0.7/24" }],
};

const oldResult: JsonObject = {
  cniVersion: "0.2.0",
  ip4: { ip: "10.9.0.7/24" },
  ip6: { ip: "fd00:9::7/64" },
};

/** Keys of the standard; device-info is of version 1.2, and NPWG's client library adds mtu and gateway. */
const knownKeys = "name interface ips mac default dns default-route device-info mtu gateway".split(
  " ",
);

/** The standard's section 5: network-status. */
export const statusChecks: Checks = {
  "N-5a": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.attached("net-a");
    await pod.statusOf("net-a");
  },
  "N-5b": fromResult({ mac }, fullResult),
  "N-5.1.1a": fromResult({ interface: "net1", mac, ips }, fullResult),
  "N-5.2a": async (trial) => {
    await trial.defineAll("a");
    for (const networks of ["net-a", undefined]) {
      const list = await (await trial.attached(networks)).status();
      expectThat(
        list.some((each) => each.default === true),
        "an element with default: true",
        list,
      );
    }
  },
  "N-5.3a": async (trial) => {
    const status = await statusFor(trial, fullResult);
    const others = Object.keys(status).filter((key) => !knownKeys.includes(key));
    const wrong = others.filter((key) => !key.includes("."));
    expectEqual("other keys without a period", wrong, []);
  },
  "N-5.3.1": expectNames,
  "N-5.3.4": async (trial) => {
    for (const status of await listFor(trial, fullResult))
      if (status.mac !== undefined)
        expectThat(status.interface !== undefined, "interface beside mac", status);
  },
  "N-5.3.5a": async (trial) => {
    const list = await listFor(trial, fullResult);
    for (const status of list) {
      const what = `default of the element ${status.name}`;
      expectEqual(what, status.default, status.interface === "eth0");
    }
  },
  "N-5.3.5b": async (trial) => {
    const list = await listFor(trial, fullResult);
    const count = list.filter((status) => status.default === true).length;
    expectEqual("number of elements with default true", count, 1);
  },
  "N-5.1.1b": fromResult({}, { cniVersion }),
  "N-5.1.1c": fromResult({ dns }, { ...oldResult, dns }),
  "N-5.3.2.1a": fromResult({ interface: "net1" }, fullResult),
  "N-5.3.3.1a": fromResult({ ips }, fullResult),
  "N-5.3.3.1b": fromResult({ ips: ["10.9.0.7"] }, withoutSandbox),
  "N-5.3.3.1c": fromResult(
    { ips: [] },
    { ...fullResult, ips: [{ address: "10.9.0.1/24", interface: 0 }] },
  ),
  "N-5.3.3.1d": fromResult({ ips }, oldResult),
  "N-5.3.4.1": fromResult({ mac }, fullResult),
  "N-5.3.2.1b": fromResult({ interface: "net1" }, oldResult),
  "N-5.3.6a": fromResult({ dns }, fullResult),
};

/** Expects these keys in the status of `net-a`, whose plugin prints this result. */
function fromResult(expected: JsonObject, stdout: JsonObject): (trial: Trial) => Promise<void> {
  return async (trial) => {
    const status = await statusFor(trial, stdout);
    for (const [key, value] of Object.entries(expected)) {
      const got = key === "ips" ? withoutPrefix(status.ips) : status[key];
      expectEqual(`${key} in the status`, got, value);
    }
  };
}

/** The status of a pod whose network `net-a` has this result. */
async function listFor(trial: Trial, stdout: JsonObject): Promise<JsonObject[]> {
  await trial.define("net-a", network("a", { cniVersion: stdout.cniVersion }));
  const pod = await trial.pod({ networks: "net-a" });
  await pod.answer("npwg-a.ADD", { stdout });
  await pod.mustAdd();
  await pod.statusOf("net-a");
  return await pod.status();
}

async function statusFor(trial: Trial, stdout: JsonObject): Promise<JsonObject> {
  const list = await listFor(trial, stdout);
  return list.find(({ name }) => String(name).split("/").pop() === "net-a") ?? {};
}

async function expectNames(trial: Trial): Promise<void> {
  const { namespace, otherNamespace } = trial;
  await trial.define("net-a", network("a"));
  await trial.define("net-b", network("b"), otherNamespace);
  const pod = await trial.pod({ networks: `net-a,${otherNamespace}/net-b` });
  for (const type of ["npwg-a", "npwg-b"]) await pod.answer(`${type}.ADD`, result());
  await pod.mustAdd();
  const names = (await pod.status()).map(({ name }) => name);
  const isSame = (name: string): boolean => names.includes(name);
  const expected = `the names net-a or ${namespace}/net-a, ${otherNamespace}/net-b and one more`;
  const hasAll =
    (isSame("net-a") || isSame(`${namespace}/net-a`)) && isSame(`${otherNamespace}/net-b`);
  const areTexts = names.every((name) => typeof name === "string" && name !== "");
  expectThat(names.length === 3 && hasAll && areTexts, expected, names);
}

/** The standard's examples have prefix lengths, its text does not ask for them. */
function withoutPrefix(ips: unknown): string[] {
  return asList(ips).map((ip) => String(ip).split("/")[0] ?? "");
}
