import { expect, test } from "vitest";
import { linesOf, startPlexusd } from "#cli/testing/run.ts";
import type { Refreshed } from "#daemon/admin/refreshed.ts";

/** What plexusctl prints and returns for an answer of plexusd. */
async function refresh(answer: Refreshed) {
  const asked: string[] = [];
  const { socket } = await startPlexusd({
    refresh: async ({ namespace, name }, ifName) => {
      asked.push(`${namespace}/${name} ${ifName}`);
      return answer;
    },
  });
  const printed = await linesOf(["refresh", "shop/web", "net1", "--socket", socket]);
  expect(asked).toEqual(["shop/web net1"]);
  return printed;
}

const net1 = { network: "shop/a", ifName: "net1" };
const removed = { op: "remove", ...net1 } as const;
const added = { op: "add", ...net1 } as const;

test.each<[title: string, Refreshed, expected: object]>([
  [
    "succeeds",
    { state: "settled", operations: [removed, added] },
    { code: 0, out: ["unplugged shop/a (net1)", "plugged shop/a (net1)"], err: [] },
  ],
  [
    "names the plugin's error",
    { state: "failed", operations: [removed, { ...added, message: "no address" }] },
    { code: 1, out: ["unplugged shop/a (net1)"], err: ["no address"] },
  ],
  [
    "names what is wrong with the annotation",
    { state: "failed", operations: [], problem: "no definition" },
    { code: 1, out: [], err: ["no definition"] },
  ],
  [
    "fails if there is nothing to refresh",
    { state: "settled", operations: [] },
    { code: 1, out: [], err: [expect.stringContaining("nothing was changed")] },
  ],
])("plexusctl refresh %s", async (_, answer, expected) => {
  expect(await refresh(answer)).toEqual(expected);
});
