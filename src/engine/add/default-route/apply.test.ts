import { MessageType } from "netlink/dist/rt/gen_structs.js";
import { beforeEach, describe, expect, test } from "vitest";
import { FakeKernel } from "#engine/testing/fake-kernel.ts";
import { applyDefaultRoute } from "./apply.ts";

const netns = "/run/netns/x";
const eth0 = ["via 10.0.0.1 dev eth0 metric 0", "via fd00::1 dev eth0 metric 1024"];
let kernel: FakeKernel;

beforeEach(() => {
  kernel = new FakeKernel();
  kernel.addNamespace(netns);
  kernel.addLink(netns, "eth0", ["10.0.0.2/24", "fd00::2/64"]);
  kernel.addLink(netns, "net1", ["10.1.0.2/24", "fd01::2/64"]);
  kernel.addLink(netns, "net2", ["10.2.0.2/24"]);
  kernel.addDefaultRoute(netns, { dev: "eth0", gateway: "10.0.0.1" });
  kernel.addDefaultRoute(netns, { dev: "eth0", gateway: "fd00::1" });
});

function apply(requested: readonly string[] | undefined): ReturnType<typeof applyDefaultRoute> {
  const attachments = [{ ifName: "eth0" }, { ifName: "net1", requested }, { ifName: "net2" }];
  return applyDefaultRoute({ netns, attachments, transport: kernel.transport });
}

describe("applyDefaultRoute()", () => {
  test("does not query the kernel when no attachment requests the default route", async () => {
    expect(await apply(undefined)).toEqual(new Map());
    expect(kernel.datagrams).toBe(0);
  });

  test("moves the families of which a gateway is named [N-4.1.2.1.9c]", async () => {
    kernel.addDefaultRoute(netns, { dev: "net2", gateway: "10.2.0.1", metric: 7 });
    const after = await apply(["10.1.0.1"]);
    expect(await kernel.defaultRoutes(netns)).toEqual(["via 10.1.0.1 dev net1 metric 0", eth0[1]]);
    expect(Object.fromEntries(after)).toEqual({
      eth0: { families: [4], routes: [] },
      net1: { families: [4], routes: [{ family: 4, gateway: "10.1.0.1", metric: 0 }] },
      net2: { families: [4], routes: [] },
    });
  });

  test("gives several gateways metrics in their order [N-4.1.2.1.9e]", async () => {
    const after = await apply(["fe80::1", "10.1.0.9", "fd01::1", "10.1.0.1", "10.1.0.9"]);
    expect(after.get("net1")?.routes).toEqual([
      { family: 4, gateway: "10.1.0.9", metric: 0 },
      { family: 4, gateway: "10.1.0.1", metric: 1 },
      { family: 6, gateway: "fe80::1", metric: 1024 },
      { family: 6, gateway: "fd01::1", metric: 1025 },
    ]);
    expect(after.get("eth0")?.routes).toEqual([]);
  });

  test("keeps the attachment's own with an empty list [N-4.1.2.1.9b]", async () => {
    kernel.addDefaultRoute(netns, { dev: "net1", gateway: "fd01::7" });
    const after = await apply([]);
    expect(await kernel.defaultRoutes(netns)).toEqual([
      eth0[0],
      "via fd01::7 dev net1 metric 1024",
    ]);
    expect(after.get("eth0")).toEqual({ families: [6], routes: [] });
  });

  test("changes nothing for an empty list where the attachment has no default route", async () => {
    expect((await apply([])).get("eth0")).toEqual({ families: [], routes: [] });
    expect(await kernel.defaultRoutes(netns)).toEqual(eth0);
  });

  test("takes a route that is gone already as removed", async () => {
    kernel.refuse = ({ type }): number | undefined =>
      type === MessageType.DELROUTE ? 3 : undefined;
    await expect(apply(["10.1.0.1"])).resolves.toBeInstanceOf(Map);
  });

  test("puts all routes back when the kernel refuses one, and names it", async () => {
    let seen = 0;
    kernel.refuse = ({ type }): number | undefined =>
      type === MessageType.NEWROUTE && ++seen === 2 ? 101 : undefined;
    await expect(apply(["10.1.0.1", "fd01::1"])).rejects.toMatchObject({
      name: "RouteError",
      code: 5,
      errno: "ENETUNREACH",
      message: "cannot add the IPv6 default route via fd01::1 dev net1: ENETUNREACH",
    });
    expect(await kernel.defaultRoutes(netns)).toEqual(eth0);
  });

  test("reports that the routes cannot be put back", async () => {
    kernel.refuse = ({ type }): number | undefined =>
      type === MessageType.NEWROUTE ? 12 : undefined;
    await expect(apply(["10.1.0.1"])).rejects.toThrow(
      "cannot add the IPv4 default route via 10.1.0.1 dev net1: ENOMEM; and the routes could not be restored: cannot add the IPv4 default route via 10.0.0.1 dev eth0: ENOMEM",
    );
  });

  test("puts the routes back when the answer to the edits is lost", async () => {
    const lost = new Error("lost");
    const transport: typeof kernel.transport = async (path, bytes) => {
      const answer = await kernel.transport(path, bytes);
      if (kernel.datagrams === 5) throw lost;
      return answer;
    };
    const attachments = [
      { ifName: "eth0" },
      { ifName: "net1", requested: ["10.1.0.1", "fd01::1"] },
    ];
    await expect(applyDefaultRoute({ netns, attachments, transport })).rejects.toBe(lost);
    expect(await kernel.defaultRoutes(netns)).toEqual(eth0);
  });
});
