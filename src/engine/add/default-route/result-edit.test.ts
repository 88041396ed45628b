import { describe, expect, test } from "vitest";
import { formatResult } from "#cni/result/format.ts";
import { parseResult } from "#cni/result/parse.ts";
import type { Result } from "#cni/result/result.ts";
import type { IpFamily } from "#lib/ip.ts";
import { type KernelRoute, newDefaultRoute } from "#netlink/routes.ts";
import { type RoutesAfter, withDefaultRoutes } from "./result-edit.ts";

const links = [{ index: 2, name: "eth0", flags: 1, mtu: 1500 }];
const eth0 = { ifName: "eth0" };

function kernel(families: readonly IpFamily[], ...routes: readonly KernelRoute[]): RoutesAfter {
  return { links, families, routes };
}

function route(gateway: string, metric = 0): KernelRoute {
  return newDefaultRoute({ family: 4, ifIndex: 2, gateway, metric, onlink: false });
}

function result(...routes: object[]): Result {
  const ips = [
    { address: "10.0.0.2/24", gateway: "10.0.0.1", interface: 0 },
    { address: "fd00::2/64", gateway: "fd00::1", interface: 0 },
  ];
  const body = { cniVersion: "1.1.0", interfaces: [{ name: "eth0", sandbox: "/x" }], ips, routes };
  return parseResult(body, { fallbackVersion: "1.1.0" });
}

describe("withDefaultRoutes()", () => {
  const other = { dst: "10.9.0.0/16", gw: "10.0.0.7" };
  const v4 = { dst: "0.0.0.0/0", gw: "10.0.0.1" };

  test("removes only the default routes that the attachment lost, in any notation", () => {
    const before = result(
      v4,
      other,
      { dst: "::0/0", gw: "fd00::1" },
      { dst: "::/0" },
      { ...v4, table: 100 },
    );
    const edited = withDefaultRoutes(before, eth0, kernel([4, 6]));
    expect(edited.routes).toEqual([other, { ...v4, table: 100 }]);
    expect(edited.ips).toEqual(before.ips);
    const kept = [v4, other, { ...v4, table: 100 }];
    expect(withDefaultRoutes(before, eth0, kernel([6])).routes).toEqual(kept);
  });

  test("adds the default routes that the attachment got, with metrics other than the kernel's default", () => {
    const onlink = { ...route("10.0.0.8", 1024), family: 6, hops: [{ ifIndex: 2, onlink: false }] };
    const other = { ...route("10.0.0.7"), hops: [{ ifIndex: 3, onlink: false }] };
    const routes = [route("10.0.0.6", 1), route("10.0.0.5"), onlink as KernelRoute, other];
    expect(withDefaultRoutes(result(v4), eth0, kernel([4, 6], ...routes)).routes).toEqual([
      { dst: "0.0.0.0/0", gw: "10.0.0.5" },
      { dst: "0.0.0.0/0", gw: "10.0.0.6", priority: 1 },
      { dst: "::/0" },
    ]);
  });

  test("keeps the plugin's entry of a route that did not change", () => {
    const mtu = { dst: "0.0.0.0/0", mtu: 1400 };
    const edited = withDefaultRoutes(result(mtu, other), eth0, kernel([4], route("10.0.0.1")));
    expect(edited.routes).toEqual([other, mtu]);
  });

  test.each(["0.2.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])(
    "returns a result that is valid in CNI %s",
    (version) => {
      const routes = kernel([4], route("10.0.0.9"));
      const edited = withDefaultRoutes(result(v4, other), eth0, routes);
      expect(JSON.stringify(formatResult(edited, version))).toContain(
        '{"dst":"0.0.0.0/0","gw":"10.0.0.9"}',
      );
    },
  );
});
