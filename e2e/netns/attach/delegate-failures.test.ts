import { expect } from "vitest";
import { hostKinds } from "../../support/host-state.ts";
import { list } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { errorScript, type Script } from "../../support/node/scripted-plugins.ts";
import { attachOrder, detachOrder, scriptedTest } from "../../support/node/test.ts";
import { waitForExit } from "../../support/processes.ts";

/** After each test the node must be as before, except for the namespaces of the test's pods. */
const test = scriptedTest.extend("unchanged", { auto: true }, async ({ node }, { onCleanup }) => {
  const before = await node.hostState();
  onCleanup(async () => expect(await node.changesSince(before, hostKinds)).toEqual([]));
});

test("a failing delegate stops the ADD, which is rolled back in reverse and reports the delegate's code and message [N-7.2a] [N-7.2b] [R-0.3-15] [R-0.3-16] [R-1.0-23]", async ({
  node,
  plugins,
}) => {
  await plugins.script("beta", "ADD", errorScript(142, "no address is left", "of 254"));
  const pod = await node.newPod({ networks: "alpha,beta,gamma" });
  const error = errorOf(await pod.add());
  const networks = ["alpha", "beta"];
  expect(await plugins.order()).toEqual([...attachOrder(...networks), ...detachOrder(...networks)]);
  expect(error).toEqual({
    cniVersion: "1.0.0",
    code: 142,
    msg: 'network default/beta (net2): plugin type="beta" failed (add): no address is left',
    details: "of 254",
  });
  expect(await pod.currentStatus()).toBeUndefined();
});

const endings: { name: string; script: Script; code: number; message: RegExp }[] = [
  { name: "dies by a signal", script: { signal: 9 }, code: 999, message: /killed by signal 9/ },
  {
    name: "fails with a message on stderr only",
    script: { stdout: "", stderr: "out of\nmemory\n", exit: 1 },
    code: 999,
    message: /netplugin failed: "?out of memory/,
  },
  { name: "succeeds with empty output", script: { stdout: "" }, code: 6, message: /alpha/ },
];

test.for(endings)(
  "a delegate that $name fails the ADD, which is rolled back",
  async ({ script, code, message }, { node, plugins }) => {
    await plugins.script("alpha", "ADD", script);
    const pod = await node.newPod({ networks: "alpha" });
    const error = errorOf(await pod.add());
    expect(error.msg).toMatch(message);
    expect(error.msg).toContain("default/alpha (net1)");
    expect(error.msg).not.toContain("\n");
    expect(error.code).toBe(code);
    expect((await plugins.order()).slice(3)).toEqual(detachOrder("alpha"));
  },
);

const fine: { name: string; script: Script }[] = [
  {
    name: "never reads its input",
    script: { nostdin: true, stdout: '{"cniVersion":"1.0.0","ips":[]}' },
  },
  { name: "writes 1 MiB to stderr", script: { hugeerr: 1 << 20 } },
  { name: "leaves a child that keeps its output open", script: { grandchild: true } },
];

test.for(fine)(
  "a delegate that $name does not fail the ADD",
  async ({ script }, { node, plugins }) => {
    await plugins.script("alpha", "ADD", script);
    // Together more than the 64 KiB that a pipe holds.
    const padding = "x".repeat(60_000);
    await node.nad("padded", list("net-padded", { type: "alpha", padding }));
    const pod = await node.newPod({
      networks: [{ name: "padded", "cni-args": { padding } }],
    });
    await pod.mustAdd();
    await pod.mustDel({ env: { PLEXUS_STRAGGLER_MS: "100" } });
    for (const { grandchild } of await plugins.executions()) {
      if (grandchild === undefined) continue;
      process.kill(grandchild, "SIGKILL");
      await waitForExit(grandchild);
    }
    // The child held the sandbox's lock; only this DEL removes the lock file.
    await pod.mustDel();
  },
);

test("a delegate with too much output is killed with its children [S-601]", async ({
  node,
  plugins,
}) => {
  await plugins.script("alpha", "ADD", { grandchild: true, huge: 5 << 20 });
  const pod = await node.pod("overflow", { networks: "alpha" });
  expect(errorOf(await pod.add()).msg).toMatch(/default\/alpha \(net1\).*stdout exceeded 4 MiB/);
  const alpha = (await plugins.executions()).find((e) => e.type === "alpha");
  expect(alpha?.grandchild).toBeGreaterThan(0);
  await waitForExit(alpha?.grandchild as number);
});
