import { readdir, readlink } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { errorScript } from "../support/node/scripted-plugins.ts";
import { attachOrder, detachOrder, scriptedTest as test } from "../support/node/test.ts";
import { specifiedError } from "./calls.ts";

const added = attachOrder("alpha", "beta");
const deleted = detachOrder("alpha", "beta");

/** Long enough for a call that does not wait to start a plugin. */
const pauseMs = 300;

test("calls of one container run one at a time, also for different interfaces; those of other containers do not wait [R-0.4-02] [R-1.0-20] [R-1.0-21]", async ({
  node,
  plugins,
  pod,
}) => {
  await plugins.script("alpha", "ADD", { hold: true });
  const first = pod.add();
  await plugins.reached("alpha", "ADD");
  const other = await node.newPod();
  const second = pod.add({ ifName: "eth1", pod: `default/${other.name}` });
  const third = pod.del();
  await sleep(pauseMs);
  expect(await plugins.order()).toEqual(added.slice(0, 3));
  await other.mustAdd();
  await plugins.release("alpha", "ADD");
  expect(await first).toMatchObject({ exitCode: 0 });
  expect(await third).toMatchObject({ exitCode: 0 });
  await second;
  const own = (await plugins.executions()).filter((e) => e.cni.CNI_CONTAINERID === pod.containerId);
  expect(own.slice(0, 4).map((e) => `${e.command} ${e.type}/${e.ifName}`)).toEqual(added);
  await pod.mustDel({ ifName: "eth1" });
  await other.mustDel();
});

test("each interface of a container has its own state, and a second ADD of one fails [R-0.4-04] [R-0.4-05] [R-1.0-14]", async ({
  node,
  plugins,
}) => {
  const plain = await node.newPod();
  await plain.mustAdd();
  await plain.mustAdd({ ifName: "eth1" });
  await plugins.clear();
  await plain.mustDel();
  expect(await plugins.order()).toEqual(["DEL default-second/eth0", "DEL default-first/eth0"]);
  // Scripted plugins make no interface, and without one the sandbox counts as replaced.
  await plain.addLink("eth1");
  expect(specifiedError(await plain.add({ ifName: "eth1" })).code).toBe(103);
  await plain.run("ip", "link", "del", "eth1");
  await plain.mustDel({ ifName: "eth1" });
});

test("DEL succeeds before ADD, repeatedly, without a namespace and without prevResult [R-0.4-03] [R-0.4-11] [R-0.4-13] [R-0.4-14] [R-1.0-15] [R-1.1-10]", async ({
  node,
  plugins,
  pod,
}) => {
  await pod.mustDel();
  await pod.mustAdd();
  await plugins.clear();
  await node.lab.deleteNetns(pod.netns);
  await pod.mustDel({ env: { CNI_NETNS: "" } });
  expect(await plugins.order()).toEqual(deleted);
  for (const env of [{ CNI_NETNS: "" }, {}]) await pod.mustDel({ env });
  const left = (await readdir(node.stateDir)).filter((name) => name.includes(pod.containerId));
  expect(left, "only the tombstone is left").toEqual([`${pod.containerId}@eth0.detached`]);
});

test("if a delegate fails in ADD, all attempted networks are deleted in reverse order, each with its whole list [R-0.3-16] [R-1.0-22] [R-1.0-32]", async ({
  plugins,
  pod,
}) => {
  await plugins.script("alpha", "ADD", errorScript(100, "no"));
  specifiedError(await pod.add());
  expect(await plugins.order()).toEqual([...added.slice(0, 3), ...deleted.slice(1)]);
  await plugins.clear();
  await plugins.script("default-first", "ADD", errorScript(100, "no"));
  specifiedError(await pod.add());
  expect(await plugins.order(), "also the plugin that did not run").toEqual([
    added[0],
    ...deleted.slice(2),
  ]);
});

test("delegates run in the runtime's own namespaces [R-1.0-10]", async ({ node, plugins, pod }) => {
  await plugins.script("alpha", "ADD", { hold: true });
  const adding = pod.add();
  const { pid } = await plugins.reached("alpha", "ADD");
  for (const kind of ["net", "mnt", "pid", "user"]) {
    const wanted = await readlink(`/proc/${node.lab.pid}/ns/${kind}`);
    expect(await readlink(`/proc/${pid}/ns/${kind}`)).toBe(wanted);
  }
  await plugins.release("alpha", "ADD");
  expect(await adding).toMatchObject({ exitCode: 0 });
  await pod.mustDel();
});
