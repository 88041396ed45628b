import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { type HotPlugLab, hotPlugLab } from "#engine/hotplug/testing/hot-plug-lab.ts";
import { SandboxUnavailableError } from "#engine/ports/sandbox-hosts.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { verdictOfCondition } from "#lib/condition.ts";
import { conditionOf } from "./conditions.ts";

/** `reason (verdict): message` of everything that is found about the pod. */
function found({ lab }: HotPlugLab): string[] {
  return lab.engine.findings.of({ namespace: "default", name: "web" }).map((each) => {
    return `${each.reason} (${verdictOfCondition(each)}): ${each.message}`;
  });
}

test("what an attempt has found ends with the next one, unless another operation delays that", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.plugins.script("macvlan ADD", failed(7, "no such VLAN"));
  await pod.edit("a,b,typo");
  expect(found(pod)).toEqual([
    expect.stringMatching(/^InterfaceAddRejected .problem.: network default\/typo: /),
  ]);
  await pod.edit("a,b");
  const stated = [
    expect.stringMatching(
      /^FailedAddingInterface .problem.: .*default\/b \(net2\): .*no such VLAN/,
    ),
  ];
  expect(found(pod)).toEqual(stated);
  pod.hosts.refusal = new SandboxUnavailableError("busy", "another operation runs");
  await pod.again();
  expect(found(pod)).toEqual(stated);
  pod.hosts.refusal = undefined;
  await pod.edit("a");
  expect(found(pod)).toEqual([]);
});

test("a network that stays although it is not requested is a warning", async () => {
  const pod = await hotPlugLab("a,b");
  pod.lab.plugins.script("macvlan DEL", failed(7, "busy"));
  await pod.edit("a");
  expect(found(pod)).toEqual([expect.stringMatching(/^FailedRemovingInterface .warning.: .*busy/)]);
});

test.each([
  [
    "a@x1",
    "b@x1",
    /^FailedAddingInterface .problem.: network default\/b \(x1\): .*default\/a \(x1\).*busy/,
  ],
  [
    "a@x1",
    '[{"name":"a","interface":"x1","cni-args":{"n":1}}]',
    /^FailedAddingInterface .problem.: network default\/a \(x1\): .*busy/,
  ],
])("a network lacks because another one stays: from %s to %s", async (from, to, text) => {
  const pod = await hotPlugLab(from);
  pod.lab.plugins.script("bridge DEL", failed(7, "busy"));
  for (const attempt of [pod.edit(to), pod.again()]) await attempt;
  expect(found(pod)).toContainEqual(expect.stringMatching(text));
});

test("a refresh that fails says nothing of a pod that has all its networks", async () => {
  const pod = await hotPlugLab("a");
  pod.lab.source.removeNad("default/a");
  expect(await pod.again("net1")).toMatchObject({ problems: [{ network: "default/a" }] });
  expect(found(pod).filter((text) => !text.includes("FailedAdding"))).toEqual([]);
});

test.each([
  ["ends by itself", new CniError("TryAgainLater", "no answer"), true],
  ["does not", new CniError("InvalidRequest", "no"), undefined],
])("an error that %s needs no event: %#", (_, error, isQuiet) => {
  expect(conditionOf({ error, network: "default/a" }).isQuiet || undefined).toBe(isQuiet);
});
