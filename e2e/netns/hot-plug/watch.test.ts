import { afterAll, beforeAll, expect, test } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { waitUntil } from "../../support/wait.ts";
import { HotPlugNode } from "./hot-plug-node.ts";

/** plexusd looks once a minute. */
const lookMs = 90_000;

needsPlexusd("it watches pods", () => {
  let host: HotPlugNode;
  beforeAll(async () => {
    host = await HotPlugNode.create({ inspect: ["heal", "addresses"] });
    await host.startAgent();
    await host.warmUp();
  });
  afterAll(() => host?.[Symbol.asyncDispose]());

  test("a lost interface is attached again, and the status shows addresses that an interface has got [H-39]", async () => {
    const pod = await host.pod("watched", "front,back");
    const [, front, lost] = pod.status;
    await pod.sandbox.run("ip", "address", "add", "10.99.0.9/24", "dev", "net1");
    await pod.sandbox.run("ip", "link", "delete", "net2");
    const isReported = (): boolean => pod.events.some((text) => /^InterfaceLost.*net2/.test(text));
    await waitUntil("the loss is reported", isReported, { timeoutMs: lookMs });
    // Until the first of the two new statuses is written, the former one shows the same names.
    const isAgain = (): boolean =>
      ![undefined, lost?.ips.join()].includes(pod.status[2]?.ips.join());
    await waitUntil("the status shows the new net2", isAgain);
    await pod.becomes("net1 front", "net2 back");
    expect(pod.status[1]?.ips).toEqual([...(front?.ips ?? []), "10.99.0.9"]);
    expect(pod.status[2]?.ips).toHaveLength(1);
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });
});
