import { expectEqual, expectThat, Mismatch } from "../expect.ts";
import type { Pod } from "../pod.ts";
import type { Checks } from "../requirement.ts";
import { network, type Trial } from "../trial.ts";

/** The standard's sections 4 to 4.1.2.1.2 and 4.2: the annotation and what it selects. */
export const selectionChecks: Checks = {
  "N-4a": (trial) => expectOrder(trial, "net-a", ["npwg-default/eth0", "npwg-a/net1"]),
  "N-4.1a": async (trial) => {
    await expectOrder(trial, "net-a,net-b", both);
    await expectOrder(trial, [{ name: "net-a" }, { name: "net-b" }], both);
  },
  "N-4.1.1a": (trial) => expectNamespaces(trial, "net-a", ["npwg-a"]),
  "N-4.1.1b": (trial) =>
    expectNamespaces(trial, `${trial.otherNamespace}/net-a,net-a`, ["npwg-b", "npwg-a"]),
  "N-4.1.2a": (trial) => {
    const networks = [{ name: "net-a", interface: "ext0" }, { name: "net-b" }];
    return expectOrder(trial, networks, ["npwg-default/eth0", "npwg-a/ext0", "npwg-b/net2"]);
  },
  "N-4.1.2.1a": (trial) => {
    const networks = [{ name: "net-a", "org.example.note": { any: [1] } }, { name: "net-b" }];
    return expectOrder(trial, networks, both);
  },
  "N-4.1.2.1.1": (trial) =>
    expectNamespaces(
      trial,
      [{ name: "net-a" }, { name: "net-a", namespace: "" }],
      ["npwg-a", "npwg-a"],
    ),
  "N-4.1.2.1.2": (trial) => {
    const networks = [{ name: "net-a", namespace: trial.otherNamespace }];
    return expectNamespaces(trial, networks, ["npwg-b"]);
  },
  "N-4.2a": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.attached("net-a,net-a");
    const added = await pod.order();
    expectEqual("number of executions of ADD", added.length, 3);
    await pod.mustDel();
    const deleted = (await pod.order("DEL")).toSorted();
    expectEqual("executions of DEL", deleted, added.toSorted());
  },
  "N-4.2b": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.attached("net-a,net-a");
    const list = (await pod.status()).filter(({ name }) => /(^|\/)net-a$/.test(String(name)));
    const interfaces = list.map((each) => each.interface).toSorted();
    expectEqual("interfaces in the elements for net-a", interfaces, ["net1", "net2"]);
  },
  "N-4.2.1a": async (trial) => {
    await trial.defineAll("ab");
    const pod = await trial.attached([{ name: "net-a", interface: "ext0" }, { name: "net-b" }]);
    await pod.mustDel();
    for (const type of ["npwg-a", "npwg-b"]) {
      const [add, del] = await Promise.all(
        ["ADD", "DEL"].map((command) => attachmentOf(pod, type, command)),
      );
      expectEqual(`attachment in DEL of ${type}`, del, add);
    }
  },
  "N-4.2.1b": async (trial) => {
    await trial.defineAll("a");
    const networks = [{ name: "net-a" }, { name: "net-a", interface: "net1" }, { name: "net-a" }];
    const pod = await trial.pod({ networks });
    const reply = await pod.add();
    const names = (await pod.invocations()).map(({ ifName }) => ifName);
    expectThat(new Set(names).size === names.length, "unique interface names", names);
    if (reply.exitCode !== 0)
      throw new Mismatch("expected a generated name that the pod does not request, but ADD failed");
  },
};

const both = ["npwg-default/eth0", "npwg-a/net1", "npwg-b/net2"];

type Networks = string | readonly unknown[];

/** Attaches a pod to some of `net-a`, `net-b` and `net-c` and expects these executions. */
export async function expectOrder(
  trial: Trial,
  networks: Networks,
  expected: readonly string[],
): Promise<void> {
  await trial.defineAll("abc");
  const pod = await trial.attached(networks);
  expectEqual("executions of ADD", await pod.order(), expected);
}

/** `net-a` has the plugin npwg-a in the pod's namespace, and npwg-b in the other. */
async function expectNamespaces(
  trial: Trial,
  networks: Networks,
  expected: readonly string[],
): Promise<void> {
  await trial.define("net-a", network("a"));
  await trial.define("net-a", network("b"), trial.otherNamespace);
  const pod = await trial.attached(networks);
  const types = (await pod.invocations()).map(({ type }) => type);
  expectEqual("executed plugins", types, ["npwg-default", ...expected]);
}

async function attachmentOf(pod: Pod, type: string, command: string): Promise<unknown> {
  const { environment, configuration, ifName } = await pod.invocation(type, command);
  return [environment.CNI_CONTAINERID, configuration.name, ifName];
}
