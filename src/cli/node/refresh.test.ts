import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { runCli } from "#cli/cli.ts";
import { startAdminServer } from "#daemon/admin/admin-server.ts";
import type { Refreshed } from "#daemon/admin/refreshed.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { adminSocketPath } from "#lib/files/state-files.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

/** What plexusctl prints and returns for an answer of plexusd. */
async function refresh(answer: Refreshed) {
  const dir = await temporaryDirectory();
  const socket = join(dir, "plexus.sock");
  const asked: string[] = [];
  const refuse = () => Promise.reject(new Error("not asked"));
  const server = await startAdminServer({
    socketPath: adminSocketPath(socket),
    answers: {
      ...{ node: refuse, pod: refuse, claimedDevices: refuse },

      noteFailedAdd: () => undefined,
      readiness: () => [],
      refresh: async ({ namespace, name }, ifName) => {
        asked.push(`${namespace}/${name} ${ifName}`);
        return answer;
      },
    },
    logger: new FakeLogger(),
  });
  onTestFinished(() => server.close());
  const [out, err]: [string[], string[]] = [[], []];
  const output = { out: (line: string) => out.push(line), err: (line: string) => err.push(line) };
  const code = await runCli(["refresh", "shop/web", "net1", "--socket", socket], output);
  expect(asked).toEqual(["shop/web net1"]);
  return { code, out, err };
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
