import { describe, expect } from "vitest";
import { hostKinds } from "../../support/host-state.ts";
import { list } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { errorScript, type Script } from "../../support/node/scripted-plugins.ts";
import { attachOrder, detachOrder, scriptedTest } from "../../support/node/test.ts";
import { waitForExit } from "../../support/processes.ts";

/** Whatever fails, the node has in the end what it had before, but for the namespaces of the test's pods. */
const test = scriptedTest.extend("unchanged", { auto: true }, async ({ node }, { onCleanup }) => {
  const before = await node.hostState();
  onCleanup(async () => expect(await node.changesSince(before, hostKinds)).toEqual([]));
});

const networks = "alpha,beta,gamma";
const adds = attachOrder("alpha", "beta", "gamma");
const dels = detachOrder("alpha", "beta", "gamma");

/** Where an ADD can fail, and which DELs then undo what was attempted: whole chains, last network first. */
const positions = [
  { type: "default-first", network: "default (eth0)", undone: dels.slice(3) },
  { type: "default-second", network: "default (eth0)", undone: dels.slice(3) },
  { type: "alpha", network: "default/alpha (net1)", undone: dels.slice(2) },
  { type: "beta", network: "default/beta (net2)", undone: dels.slice(1) },
  { type: "gamma", network: "default/gamma (net3)", undone: dels },
];

test.for(positions)(
  "a failing ADD of $type stops there, is undone in reverse, and its own code and words are reported [N-7.2a] [N-7.2b] [R-0.3-15] [R-0.3-16] [R-1.0-23]",
  async ({ type, network, undone }, { node, plugins }) => {
    await plugins.script(type, "ADD", errorScript(142, "no address is left", "of 254"));
    const pod = await node.newPod({ networks });
    const error = errorOf(await pod.add());
    const attempted = adds.slice(0, adds.findIndex((line) => line.includes(type)) + 1);
    expect(await plugins.order()).toEqual([...attempted, ...undone]);
    expect(error).toEqual({
      cniVersion: "1.0.0",
      code: 142,
      msg: `network ${network}: plugin type="${type}" failed (add): no address is left`,
      details: "of 254",
    });
    expect(await pod.status()).toBeUndefined();
  },
);

const endings: { name: string; script: Script; code: number; message: RegExp }[] = [
  { name: "dies by a signal", script: { signal: 9 }, code: 999, message: /killed by signal 9/ },
  {
    name: "prints nothing and fails",
    script: { stdout: "", exit: 3 },
    code: 999,
    message: /netplugin failed with no error message: exit status 3/,
  },
  {
    name: "fails with words on stderr only",
    script: { stdout: "", stderr: "out of\nmemory\n", exit: 1 },
    code: 999,
    message: /netplugin failed: "?out of memory/,
  },
  {
    name: "fails with what is no JSON",
    script: { stdout: "panic: at the disco", exit: 2 },
    code: 6,
    message: /panic: at the disco/,
  },
  { name: "succeeds with what is no JSON", script: { stdout: "hello" }, code: 6, message: /alpha/ },
  { name: "succeeds with an empty output", script: { stdout: "" }, code: 6, message: /alpha/ },
  { name: "succeeds with a list", script: { stdout: "[]" }, code: 6, message: /alpha/ },
  {
    name: "prints a result of an unknown version",
    script: { stdout: '{"cniVersion":"9.9.9"}' },
    code: 6,
    message: /9\.9\.9/,
  },
  {
    name: "prints more than 4 MiB",
    script: { huge: 5 << 20 },
    code: 999,
    message: /stdout exceeded 4 MiB/,
  },
  {
    name: "reports a negative code",
    script: { stdout: '{"code":-3,"msg":"odd"}', exit: 1 },
    code: 999,
    message: /odd/,
  },
  { name: "fails with code 11", script: errorScript(11, "later"), code: 11, message: /later/ },
];

test.for(endings)(
  "a delegate that $name fails the ADD, which is undone",
  async ({ script, code, message }, { node, plugins }) => {
    await plugins.script("alpha", "ADD", script);
    const pod = await node.newPod({ networks: "alpha" });
    const error = errorOf(await pod.add());
    expect(error.msg).toMatch(message);
    expect(error.msg).toContain("default/alpha (net1)");
    expect(error.msg).not.toContain("\n");
    expect(error.code).toBe(code);
    expect((await plugins.order()).slice(3)).toEqual(dels.slice(2));
  },
);

describe("what is no failure", () => {
  const fine: { name: string; script: Script }[] = [
    {
      name: "never reads its input",
      script: { nostdin: true, stdout: '{"cniVersion":"1.0.0","ips":[]}' },
    },
    { name: "writes much on stderr", script: { hugeerr: 1 << 20 } },
    { name: "leaves a child behind that holds its output open", script: { grandchild: true } },
  ];
  test.for(fine)("a delegate that $name", async ({ script }, { node, plugins }) => {
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
    // The child held the sandbox's lock: only now does its file go.
    await pod.mustDel();
  });

  test("stderr of a delegate that succeeds reaches the runtime's log [R-1.0-30]", async ({
    node,
    plugins,
  }) => {
    await plugins.script("alpha", "ADD", { stderr: "a word of warning\n" });
    const pod = await node.pod("stderr", { networks: "alpha" });
    expect((await pod.add()).stderr).toContain("a word of warning");
    await pod.mustDel();
  });
});

test("a plugin that is missing is named, with where it was looked for, and owes no DEL", async ({
  node,
  plugins,
}) => {
  await plugins.uninstall("gamma");
  const pod = await node.pod("missing", { networks: "alpha,gamma" });
  const error = errorOf(await pod.add());
  expect(error.msg).toContain(`failed to find plugin "gamma" in path [${plugins.binDir}]`);
  await pod.mustDel();
  await plugins.install("gamma");
});

test("a killed delegate takes its children with it when the output is too much [S-601]", async ({
  node,
  plugins,
}) => {
  await plugins.script("alpha", "ADD", { grandchild: true, huge: 5 << 20 });
  const pod = await node.pod("overflow", { networks: "alpha" });
  errorOf(await pod.add());
  const alpha = (await plugins.executions()).find((e) => e.type === "alpha");
  expect(alpha?.grandchild).toBeGreaterThan(0);
  await waitForExit(alpha?.grandchild as number);
});
