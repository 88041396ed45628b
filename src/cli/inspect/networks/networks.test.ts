import { expect, test } from "vitest";
import { run, startPlexusd } from "#cli/testing/run.ts";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import { networkFindings } from "./networks.ts";

const networks: readonly NetworkOnNode[] = [
  { network: "shop/lan", usable: true, links: [{ name: "eth1", link: "eth1" }] },
  {
    ...{ network: "shop/mv", usable: false, reason: "MasterMissing", message: 'no link "eth7"' },
    links: [{ name: "eth7" }],
  },
  {
    ...{ network: "shop/vf", usable: true, resource: "vendor.example/vf" },
    links: [{ name: "storage", link: "enp3s0" }],
  },
];

test("networks prints which networks the node has, and why it lacks others", async () => {
  const { socket } = await startPlexusd({ networks: async () => networks });
  const text = await run("networks", "--socket", socket);
  expect(text).toEqual({
    code: 0,
    out: [
      "NETWORK   USABLE  DETAILS",
      "shop/lan  yes",
      'shop/mv   no      no link "eth7"',
      "shop/vf   yes     link storage is an alternative name of enp3s0; the devices of vendor.example/vf decide",
    ].join("\n"),
    err: "",
  });
  const json = await run("networks", "-o", "json", "--socket", socket);
  expect(JSON.parse(json.out)).toEqual(networks);
});

test("networks fails if plexusd does not know", async () => {
  const { socket } = await startPlexusd({
    networks: () => Promise.reject(new Error("not listed")),
  });
  expect(await run("networks", "--socket", socket)).toEqual({
    ...{ code: 1, out: "" },
    err: "plexusctl networks: plexusd answers: not listed",
  });
});

test("networkFindings() names networks that are not here, and links with another name", () => {
  expect(networkFindings(networks)).toMatchObject([
    { check: "network shop/mv", reason: "NetworkUnavailable", message: 'no link "eth7"' },
    { check: "links of shop/vf", reason: "NetworkAvailable" },
  ]);
});
