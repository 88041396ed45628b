import { MessageType } from "netlink/dist/rt/gen_structs.js";
import { beforeEach, describe, expect, test } from "vitest";
import type { ResultRoute } from "#cni/result/result.ts";
import { FakeKernel } from "#engine/testing/fake-kernel.ts";
import { changeRoutes, type RoutesAfter } from "./apply.ts";
import { withDefaultRoutes } from "./default-routes.ts";
import { planDefaultRoute } from "./plan.ts";
import type { RouteState } from "./route-state.ts";

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

async function apply(requested: readonly string[] | undefined): Promise<RoutesAfter | undefined> {
  const attachments = [{ ifName: "eth0" }, { ifName: "net1", requested }, { ifName: "net2" }];
  const plan = (state: RouteState) => planDefaultRoute(state, attachments);
  return changeRoutes({ netns, transport: kernel.transport }, plan);
}

/** The default routes that the result of an attachment then has. */
function reported(after: RoutesAfter | undefined, ifName: string): readonly ResultRoute[] {
  const result = { cniVersion: "1.0.0", interfaces: [], ips: [], routes: [] };
  if (after === undefined) throw new Error("the kernel was not asked");
  return withDefaultRoutes(result, { ifName }, after).routes;
}

describe("changeRoutes()", () => {
  test("moves the default route of the IP families with a requested gateway [N-4.1.2.1.9c]", async () => {
    kernel.addDefaultRoute(netns, { dev: "net2", gateway: "10.2.0.1", metric: 7 });
    const after = await apply(["10.1.0.1"]);
    expect(kernel.defaultRoutes(netns)).toEqual(["via 10.1.0.1 dev net1 metric 0", eth0[1]]);
    expect(after?.families).toEqual([4]);
    expect(["eth0", "net1", "net2"].map((ifName) => reported(after, ifName))).toEqual([
      [],
      [{ dst: "0.0.0.0/0", gw: "10.1.0.1" }],
      [],
    ]);
  });

  test("gives several gateways increasing metrics in the requested order [N-4.1.2.1.9e]", async () => {
    const after = await apply(["fe80::1", "10.1.0.9", "fd01::1", "10.1.0.1", "10.1.0.9"]);
    expect(reported(after, "net1")).toEqual([
      { dst: "0.0.0.0/0", gw: "10.1.0.9" },
      { dst: "0.0.0.0/0", gw: "10.1.0.1", priority: 1 },
      { dst: "::/0", gw: "fe80::1" },
      { dst: "::/0", gw: "fd01::1", priority: 1025 },
    ]);
    expect(reported(after, "eth0")).toEqual([]);
  });

  test("keeps the attachment's own default route for an empty list of gateways [N-4.1.2.1.9b]", async () => {
    kernel.addDefaultRoute(netns, { dev: "net1", gateway: "fd01::7" });
    const after = await apply([]);
    expect(kernel.defaultRoutes(netns)).toEqual([eth0[0], "via fd01::7 dev net1 metric 1024"]);
    expect(after?.families).toEqual([6]);
    expect(reported(after, "eth0")).toEqual([]);
  });

  test("changes nothing for an empty list if the attachment has no default route", async () => {
    expect(await apply([])).toBeUndefined();
    expect(kernel.defaultRoutes(netns)).toEqual(eth0);
  });

  test("sends no change if the routes are as requested", async () => {
    await apply(["10.1.0.1"]);
    const sent = kernel.datagrams;
    const after = await apply(["10.1.0.1"]);
    expect(reported(after, "net1")).toEqual([{ dst: "0.0.0.0/0", gw: "10.1.0.1" }]);
    // Links, addresses, and the routes of both IP families.
    expect(kernel.datagrams).toBe(sent + 4);
  });

  test("treats a route that is already gone as removed", async () => {
    kernel.refuse = ({ type }): undefined => {
      if (type === MessageType.DELROUTE) kernel.removeLink(netns, "eth0");
    };
    await expect(apply(["10.1.0.1"])).resolves.toMatchObject({ families: [4] });
  });

  test("fails if the kernel does not remove a route, and removes what it added", async () => {
    kernel.addDefaultRoute(netns, { dev: "eth0", metric: 5 });
    const before = kernel.defaultRoutes(netns);
    let seen = 0;
    kernel.refuse = ({ type }): number | undefined =>
      type === MessageType.DELROUTE && ++seen === 2 ? 1 : undefined;
    await expect(apply(["10.1.0.1"])).rejects.toThrow(
      /^cannot remove the IPv4 default route dev eth0: EPERM$/,
    );
    expect(kernel.defaultRoutes(netns).toSorted()).toEqual(before.toSorted());
  });

  test("sends nothing more if the kernel refuses every change", async () => {
    kernel.refuse = ({ type }): number | undefined =>
      type === MessageType.NEWROUTE || type === MessageType.DELROUTE ? 1 : undefined;
    await expect(apply(["10.1.0.1"])).rejects.toThrow(/via 10.0.0.1 dev eth0: EPERM$/);
    expect(kernel.datagrams).toBe(5);
  });

  test.each([
    { what: "the same", gateway: "fd01::1" },
    { what: "another", gateway: "fd01::9" },
  ])(
    "fails if another process adds $what route meanwhile, and does not remove it",
    async ({ gateway }) => {
      let seen = 0;
      kernel.refuse = ({ type }): undefined => {
        if (type !== MessageType.NEWROUTE || ++seen !== 2) return;
        kernel.addDefaultRoute(netns, { dev: "net1", gateway });
      };
      await expect(apply(["10.1.0.1", "fd01::1"])).rejects.toThrow(
        /^cannot add the IPv6 default route via fd01::1 dev net1: EEXIST$/,
      );
      const theirs = `via ${gateway} dev net1 metric 1024`;
      expect(kernel.defaultRoutes(netns)).toEqual([eth0[0], theirs, eth0[1]]);
    },
  );

  test("restores several routes of one metric, and accepts that another process restores one", async () => {
    kernel.addDefaultRoute(netns, { dev: "net2", gateway: "10.2.0.1" });
    const before = kernel.defaultRoutes(netns);
    kernel.refuse = ({ type }): number | undefined => {
      if (type !== MessageType.NEWROUTE) return undefined;
      kernel.refuse = () => undefined;
      kernel.addDefaultRoute(netns, { dev: "eth0", gateway: "10.0.0.1" });
      return 101;
    };
    await expect(apply(["10.1.0.1"])).rejects.toThrow(/ENETUNREACH$/);
    expect(kernel.defaultRoutes(netns)).toEqual(before);
  });

  test("restores all routes if the kernel refuses one, and names it", async () => {
    const { DELROUTE, NEWROUTE } = MessageType;
    const changes: number[] = [];
    kernel.refuse = ({ type }): number | undefined => {
      if (type === DELROUTE || type === NEWROUTE) changes.push(type);
      return changes.length === 4 && type === NEWROUTE ? 101 : undefined;
    };
    await expect(apply(["10.1.0.1", "fd01::1"])).rejects.toMatchObject({
      code: 5,
      message: "cannot add the IPv6 default route via fd01::1 dev net1: ENETUNREACH",
    });
    expect(kernel.defaultRoutes(netns)).toEqual(eth0);
    const restored = [DELROUTE, NEWROUTE, NEWROUTE];
    expect(changes).toEqual([DELROUTE, DELROUTE, NEWROUTE, NEWROUTE, ...restored]);
  });

  test("reports that it cannot restore the routes", async () => {
    kernel.refuse = ({ type }): number | undefined =>
      type === MessageType.NEWROUTE ? 12 : undefined;
    await expect(apply(["10.1.0.1"])).rejects.toThrow(
      "cannot add the IPv4 default route via 10.1.0.1 dev net1: ENOMEM; and the routes could not be restored: cannot add the IPv4 default route via 10.0.0.1 dev eth0: ENOMEM",
    );
  });

  test("restores the routes if the kernel's answer to the edits is lost", async () => {
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
    const plan = (state: RouteState) => planDefaultRoute(state, attachments);
    await expect(changeRoutes({ netns, transport }, plan)).rejects.toBe(lost);
    expect(kernel.defaultRoutes(netns)).toEqual(eth0);
  });
});
