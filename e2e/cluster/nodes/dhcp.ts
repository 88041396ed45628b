import { expect, test } from "vitest";
import { list } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { nodeInterface } from "../kubernetes/addresses.ts";
import { writeOtherImage } from "../scenarios/target/images.ts";
import { home, type PodObject } from "../scenarios/target/objects.ts";
import { pidsWithArgument } from "../scenarios/target/plexus.ts";
import type { Scene } from "../scenarios/target/scene.ts";
import { eventually } from "../scenarios/target/target.ts";
import type { Lab } from "./lab.ts";

const system = "--namespace=kube-system";
const daemonPods = "--selector=app.kubernetes.io/component=dhcp";

/** Macvlan on the segment between the nodes. */
const onSegment = (name: string, ipam: object): object =>
  list(name, { type: "macvlan", master: nodeInterface, ipam });
const ofServer = { type: "static", addresses: [{ address: "10.169.0.1/24" }] };

/** udhcpd, whose clients renew after half of this. */
const leaseSeconds = 30;
const server = `touch /tmp/leases
echo 'interface net1
start 10.169.0.100
end 10.169.0.199
option subnet 255.255.255.0
option lease ${leaseSeconds}
min_lease 1
lease_file /tmp/leases' >/tmp/udhcpd.conf
exec udhcpd -f /tmp/udhcpd.conf`;

/** Both nodes have Plexus. */
export function dhcpScenarios(lab: () => Lab): void {
  test("the daemon of the plugin dhcp leases, renews and releases addresses on both nodes, and plexusd's restart does not disturb it", async () => {
    const { cluster, one, two } = lab();
    const archive = await writeOtherImage("plugins", cluster.directory);
    for (const node of cluster.nodes) await node.loadImage(archive);
    await lab().helm("upgrade", "--set=dhcp.enabled=true", "--set=image.tag=plugins");
    const daemons = await readyDaemons(lab(), []);
    await one.target.apply(nad("server", onSegment("server", ofServer), { namespace: home }));
    const leased = onSegment("leased", { type: "dhcp" });
    await one.target.apply(nad("leased", leased, { namespace: home }));
    await startServer(one);

    const addresses = [await startLeased(one, "near"), await startLeased(two, "far")];
    expect(new Set(addresses).size).toBe(2);
    for (const address of addresses) await waitForRenewal(one, address);
    await cluster.kubectl(system, "rollout", "restart", "daemonset/plexus");
    await cluster.kubectl(system, "rollout", "status", "daemonset/plexus", "--timeout=240s");
    for (const address of addresses) await waitForRenewal(one, address);
    expect(uids(await readyDaemons(lab(), []))).toEqual(uids(daemons));

    await one.deletePods("near", "far");
    const write = "kill -USR1 1; sleep 1; dumpleases -r -f /tmp/leases";
    const leases = await one.exec("server", "sh", "-c", write);
    for (const address of addresses)
      expect(leases).toMatch(new RegExp(` ${address} .*expired$`, "m"));
    const log = await cluster.kubectl(system, "logs", daemonPods, "--tail=-1");
    expect(log.match(/\/leased\/net1: releasing lease$/gm)).toHaveLength(2);
    expect(log).not.toContain("failed to release");
  });

  test("a killed daemon leases again, and without a server the pod's event and explain say so", async () => {
    const { one, two } = lab();
    const daemons = await readyDaemons(lab(), []);
    for (const { target } of [one, two]) {
      const [pid = ""] = await pidsWithArgument(target, "daemon");
      await target.inNode(["kill", "-KILL", pid]);
    }
    await readyDaemons(lab(), daemons);
    await startServer(one);
    await startLeased(two, "after");
    await one.deletePods("after", "server");

    await two.createPod("unserved", { networks: "leased" });
    await two.waitForEvent("unserved", "AttachFailed", "no more tries");
    const { stdout } = await lab().kubectlPlexus("explain", `${home}/unserved`);
    expect(stdout).toContain("No DHCP server has answered");
    await two.deletePods("unserved");
    await lab().helm("upgrade");
    await one.kubectl("delete", "network-attachment-definitions", "server", "leased");
  });
}

async function startServer(scene: Scene): Promise<void> {
  const command = ["sh", "-c", server];
  await scene.startPod("server", { networks: "server", container: { command } });
}

/** Starts a pod on the network `leased`, and returns its address there. */
async function startLeased(scene: Scene, name: string): Promise<string> {
  await scene.startPod(name, { networks: "leased" });
  const { net1 = "" } = await scene.interfaces(name);
  expect(net1).toMatch(/^10\.169\.0\.1\d\d\/24$/);
  return net1.replace("/24", "");
}

/** Waits until the server has confirmed an address twice more: the first time may be the one that is due. */
async function waitForRenewal(scene: Scene, address: string): Promise<void> {
  const confirmed = async (): Promise<number> =>
    (await scene.kubectl("logs", "server")).split(`sending ACK to ${address}\n`).length;
  const before = await confirmed();
  await eventually(`${address} is renewed`, async () => (await confirmed()) >= before + 2);
}

/** The daemons' pods, once they are ready on both nodes, in containers that were started after these. */
async function readyDaemons({ cluster }: Lab, before: readonly PodObject[]): Promise<PodObject[]> {
  const restarts = ({ metadata, status }: PodObject): string =>
    `${metadata.uid} ${status.containerStatuses?.[0]?.restartCount}`;
  const old = before.map(restarts);
  return eventually("the daemon of dhcp is ready on both nodes", async () => {
    const { items } = await cluster.get<{ items: PodObject[] }>("pods", system, daemonPods);
    const isReady = (pod: PodObject): boolean =>
      !old.includes(restarts(pod)) &&
      pod.status.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ===
        true;
    return items.length === 2 && items.every(isReady) && items;
  });
}

function uids(pods: readonly PodObject[]): string[] {
  return pods.map(({ metadata }) => metadata.uid).toSorted();
}
