import { expect } from "vitest";
import { bridge, chained } from "../../support/networks.ts";
import { scriptedTest } from "../../support/node/test.ts";
import { cniPluginDir } from "../../support/paths.ts";
import { waitForExit } from "../../support/processes.ts";

/** A pod of a network whose last plugin is `alpha`. The DEL of `firewall` needs the result of `bridge`. */
const test = scriptedTest.extend("firewalled", async ({ node, plugins }) => {
  node.cniPath = [plugins.binDir, cniPluginDir()];
  const network = bridge("firewalled", 35, { ipMasq: true });
  node.defaultNetwork = chained(network, { type: "firewall" }, { type: "alpha" });
  const pod = await node.newPod();
  await pod.mustAdd();
  await pod.mustDel();
  await plugins.clear();
  const before = await node.hostState();
  const changes = (): Promise<string[]> => node.changesSince(before);
  const rules = (): Promise<string> => node.lab.run("iptables", "-S", "CNI-FORWARD");
  return { pod, changes, rules };
});

test("the plugin after firewall fails: the ADD leaves nothing", async ({ plugins, firewalled }) => {
  const { pod, changes } = firewalled;
  await plugins.script("alpha", "ADD", { exit: 1 });
  expect(await pod.add()).toMatchObject({ exitCode: 1 });
  expect(await changes()).toEqual([]);
  await pod.mustDel();
});

test("the rollback of such an ADD fails, too: it still removes the rules, and the DEL leaves nothing", async ({
  plugins,
  firewalled,
}) => {
  const { pod, changes, rules } = firewalled;
  await plugins.script("alpha", "ADD", { exit: 1 });
  await plugins.script("alpha", "DEL", { signal: 9 });
  expect(await pod.add()).toMatchObject({ exitCode: 1 });
  expect(await rules()).not.toContain("-s 10.35.0.");
  expect(pod.isRecorded).toBe(true);
  await plugins.reset();
  await pod.mustDel();
  expect(await changes()).toEqual([]);
});

test.for(["engine", "shim", "engine and its shim"])(
  "the %s is killed after firewall has run: the DEL leaves nothing",
  async (killed, { node, plugins, firewalled }) => {
    const { pod, changes, rules } = firewalled;
    await plugins.script("alpha", "ADD", { hold: true });
    const call = node.start(pod.request("ADD"));
    const { pid } = await plugins.reached("alpha", "ADD");
    expect(await rules()).toContain("-s 10.35.0.");
    if (killed !== "engine") process.kill(call.pid, "SIGSTOP");
    if (killed !== "shim") await node.killEngine(call);
    if (killed !== "engine") process.kill(call.pid, "SIGKILL");
    else await plugins.release("alpha", "ADD");
    await call.outcome;
    await waitForExit(pid);
    await plugins.reset();
    expect(pod.isRecorded).toBe(killed !== "engine");
    if (killed !== "shim") await node.startDaemon();
    await pod.mustDel();
    expect(await changes()).toEqual([]);
  },
);
