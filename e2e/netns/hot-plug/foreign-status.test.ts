import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { waitUntil } from "../../support/wait.ts";
import { HotPlugNode } from "./hot-plug-node.ts";

needsPlexusd("it watches pods", () => {
  let host: HotPlugNode;
  beforeAll(async () => {
    host = await HotPlugNode.create();
    await host.startAgent();
    await host.warmUp();
  });
  afterAll(() => host?.[Symbol.asyncDispose]());

  test("the status that a controller writes from what it knew before is replaced [H-6] [H-9.7]", async () => {
    const pod = await host.pod("written", "front");
    const known = pod.status;
    pod.edit([{ name: "front" }, { name: "back", interface: "net7" }]);
    await pod.becomes("net1 front", "net7 back");
    const own = pod.status;
    pod.overwriteStatus(known.toReversed());
    await waitUntil("the status is Plexus's again", () => isDeepStrictEqual(pod.status, own));
    pod.edit("front");
    await pod.becomes("net1 front");
    pod.overwriteStatus(own);
    await pod.becomes("net1 front");
    await pod.sandbox.mustDel();
    expect(await host.left()).toEqual([]);
  });
});
