import { expect, test } from "vitest";
import { list } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { nodeInterface } from "../kubernetes/addresses.ts";
import { run } from "../machine/run.ts";
import { home } from "../scenarios/target/objects.ts";
import type { Scene } from "../scenarios/target/scene.ts";
import type { Lab } from "./lab.ts";

/** Macvlan on the segment between the nodes. Pods choose their addresses: host-local knows one node only. */
const lan = list("lan", {
  type: "macvlan",
  master: nodeInterface,
  capabilities: { ips: true },
  ipam: { type: "static" },
});

/** The bridge of network `fixed`. */
const bridge = "br164";

/** Two nodes with Plexus. */
type TwoNodes = Pick<Lab, "cluster" | "one" | "two">;

/** Pods of both nodes on the same networks. */
export function networkScenarios(lab: () => TwoNodes): void {
  test("pods of both nodes reach each other on the primary network, by macvlan and by bridges", async () => {
    const { one, two } = lab();
    await one.target.apply(nad("lan", lan, { namespace: home }));
    await startPod(one, "left", 1);
    const right = await startPod(two, "right", 2);
    await withCable(lab(), async () => {
      for (const address of [right, "10.166.0.2", "10.164.0.2"]) {
        expect(await one.exec("left", "ping", "-c1", "-W5", address)).toContain(
          "1 packets received",
        );
      }
    });
  });
}

/** Starts a pod on the networks `lan` and `fixed`, and returns its address on the primary network. */
async function startPod(scene: Scene, name: string, host: number): Promise<string> {
  const networks = [
    { name: "lan", ips: [`10.166.0.${host}/24`] },
    { name: "fixed", ips: [`10.164.0.${host}/24`] },
  ];
  const { status } = await scene.startPod(name, { networks });
  return status.podIP ?? "";
}

/** Has a cable between the bridges of both nodes meanwhile. */
async function withCable({ cluster }: TwoNodes, act: () => Promise<void>): Promise<void> {
  const [left = 0, right = 0] = cluster.nodes.map(({ host }) => host.pid);
  const ip = (pid: number): [string, ...string[]] => ["nsenter", `--target=${pid}`, "-n", "ip"];
  const peer = ["peer", "name", "wire", "netns", String(right)];
  await run([...ip(left), "link", "add", "wire", "type", "veth", ...peer]);
  try {
    for (const pid of [left, right]) {
      await run([...ip(pid), "link", "set", "wire", "master", bridge, "up"]);
    }
    await act();
  } finally {
    await run([...ip(left), "link", "delete", "wire"]);
  }
}
