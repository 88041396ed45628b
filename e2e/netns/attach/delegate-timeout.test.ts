import { expect } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { explained } from "../../support/node/explain.ts";
import { attachOrder, detachOrder, scriptedTest } from "../../support/node/test.ts";
import { waitForExit } from "../../support/processes.ts";

/** Long enough for a working plugin on a busy machine. */
const delegateTimeoutMs = 3000;

const test = scriptedTest.extend("daemonConfig", { scope: "file" }, { delegateTimeoutMs });

test("a delegate that hangs in ADD is killed with its children, and the ADD is rolled back [S-600] [S-606]", async ({
  node,
  plugins,
}) => {
  await plugins.script("alpha", "ADD", { hang: true, grandchild: true });
  const pod = await node.pod("hangs", { networks: "alpha" });
  const error = errorOf(await pod.add());
  expect(error.msg).toContain(`plugin type="alpha" failed (add)`);
  expect(error.msg).toContain(`timed out after ${delegateTimeoutMs} ms`);
  const alpha = (await plugins.executions()).find((e) => e.type === "alpha");
  await waitForExit(alpha?.pid as number);
  await waitForExit(alpha?.grandchild as number);
  expect(await plugins.order()).toEqual([...attachOrder("alpha"), ...detachOrder("alpha")]);
});

test("a delegate that hangs in DEL is killed, the others run, and the next DEL completes the teardown", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("hangs-del", { networks: "alpha,beta" });
  await pod.mustAdd();
  await pod.addLink("net2");
  await plugins.clear();
  await plugins.script("beta", "DEL", { hang: true });
  expect(errorOf(await pod.del()).msg).toContain("timed out");
  expect(await plugins.order()).toEqual(detachOrder("alpha", "beta"));
  await plugins.unscript("beta", "DEL");
  await pod.mustDel();
});

test("the timeout also applies when the shim replays the plan", async ({ node, plugins }) => {
  const pod = await node.pod("hangs-replay", { networks: "alpha" });
  await pod.mustAdd();
  await node.stopDaemon();
  await plugins.script("alpha", "DEL", { hang: true, grandchild: true });
  const error = errorOf(await pod.del());
  expect(error).toMatchObject({
    code: 102,
    msg: expect.stringContaining(`still running after ${delegateTimeoutMs} ms`),
  });
  await plugins.unscript("alpha", "DEL");
  await pod.mustDel();
  await node.startDaemon();
});

needsPlexusd("explain asks it", () => {
  test("explain finds a delegate that hangs", async ({ node, plugins }) => {
    await plugins.script("alpha", "ADD", { hang: true });
    const pod = await node.pod("explained", { networks: "alpha" });
    errorOf(await pod.add());
    expect((await explained(node.socketPath, "default/explained")).finding).toBe("PluginTimeout");
  });
});
