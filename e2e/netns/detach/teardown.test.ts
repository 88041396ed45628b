import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { encodePlan } from "#protocol/plan.ts";
import { parsePlan } from "#records/record-file.ts";
import { list } from "../../support/networks.ts";
import { errorOf } from "../../support/node/cni-call.ts";
import { errorScript } from "../../support/node/scripted-plugins.ts";
import { detachOrder, scriptedTest as test } from "../../support/node/test.ts";

const dels = detachOrder("alpha", "beta");

test("a failing DEL stops neither the other networks nor hides: error, record and a second DEL [S-606] [N-7.2b] [N-7.2c]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("one-fails", { networks: "alpha,beta" });
  await pod.mustAdd();
  // The interface that a plugin with a failing DEL leaves.
  await pod.addLink("net1");
  await plugins.clear();
  await plugins.script("alpha", "DEL", errorScript(77, "the switch is busy"));
  const error = errorOf(await pod.del());
  expect(error.code).toBe(77);
  expect(error.msg).toContain('plugin type="alpha" failed (delete): the switch is busy');
  expect(await plugins.order()).toEqual(dels);
  expect(existsSync(pod.recordPath)).toBe(true);
  await plugins.unscript("alpha", "DEL");
  await pod.mustDel();
  expect(existsSync(pod.recordPath)).toBe(false);
});

test("within a chain the first failing DEL stops the chain alone [R-1.0-24]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("chain-stops", { networks: "alpha" });
  await pod.mustAdd();
  // The interface that a plugin with a failing DEL leaves.
  await pod.addLink("eth0");
  await plugins.clear();
  await plugins.script("default-second", "DEL", errorScript(55, "busy"));
  expect(errorOf(await pod.del()).code).toBe(55);
  expect(await plugins.order()).toEqual(["DEL alpha/net1", "DEL default-second/eth0"]);
  await plugins.unscript("default-second", "DEL");
  await pod.mustDel();
});

test("several failing DELs are one error that names each", async ({ node, plugins }) => {
  const pod = await node.pod("two-fail", { networks: "alpha,beta" });
  await pod.mustAdd();
  await plugins.script("alpha", "DEL", errorScript(77, "first reason"));
  await plugins.script("beta", "DEL", errorScript(78, "second reason"));
  const error = errorOf(await pod.del());
  expect(error.code).toBe(102);
  expect(error.msg).toMatch(/second reason.*first reason/);
  for (const type of ["alpha", "beta"]) await plugins.unscript(type, "DEL");
  await pod.mustDel();
});

test("no DEL error has the words that containerd takes for success", async ({ node, plugins }) => {
  const pod = await node.pod("words", { networks: "alpha" });
  await pod.mustAdd();
  await plugins.script(
    "alpha",
    "DEL",
    errorScript(7, "lease Not Found: no such file or directory"),
  );
  const { msg } = errorOf(await pod.del());
  expect(msg).not.toMatch(/not found|no such file or directory/i);
  await plugins.unscript("alpha", "DEL");
  await pod.mustDel();
});

test("an ADD whose undoing fails records what is left; the runtime's DEL completes it", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("undo-fails", { networks: "alpha,beta" });
  await plugins.script("beta", "ADD", errorScript(120, "full"));
  await plugins.script("alpha", "DEL", errorScript(121, "busy"));
  expect(errorOf(await pod.add()).code, "the reason is the ADD's").toBe(120);
  expect(existsSync(pod.recordPath)).toBe(true);
  expect(errorOf(await pod.del()).code).toBe(121);
  await plugins.unscript("alpha", "DEL");
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order()).toEqual(dels.slice(1, 2));
  expect(existsSync(pod.recordPath)).toBe(false);
});

test("a second DEL runs no definition of today, although a plugin left its link behind", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("link-left", { networks: "alpha" });
  await pod.mustAdd();
  await pod.mustDel();
  await pod.addLink("net1");
  await pod.annotate({ networks: "beta" });
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order()).toEqual(dels.slice(2));
});

test("DEL uses the record: changed annotation, changed definition, removed manifests do not matter [S-403]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("by-record", { networks: "alpha" });
  await pod.mustAdd();
  await pod.annotate({ networks: "beta,gamma" });
  await node.nad("alpha", list("renamed", { type: "gamma" }));
  await plugins.clear();
  await rm(join(node.manifestsDir, "pod-default-by-record.yaml"));
  await pod.mustDel();
  expect(await plugins.order()).toEqual(["DEL alpha/net1", ...dels.slice(2)]);
  const [alpha] = await plugins.executions();
  expect(JSON.parse(alpha?.stdin ?? "")).toMatchObject({ name: "net-alpha" });
  await node.nad("alpha", list("net-alpha", { type: "alpha" }));
});

test("DEL without an ADD and a second DEL succeed; the default network gets its DEL [R-1.0-15] [R-0.4-13]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("never-added", { networks: "alpha" });
  await pod.mustDel();
  expect(await plugins.order()).toEqual(dels.slice(2));
  await pod.mustAdd();
  await pod.mustDel();
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order()).toEqual(dels.slice(2));
});

test("a second ADD is refused with code 103 and changes nothing [R-1.0-14]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("twice", { networks: "alpha" });
  await pod.mustAdd();
  await plugins.clear();
  expect(errorOf(await pod.add())).toMatchObject({
    code: 103,
    msg: expect.stringContaining("c-twice"),
  });
  expect(await plugins.order()).toEqual([]);
  await pod.mustDel();
  expect(await plugins.order()).toEqual(["DEL alpha/net1", ...dels.slice(2)]);
});

test("DEL without a namespace, or with one that is gone, gives the plugins an empty CNI_NETNS", async ({
  node,
  plugins,
}) => {
  for (const name of ["empty", "stale"]) {
    const pod = await node.pod(name, { networks: "alpha" });
    await pod.mustAdd();
    await plugins.clear();
    await node.lab.deleteNetns(pod.netns);
    const { netns: _netns, ...request } = pod.request("DEL");
    const outcome = name === "empty" ? await node.call(request) : await pod.del();
    expect(outcome).toMatchObject({ exitCode: 0, stdout: "" });
    expect((await plugins.executions()).map((e) => e.cni.CNI_NETNS)).toEqual(["", "", ""]);
  }
});

test("a record of a newer schema: DEL uses the teardown plan and removes both", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("damaged", { networks: "alpha,beta" });
  await pod.mustAdd();
  const place = { path: pod.recordPath, key: { containerId: pod.containerId, ifName: "eth0" } };
  const plan = parsePlan(await readFile(pod.recordPath), place);
  const calls = plan.steps.map(({ group, call }) => ({ group, ...call }));
  const newer = { schema: "3", text: "{}" };
  await writeFile(pod.recordPath, encodePlan({ ...place.key, ...plan, calls }, newer));
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order()).toEqual(dels);
  expect(existsSync(pod.recordPath)).toBe(false);
});

test("a damaged record: what the annotation names gets its DEL, the file is renamed, the pod can be deleted", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("both-damaged", { networks: "alpha" });
  await pod.mustAdd();
  await damage(pod.recordPath);
  await plugins.clear();
  await pod.mustDel();
  expect(await plugins.order()).toEqual(detachOrder("alpha"));
  expect(existsSync(pod.recordPath)).toBe(false);
  expect(node.log).toContain("were renamed");
  await pod.mustAdd();
  await pod.mustDel();
});

/** Turns one letter of a file, wherever it stands. */
async function damage(path: string): Promise<void> {
  const text = await readFile(path, "latin1");
  await writeFile(path, text.replaceAll("net-alpha", "Met-alpha"), "latin1");
}
