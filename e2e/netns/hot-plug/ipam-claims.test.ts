import { copyFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { repositoryRoot } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";
import { HotPlugNode } from "./hot-plug-node.ts";

needsPlexusd("it watches pods", () => {
  test("a plugged network gets the address of its IPAMClaim, and another one's when that changes", async () => {
    await using host = await HotPlugNode.create();
    const plugin = join(host.binDir, "claim-ipam");
    await copyFile(join(repositoryRoot, "e2e/fixtures/claim-ipam.sh"), plugin);
    const lan = bridge("lan", 75, { isGateway: false, ipam: { type: "claim-ipam" } });
    host.api.put("network-attachment-definitions", nad("lan", lan) as JsonObject);
    await host.startAgent();
    const pod = await host.pod("vm", "front");
    const addresses = () => pod.status.at(-1)?.ips.join();
    const ask = (claim: string) =>
      pod.edit([{ name: "front" }, { name: "lan", "ipam-claim-reference": claim }]);
    ask("vm.lan");
    await pod.becomes("net1 front", "net2 lan");
    const first = addresses();
    pod.edit("front");
    await pod.becomes("net1 front");
    ask("vm.lan");
    await pod.becomes("net1 front", "net2 lan");
    expect(addresses()).toBe(first);
    ask("other.lan");
    await waitUntil("the network has another address", () => addresses() !== first);
    await pod.becomes("net1 front", "net2 lan");
    await pod.sandbox.mustDel();
    const calls = (await readFile(join(host.binDir, "calls"), "utf8")).match(/^\w+|\S+$/gm);
    const pairs = ["vm.lan", "vm.lan", "other.lan"].flatMap((claim) => [
      "ADD",
      claim,
      "DEL",
      claim,
    ]);
    expect(calls).toEqual(pairs);
  });
});
