import { join } from "node:path";
import { execa } from "execa";
import { beforeAll, expect, test } from "vitest";
import { nodeBinary } from "../../support/paths.ts";
import { makeBuilds } from "./builds.ts";
import { namespaceFlags } from "./place.ts";

let seen: Record<string, { left: string[]; afterwards: string[] }>;

beforeAll(async () => {
  await using builds = await makeBuilds();
  const probe = [nodeBinary(), join(import.meta.dirname, "host-state-probe.ts"), builds.fixtures];
  seen = JSON.parse((await execa("unshare", [...namespaceFlags, ...probe])).stdout);
});

test.each([
  ["IPv6 address", "+ addresses: up0 fd00:9::1/128"],
  ["IPv6 route", "+ routes: fd00:9::/64 dev up0"],
  ["IPv6 address in a pod", "+ addresses in pods: left lo fd00:9::2/128"],
  ["process", "+ processes: S sleep 1000"],
  ["lock", "+ locks: FLOCK"],
  ["record", "+ files: /run/chaos/disk/state/c@eth0.record"],
  ["lock file", "+ files: /run/chaos/disk/state/c.lock"],
  ["lease", "+ files: /var/lib/cni/networks/default/10.71.0.2"],
  ["temporary file", "+ files: /run/chaos/tmp/x"],
])("the comparison shows a leftover: %s", (name, line) => {
  expect(seen[name]?.left.join("\n")).toContain(line);
  expect(seen[name]?.afterwards).toEqual([]);
});
