import { expectEqual, expectThat, Mismatch } from "../expect.ts";
import type { Pod } from "../pod.ts";
import type { Requirement } from "../requirement.ts";
import { network, type Trial } from "../trial.ts";
import { standard } from "./table.ts";

/** The standard's sections 4 to 4.1.2.1.2 and 4.2: the annotation and what it selects. */
export const selectionRequirements: readonly Requirement[] = [
  ...standard("MUST", [
    [
      "N-4a",
      "The annotation selects attachments in addition to the cluster-wide default network.",
      (trial) => expectOrder(trial, "net-a", ["npwg-default/eth0", "npwg-a/net1"]),
    ],
    [
      "N-4.1a",
      "The annotation is k8s.v1.cni.cncf.io/networks; both of its formats are supported.",
      async (trial) => {
        await expectOrder(trial, "net-a,net-b", both);
        await expectOrder(trial, [{ name: "net-a" }, { name: "net-b" }], both);
      },
    ],
    [
      "N-4.1.1a",
      "Comma-delimited format: a name refers to an object in the pod's namespace.",
      (trial) => expectNamespaces(trial, "net-a", ["npwg-a"]),
    ],
    [
      "N-4.1.1b",
      "Comma-delimited format: namespace/name refers to an object in another namespace.",
      (trial) =>
        expectNamespaces(trial, `${trial.otherNamespace}/net-a,net-a`, ["npwg-b", "npwg-a"]),
    ],
    [
      "N-4.1.2a",
      "JSON list format: each element is a map of the keys that the specification defines.",
      (trial) => {
        const networks = [{ name: "net-a", interface: "ext0" }, { name: "net-b" }];
        return expectOrder(trial, networks, ["npwg-default/eth0", "npwg-a/ext0", "npwg-b/net2"]);
      },
    ],
    [
      "N-4.1.2.1a",
      "Key names without a period are reserved. Keys of other implementations in reverse domain notation are accepted.",
      (trial) => {
        const networks = [{ name: "net-a", "org.example.note": { any: [1] } }, { name: "net-b" }];
        return expectOrder(trial, networks, both);
      },
    ],
    [
      "N-4.1.2.1.1",
      "name: required string. The object is in the pod's namespace if namespace is missing or empty.",
      (trial) =>
        expectNamespaces(
          trial,
          [{ name: "net-a" }, { name: "net-a", namespace: "" }],
          ["npwg-a", "npwg-a"],
        ),
    ],
    [
      "N-4.1.2.1.2",
      "namespace: optional string, the namespace of the object.",
      (trial) => {
        const networks = [{ name: "net-a", namespace: trial.otherNamespace }];
        return expectNamespaces(trial, networks, ["npwg-b"]);
      },
    ],
    [
      "N-4.2a",
      "Requests for the same network are separate attachments, processed by separate operations.",
      async (trial) => {
        await trial.defineAll("a");
        const pod = await trial.attached("net-a,net-a");
        const added = await pod.order();
        expectEqual("number of executions of ADD", added.length, 3);
        await pod.mustDel();
        const deleted = (await pod.order("DEL")).toSorted();
        expectEqual("executions of DEL", deleted, added.toSorted());
      },
    ],
    [
      "N-4.2b",
      "Each of them has its own element in the network-status.",
      async (trial) => {
        await trial.defineAll("a");
        const pod = await trial.attached("net-a,net-a");
        const list = (await pod.status()).filter(({ name }) => /(^|\/)net-a$/.test(String(name)));
        const interfaces = list.map((each) => each.interface).toSorted();
        expectEqual("interfaces in the elements for net-a", interfaces, ["net1", "net2"]);
      },
    ],
    [
      "N-4.2.1a",
      "All CNI operations of one attachment use the same container ID, network name and CNI_IFNAME.",
      async (trial) => {
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
    ],
    [
      "N-4.2.1b",
      "A generated CNI_IFNAME is unique among the attachments of the same container and network.",
      async (trial) => {
        await trial.defineAll("a");
        const networks = [
          { name: "net-a" },
          { name: "net-a", interface: "net1" },
          { name: "net-a" },
        ];
        const pod = await trial.pod({ networks });
        const reply = await pod.add();
        const names = (await pod.invocations()).map(({ ifName }) => ifName);
        expectThat(new Set(names).size === names.length, "unique interface names", names);
        if (reply.exitCode !== 0)
          throw new Mismatch(
            "expected a generated name that the pod does not request, but ADD failed",
          );
      },
    ],
  ]),
];

const both = ["npwg-default/eth0", "npwg-a/net1", "npwg-b/net2"];

type Networks = string | readonly unknown[];

/** Attaches a pod to some of `net-a` and `net-b` and expects these executions. */
async function expectOrder(
  trial: Trial,
  networks: Networks,
  expected: readonly string[],
): Promise<void> {
  await trial.defineAll("ab");
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
