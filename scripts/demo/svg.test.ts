import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { demoSvg } from "./svg.ts";

/** How the output of a `make demo` ended. */
const recorded = `
== The two pods as they were, from ip address, network-status and ping ==
   +- pod web --------+                                    +- pod db ---------+
   | eth0             |<------[ routed by the node ]------>| eth0             |
   | 10.244.7.2/24    |      kube-system/pod-network       | 10.244.7.3/24    |
   |                  |    ping > 0.533 ms, < 0.102 ms     |                  |
   | net1             |<------[ bridge br-storage ]------->| net1             |
   | 172.20.0.2/24    |            demo/storage            | 172.20.0.3/24    |
   |                  |    ping > 0.791 ms, < 0.085 ms     |                  |
   | lab0             |<------[ macvlan on uplink0 ]------>| lab0             |
   | 192.168.50.10/24 |              demo/lab              | 192.168.50.11/24 |
   |                  |    ping > 0.254 ms, < 0.024 ms     |                  |
   +------------------+                                    +------------------+
`;

test("docs/pods.svg is the picture of a recorded demo; `make docs DEMO=1` writes it", () => {
  const committed = readFileSync(join(import.meta.dirname, "../../docs/pods.svg"), "utf8");
  expect(demoSvg(recorded)).toBe(committed);
});

test("the picture has what the pods had, and no times", () => {
  const svg = demoSvg(recorded.replace("172.20.0.2/24", "172.20.0.9/24"));
  for (const text of ["pod web", "pod db", "demo/lab", "macvlan on uplink0", "172.20.0.9/24"])
    expect(svg).toContain(`>${text}<`);
  expect(svg).not.toContain("ms");
});

test("output without a picture is an error", () => {
  expect(() => demoSvg("demo: no root\n")).toThrow("no picture of two pods");
});
