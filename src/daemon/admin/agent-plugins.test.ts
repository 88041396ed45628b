import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { type AgentPlugins, agentPlugins, type FindByAgent } from "./agent-plugins.ts";

/** What the status has of a directory with two plugins, the shim, other files, and a link to what cannot be seen. */
async function answerOf(find: FindByAgent): Promise<AgentPlugins | undefined> {
  const dir = await temporaryDirectory();
  for (const name of ["ptp", "bridge", "plexus"])
    await writeFile(join(dir, name), "", { mode: 0o755 });
  await writeFile(join(dir, "LICENSE"), "");
  await mkdir(join(dir, "rev"));
  await symlink("/elsewhere/cni", join(dir, "flannel"));
  const files = { sees: (path: string) => path.startsWith(dir) };
  return await agentPlugins(find, { binDirs: [dir, "/unseen"], files });
}

test("agentPlugins() asks about each plugin, and gives the reason of the first that is refused", async () => {
  const find = vi.fn<FindByAgent>(async () => [
    { outcome: "found" },
    { outcome: "refused", message: "not root's" },
    { outcome: "refused", message: "another reason" },
  ]);
  expect(await answerOf(find)).toEqual({ refused: ["flannel", "ptp"], why: "not root's" });
  expect(find.mock.calls).toEqual([
    [
      [expect.any(String), "/unseen"],
      ["bridge", "flannel", "ptp"],
    ],
  ]);
});

test("agentPlugins() knows nothing without an agent, plugins, or an answer", async () => {
  expect(await answerOf(async () => undefined)).toBeUndefined();
  expect(await answerOf(() => Promise.reject(new Error("it has gone")))).toBeUndefined();
  const search = { binDirs: ["/unseen"], files: { sees: () => false } };
  expect(await agentPlugins(async () => [], search)).toBeUndefined();
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const asked = Promise.withResolvers<void>();
  const suspended = answerOf(() => {
    asked.resolve();
    return Promise.withResolvers<undefined>().promise;
  });
  await asked.promise;
  await vi.advanceTimersByTimeAsync(5000);
  expect(await suspended).toBeUndefined();
});
