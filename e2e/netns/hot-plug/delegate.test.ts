import { request } from "node:http";
import { text } from "node:stream/consumers";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminSocketPath } from "#lib/files/state-files.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge } from "../../support/networks.ts";
import { waitUntil } from "../../support/wait.ts";
import { HotPlugNode, type HotPlugPod } from "./hot-plug-node.ts";

interface Answer {
  readonly status: number | undefined;
  readonly body: string;
}

/** Requests as multus-dynamic-networks-controller makes them [H-10]: its ID is a container's, not the sandbox's. */
needsPlexusd("it watches pods", () => {
  let host: HotPlugNode;
  beforeAll(async () => {
    host = await HotPlugNode.create();
    await host.startAgent();
    await host.warmUp();
  });
  afterAll(() => host?.[Symbol.asyncDispose]());

  async function ask(path: string, body?: object): Promise<Answer> {
    const socketPath = adminSocketPath(host.node.socketPath);
    const method = body === undefined ? "GET" : "POST";
    const options = { socketPath, path, method, headers: { "content-type": "application/json" } };
    const outgoing = request(options).end(body && JSON.stringify(body));
    const response = await new Promise<import("node:http").IncomingMessage>((resolve, reject) => {
      outgoing.once("response", resolve).once("error", reject);
    });
    return { status: response.statusCode, body: await text(response) };
  }

  function delegate(pod: HotPlugPod, command: "ADD" | "DEL", network: string): Promise<Answer> {
    const { name } = pod.sandbox;
    const args = `K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name};K8S_POD_UID=uid-of-${name}`;
    const env = { CNI_CONTAINERID: "a-container", CNI_NETNS: "/proc/1/ns/net", CNI_ARGS: args };
    const config = Buffer.from(JSON.stringify(bridge(network, 1))).toString("base64");
    return ask("/delegate", {
      env: { ...env, CNI_COMMAND: command, CNI_IFNAME: "net7" },
      ...{ config, interfaceAttributes: {} },
    });
  }

  const withNet7 = (network: string): object[] => [
    { name: "front" },
    { name: network, interface: "net7" },
  ];

  test("a controller plugs and unplugs by /delegate, with a record [H-10] [H-12] [H-43]", async () => {
    expect(await ask("/healthz")).toEqual({ status: 200, body: "ok" });
    const pod = await host.pod("driven", "front");
    const early = await delegate(pod, "ADD", "back");
    expect(early).toMatchObject({ status: 400, body: expect.stringContaining("annotation") });
    pod.edit(withNet7("back"));
    const added = await delegate(pod, "ADD", "back");
    expect(added.status).toBe(200);
    const { Result } = JSON.parse(added.body);
    const addresses = Result.ips.map(({ address }: { address: string }) => address);
    expect(addresses).toEqual(await pod.sandbox.addresses("net7"));
    expect(await delegate(pod, "ADD", "back")).toEqual(added);
    await pod.becomes("net1 front", "net7 back");
    pod.edit("front");
    expect(await delegate(pod, "DEL", "back")).toEqual({ status: 200, body: "" });
    expect(await delegate(pod, "DEL", "back")).toEqual({ status: 200, body: "" });
    await pod.becomes("net1 front");
    pod.edit(withNet7("back"));
    expect(await delegate(pod, "ADD", "back")).toMatchObject({ status: 200 });
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });

  test("the status that a controller writes from what it knew before is replaced [H-6] [H-9.7]", async () => {
    const pod = await host.pod("written", "front");
    const known = pod.status;
    pod.edit(withNet7("back"));
    expect((await delegate(pod, "ADD", "back")).status).toBe(200);
    await pod.becomes("net1 front", "net7 back");
    const own = pod.status;
    pod.overwriteStatus(known.toReversed());
    await waitUntil("the status is Plexus's again", () => isDeepStrictEqual(pod.status, own));
    pod.edit("front");
    expect((await delegate(pod, "DEL", "back")).status).toBe(200);
    pod.overwriteStatus(own);
    await pod.becomes("net1 front");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });

  test("a request whose plexusd is killed is repeated, and nothing is attached twice [H-43]", async () => {
    const pod = await host.pod("repeated", "front");
    await host.strike(2, "plexusd");
    pod.edit(withNet7("back"));
    await delegate(pod, "ADD", "back").catch(() => undefined);
    await waitUntil("plexusd is killed", () => host.hasStruck);
    await host.repair("plexusd");
    await waitUntil("the controller gets its answer", async () => {
      const { status } = await delegate(pod, "ADD", "back");
      return status === 200;
    });
    await pod.becomes("net1 front", "net7 back");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });
});
