import { existsSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { SeenRequest } from "#kube/testing/requests.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { waitUntil } from "../../support/wait.ts";
import { HotPlugNode } from "./hot-plug-node.ts";

/** An interface name as KubeVirt makes them: `pod` and 11 hexadecimal digits [H-17]. */
const [podA, podB] = ["pod6446d58d6df", "pod3b1c2d4e5f6"];

needsPlexusd("it watches pods", () => {
  let host: HotPlugNode;
  beforeAll(async () => {
    host = await HotPlugNode.create();
    await host.startAgent();
    await host.warmUp();
  });
  afterAll(() => host?.[Symbol.asyncDispose]());

  test("an edit plugs and unplugs a network of a running pod, and its DEL leaves nothing [H-41] [H-12] [H-35]", async () => {
    const pod = await host.pod("web", "front");
    await pod.becomes("net1 front");
    pod.edit("front,back");
    await pod.becomes("net1 front", "net2 back");
    const addresses = await pod.sandbox.addresses("net2");
    expect(addresses).toEqual([expect.stringMatching(/^10\.22\.0\.\d+\/24$/)]);
    expect(pod.status[2]?.ips).toEqual(addresses.map((address) => address.replace("/24", "")));
    await pod.sandbox.mustCheck();
    pod.edit("back");
    await pod.becomes("net2 back");
    pod.edit("front,back");
    await pod.becomes("net2 back", "net1 front");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
    expect(pod.events.filter((event) => /^(Added|Removed)Interface/.test(event))).toHaveLength(
      pod.events.length,
    );
  });

  test("one edit plugs several networks with KubeVirt's names, and another one swaps them [H-42] [H-9.2]", async () => {
    const pod = await host.pod("vm", "");
    pod.edit([
      { name: "front", interface: podA },
      { name: "back", interface: podB },
    ]);
    await pod.becomes(`${podA} front`, `${podB} back`);
    pod.edit([
      { name: "back", interface: podA },
      { name: "front", interface: podB },
    ]);
    await pod.becomes(`${podA} back`, `${podB} front`);
    expect(await pod.sandbox.addresses(podA)).toEqual([expect.stringMatching(/^10\.22\./)]);
    pod.edit([{ name: "front", interface: podB }]);
    await pod.becomes(`${podB} front`);
    pod.edit([
      { name: "front", interface: podB },
      { name: "back", interface: podA },
    ]);
    await pod.becomes(`${podB} front`, `${podA} back`);
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });

  test("a network without limits that is unplugged leaves the limits of another attachment of it", async () => {
    const bandwidth = { egressRate: 4_000_000, egressBurst: 400_000 };
    const limited = { name: "shaped", bandwidth };
    const pod = await host.pod("limited", [limited, { name: "shaped" }]);
    const devices = async () => (await host.node.lab.run("ip", "-o", "link")).match(/bwp\w+/g);
    expect(await devices()).toHaveLength(1);
    pod.edit([limited]);
    await pod.becomes("net1 shaped");
    expect(await devices()).toHaveLength(1);
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });

  test("a pod keeps its default routes while networks with some are plugged and unplugged [H-37]", async () => {
    const element = { name: "routed", "default-route": [] };
    const pod = await host.pod("routes", JSON.stringify([element]));
    const { sandbox } = pod;
    const routes = async (): Promise<string[]> =>
      [await sandbox.defaultRoutes(4), await sandbox.defaultRoutes(6)].flat();
    const viaNet1 = ["via 10.23.0.1 dev net1", "via fd00:23::1 dev net1"];
    expect(await routes()).toEqual(viaNet1);
    pod.edit([element, { name: "routed" }]);
    await pod.becomes("net1 routed", "net2 routed");
    expect(await routes()).toEqual(viaNet1);
    pod.edit("routed");
    const event =
      /^InterfaceAddRejected: .*default\/routed \(net1\): the pod's default route is on net1/;
    await waitUntil("the edit is refused", () => pod.events.some((each) => event.test(each)));
    expect(await routes()).toEqual(viaNet1);
    pod.edit([element]);
    await pod.becomes("net1 routed");
    expect(await routes()).toEqual(viaNet1);
    await sandbox.mustCheck();
    await sandbox.mustDel();
    const other = await host.pod("main-routes", "routed");
    const before = await other.sandbox.defaultRoutes(4);
    other.edit("routed,routed@x1");
    await other.becomes("net1 routed", "x1 routed");
    expect(await other.sandbox.defaultRoutes(4)).toEqual(before);
    await other.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });

  test("20 pods are changed at once [H-42]", async () => {
    const names = Array.from({ length: 20 }, (_, i) => `many-${i}`);
    const pods = await Promise.all(names.map((name) => host.pod(name, "")));
    for (const pod of pods) pod.edit("front");
    await Promise.all(pods.map((pod) => pod.becomes("net1 front")));
    await Promise.all(pods.map(({ sandbox }) => sandbox.mustDel()));
    expect(await host.left()).toEqual([]);
  });

  test("a GC keeps what was plugged while the sandbox is valid, and else detaches it [H-34]", async () => {
    const pod = await host.pod("collected", "");
    pod.edit("back");
    await pod.becomes("net1 back");
    const collect = async (...valid: object[]): Promise<void> => {
      const conf = {
        ...host.node.conf({ "cni.dev/valid-attachments": valid }),
        cniVersion: "1.1.0",
      };
      expect(await host.node.call({ command: "GC", conf })).toMatchObject({ exitCode: 0 });
    };
    await collect({ containerID: pod.sandbox.containerId, ifname: "eth0" });
    await pod.becomes("net1 back");
    await pod.sandbox.mustCheck();
    await host.node.lab.deleteNetns(pod.sandbox.netns);
    await collect();
    await waitUntil("the sandbox is detached", () => !pod.sandbox.isRecorded);
    expect(await host.left()).toEqual([]);
  });

  test("a DEL waits for a network that is being plugged, and detaches it too [H-32] [H-33]", async () => {
    const pod = await host.pod("deleted", "front");
    await host.strike(2, "hold");
    pod.edit("front,back");
    await waitUntil("the plugin has begun", () => host.hasStruck);
    const del = host.node.start(pod.sandbox.request("DEL"));
    await waitUntil("the DEL has begun", () => host.isMarked(pod.sandbox));
    expect(pod.sandbox.isRecorded).toBe(true);
    await host.release();
    expect(await del.outcome).toMatchObject({ exitCode: 0 });
    expect(await host.left()).toEqual([]);
  });

  test("an edit during a DEL attaches nothing [H-32]", async () => {
    const pod = await host.pod("ending", "front");
    await host.strike(1, "hold");
    const del = host.node.start(pod.sandbox.request("DEL"));
    await waitUntil("the plugin has begun", () => host.hasStruck);
    host.api.seen.length = 0;
    pod.edit("front,back");
    const isRead = ({ method, path }: SeenRequest) =>
      method === "GET" && path.endsWith("/pods/ending");
    await waitUntil("plexusd has seen the edit", () => host.api.seen.some(isRead));
    await host.release();
    expect(await del.outcome).toMatchObject({ exitCode: 0 });
    expect(existsSync(pod.sandbox.recordPath)).toBe(false);
    expect(await host.left()).toEqual([]);
  });

  test("without plexusd, the DEL detaches from the record what was plugged [H-12]", async () => {
    const pod = await host.pod("replayed", "front");
    pod.edit("front,back");
    await pod.becomes("net1 front", "net2 back");
    await host.stopPlexusd();
    await pod.sandbox.mustDel();
    await host.startPlexusd();
    expect(await host.left()).toEqual([]);
  });

  test("the API server that is unavailable delays the status only [H-35]", async () => {
    const pod = await host.pod("unpublished", "");
    const isPatch = { when: ({ method }: { method: string }) => method === "PATCH" };
    host.api.script({ ...isPatch, times: 3, answer: 500 });
    pod.edit("back");
    await pod.becomes("net1 back");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });

  test("without an agent, an event says what to install, and the next agent plugs at once", async () => {
    await host.stopAgent();
    const pod = await host.pod("alone", "");
    pod.edit("back");
    const event = /^InterfaceAddRejected: .*install `plexus agent --attach`/;
    await waitUntil("the event is there", () => pod.events.some((each) => event.test(each)));
    expect(pod.shown).toEqual(["eth0 main"]);
    await host.startAgent();
    await pod.becomes("net1 back");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });
});
