import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { expect } from "vitest";
import { errorOf } from "../../support/node/cni-call.ts";
import { errorScript } from "../../support/node/scripted-plugins.ts";
import { detachOrder, scriptedTest as test } from "../../support/node/test.ts";

test("a failing DEL stops neither the other networks nor hides: error without containerd's words for success, record and a second DEL [S-606] [N-7.2b] [N-7.2c]", async ({
  node,
  plugins,
}) => {
  const pod = await node.pod("one-fails", { networks: "alpha,beta" });
  await pod.mustAdd();
  // The interface that a plugin with a failing DEL leaves.
  await pod.addLink("net1");
  await plugins.clear();
  await plugins.script("alpha", "DEL", errorScript(77, "the switch is Not Found"));
  const error = errorOf(await pod.del());
  expect(error.code).toBe(77);
  expect(error.msg).toContain('plugin type="alpha" failed (delete): the switch is absent');
  expect(await plugins.order()).toEqual(detachOrder("alpha", "beta"));
  expect(existsSync(pod.recordPath)).toBe(true);
  await plugins.unscript("alpha", "DEL");
  await pod.mustDel();
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
