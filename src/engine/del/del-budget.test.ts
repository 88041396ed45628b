import { expect, test } from "vitest";
import type { DelegateCall, DelegateOutcome } from "#cni/runtime/delegate.ts";
import { type EngineLab, expectError, netns, sandbox } from "#engine/testing/engine-lab.ts";
import { ended } from "#engine/testing/fake-plugins.ts";
import { attachedPod, web } from "#engine/testing/pod-lab.ts";

/** A pod with ptp on eth0, bridge on net1 and macvlan on net2; a DEL has 50 s. */
const attached = (): Promise<EngineLab> => attachedPod("a,b");

/** A plugin that is killed when its time is over. */
function hanging(lab: EngineLab): (call: DelegateCall) => DelegateOutcome {
  return ({ timeoutMs }) => {
    lab.advance(timeoutMs);
    return ended("timeout");
  };
}

/** How long each plugin was given, in seconds. */
function seconds(lab: EngineLab): string[] {
  return lab.plugins.calls.map(({ type, timeoutMs }) => `${type} ${Math.round(timeoutMs / 1000)}`);
}

test.each([
  { hang: ["macvlan"], given: ["macvlan 17", "bridge 17", "ptp 33"] },
  { hang: ["macvlan", "bridge", "ptp"], given: ["macvlan 17", "bridge 17", "ptp 17"] },
  { hang: ["macvlan"], isDamaged: true, given: ["macvlan 17", "bridge 17", "ptp 33"] },
])("del() shares time between networks: $hang hang, damaged: $isDamaged", async (scene) => {
  const lab = await attached();
  if (scene.isDamaged === true) lab.records.damage(sandbox, "record");
  for (const type of scene.hang) lab.plugins.script(`${type} DEL`, hanging(lab));
  expect((await lab.del(web)).json).toMatchObject({
    code: scene.hang.length === 1 ? 999 : 102,
    msg: expect.stringContaining("timed out"),
  });
  expect(seconds(lab)).toEqual(scene.given);
});

test("del() never gives a delegate more than delegateTimeoutMs", async () => {
  const lab = await attached();
  lab.config = { delegateTimeoutMs: 2000 };
  await lab.del(web);
  expect(seconds(lab)).toEqual(["macvlan 2", "bridge 2", "ptp 2"]);
});

test("del() executes no further plugin of a chain that has used up its time", async () => {
  const lab = await attached();
  lab.plugins.script("macvlan DEL", ({ netns: path }) => {
    if (path === "") return undefined;
    lab.advance(30_000);
    lab.kernel.removeNamespace(netns);
    return ended("failed", "cannot be executed");
  });
  expectError(await lab.del(web), 11, 'plugin "macvlan" was not executed');
  expect(lab.plugins.log()).toEqual(["macvlan DEL net2", "bridge DEL net1", "ptp DEL eth0"]);
});

test("del() does not repeat a plugin that timed out, even if its namespace is gone", async () => {
  const lab = await attached();
  lab.plugins.script("macvlan DEL", () => {
    lab.kernel.removeNamespace(netns);
    return ended("timeout");
  });
  expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
  expect(lab.plugins.of("macvlan", "DEL")).toHaveLength(1);
});
