import { join } from "node:path";
import { execa } from "execa";
import { beforeAll, expect, test } from "vitest";
import { nodeBinary } from "../../support/paths.ts";
import { makeBuilds } from "./builds.ts";
import { namespaceFlags } from "./place.ts";

let seen: Record<string, { left: string[]; afterwards: string[] }>;

beforeAll(async () => {
  await using builds = await makeBuilds();
  const probe = [nodeBinary(), join(import.meta.dirname, "host-state-probe.ts"), builds.gate];
  seen = JSON.parse((await execa("unshare", [...namespaceFlags, ...probe])).stdout);
});

test.each([
  ["link", "links: +left0"],
  ["namespace", "namespace left: +link x0"],
  ["route", "routes: +10.9.0.0/16 dev lo"],
  ["nftables rule", "nftables: +table ip left {"],
  ["iptables rule", "10.9.9.9"],
  ["queue", "tc: +qdisc tbf"],
  ["process", "processes: +S sleep 1000"],
  ["lock", "locks: +FLOCK"],
  ["record", "files: +/run/chaos/disk/state/c@eth0.record"],
  ["lock file", "files: +/run/chaos/disk/state/c.lock"],
  ["lease", "files: +/var/lib/cni/networks/default/10.71.0.2"],
  ["temporary file", "files: +/run/chaos/tmp/x"],
])("the comparison shows a %s that is left", (name, line) => {
  expect(seen[name]?.left.join("\n")).toContain(line);
  expect(seen[name]?.afterwards).toEqual([]);
});
