import { expect, test } from "vitest";
import { run, startPlexusd } from "#cli/testing/run.ts";
import type { JsonObject } from "#lib/json.ts";

const lost: JsonObject[] = ["a", "b"].map((name) => ({
  metadata: { namespace: "shop", name },
  spec: { config: "{}" },
}));

test("lost-definitions prints a line for each, or has plexusd give them up", async () => {
  const asked: boolean[] = [];
  const { socket } = await startPlexusd({
    lostDefinitions: async ({ discards = false } = {}) => {
      asked.push(discards);
      return lost;
    },
  });
  const text = lost.map((each, i) => `shop/${"ab"[i]} ${JSON.stringify(each)}`).join("\n");
  expect(await run("lost-definitions", "--socket", socket)).toEqual({
    code: 0,
    out: text,
    err: "",
  });
  const json = await run("lost-definitions", "-o", "json", "--socket", socket);
  expect(JSON.parse(json.out)).toEqual(lost);
  const discarded = await run("lost-definitions", "--discard", "--socket", socket);
  expect(discarded).toMatchObject({ code: 0, out: text });
  expect(asked).toEqual([false, false, true]);
});
