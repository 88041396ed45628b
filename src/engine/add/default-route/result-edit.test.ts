import { describe, expect, test } from "vitest";
import { formatResult } from "#cni/result/format.ts";
import { parseResult } from "#cni/result/parse.ts";
import type { Result } from "#cni/result/result.ts";
import { withDefaultRoutes } from "./result-edit.ts";

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

  test("takes away what the attachment lost, in any spelling, and nothing else", () => {
    const before = result(
      v4,
      other,
      { dst: "::0/0", gw: "fd00::1" },
      { dst: "::/0" },
      { ...v4, table: 100 },
    );
    const after = withDefaultRoutes(before, { families: [4, 6], routes: [] });
    expect(after.routes).toEqual([other, { ...v4, table: 100 }]);
    expect(after.ips).toEqual(before.ips);
    expect(withDefaultRoutes(before, { families: [6], routes: [] }).routes).toEqual([
      v4,
      other,
      { ...v4, table: 100 },
    ]);
  });

  test("adds what the attachment got, with metrics that are not the kernel's own", () => {
    const routes = [
      { family: 4 as const, gateway: "10.0.0.5", metric: 0 },
      { family: 4 as const, gateway: "10.0.0.6", metric: 1 },
      { family: 6 as const, metric: 1024 },
    ];
    expect(withDefaultRoutes(result(v4), { families: [4, 6], routes }).routes).toEqual([
      { dst: "0.0.0.0/0", gw: "10.0.0.5" },
      { dst: "0.0.0.0/0", gw: "10.0.0.6", priority: 1 },
      { dst: "::/0" },
    ]);
  });

  test("keeps the plugin's own words where the route is the same", () => {
    const mtu = { dst: "0.0.0.0/0", mtu: 1400 };
    const routes = [{ family: 4 as const, gateway: "10.0.0.1", metric: 0 }];
    expect(withDefaultRoutes(result(mtu, other), { families: [4], routes }).routes).toEqual([
      other,
      mtu,
    ]);
  });

  test("leaves the result alone where nothing was decided", () => {
    const before = result(v4);
    expect(withDefaultRoutes(before, undefined)).toBe(before);
    expect(withDefaultRoutes(before, { families: [], routes: [] })).toBe(before);
  });

  test.each(["0.2.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"])(
    "gives a result that can be printed in %s",
    (version) => {
      const after = withDefaultRoutes(result(v4, other), {
        families: [4],
        routes: [{ family: 4, gateway: "10.0.0.9", metric: 0 }],
      });
      expect(JSON.stringify(formatResult(after, version))).toContain(
        '{"dst":"0.0.0.0/0","gw":"10.0.0.9"}',
      );
    },
  );
});
