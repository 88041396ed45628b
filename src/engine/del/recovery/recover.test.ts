import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { EngineLab, expectError, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { ended, failed } from "#engine/testing/fake-plugins.ts";
import { attachedPod, attachedTo, missing, web, withIpam } from "#engine/testing/pod-lab.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** A pod that is attached to ptp on eth0 and to bridge and tuning on net1. */
const attached = (): Promise<EngineLab> => attachedPod("a", { a: ["bridge", "tuning"] });

const ok = { exitCode: 0 };
const everything = ["tuning DEL net1", "bridge DEL net1", "ptp DEL eth0"];

test("del() with a damaged record detaches everything by the teardown plan", async () => {
  const lab = await attached();
  lab.records.damage(sandbox, "record");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(everything);
  expect(lab.plugins.calls.map((call) => call.conf.prevResult)).not.toContain(undefined);
  expect(lab.records.keys).toEqual([]);
  expect(lab.records.quarantined).toEqual([]);
  expect(lab.logger.at("warn")).toEqual(["no usable record: detached by the teardown plan"]);
  expect(lab.publisher.withdrawn).toEqual(["default/web"]);
});

test("del() by the teardown plan skips the rest of a chain after a failure, and keeps the plan for a retry", async () => {
  const lab = await attached();
  lab.records.damage(sandbox, "record");
  lab.plugins.script("tuning DEL", failed(117, "busy"));
  expectError(await lab.del(web), 117, "busy");
  expect(lab.plugins.log()).toEqual(["tuning DEL net1", "ptp DEL eth0"]);
  lab.plugins.unscript("tuning DEL");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

test("del() by the teardown plan uses the namespace of the call, or none if that is gone", async () => {
  const lab = await attached();
  lab.records.damage(sandbox, "record");
  lab.kernel.removeNamespace(netns);
  await lab.del(web);
  expect(lab.plugins.calls.map((call) => call.netns)).toEqual(["", "", ""]);
});

test("del() by the teardown plan accepts that an IPAM plugin is missing if the interface is gone", async () => {
  const lab = await attachedTo(withIpam("bridge"));
  lab.records.damage(sandbox, "record");
  lab.kernel.removeLink(netns, "eth0");
  lab.plugins.script(
    "bridge DEL",
    failed(999, 'failed to find plugin "host-local" in path [/opt/cni/bin]'),
  );
  lab.plugins.setLookup("host-local", missing);
  expect(await lab.del()).toMatchObject(ok);
  expect(lab.records.keys).toEqual([]);
});

test("del() by the teardown plan keeps both files if the shim disconnects", async () => {
  const lab = await attached();
  lab.records.damage(sandbox, "record");
  const host = lab.host();
  host.goesAt = 2;
  await expect(lab.del({ ...web, host })).rejects.toThrow("the shim has gone");
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("del() renames a file without record and plan, logs it, and without a pod runs only the default network", async () => {
  const lab = await attached();
  lab.records.damage(sandbox, "both");
  lab.source.removePod("default/web");
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp DEL eth0"]);
  expect(lab.records.quarantined).toEqual(["c1@eth0"]);
  const logged = lab.logger.lines.find((line) => line.level === "error")!;
  expect(logged.message).toMatch(/were renamed.*may keep addresses/);
  expect(logged.fields).toMatchObject({ err: { code: 6 } });
  expect(await lab.del(web)).toMatchObject({ exitCode: 0 });
});

test.for<[string, "info" | "debug", (lab: EngineLab) => unknown, object?]>([
  ["by the plan of a damaged record", "info", ({ records }) => records.damage(sandbox, "record")],
  ["with a record and plan that are damaged", "info", ({ records }) => records.cutOff(sandbox)],
  ["of which the runtime has a result", "info", ({ records }) => records.lose(sandbox), {}],
  ["that is unknown", "debug", ({ records }) => records.lose(sandbox)],
  ["that is detached", "debug", ({ records }) => records.remove(sandbox)],
])("the DEL of a sandbox %s is logged as %s", async ([, level, change, result]) => {
  const lab = await attached();
  await change(lab);
  const prevResult = result && { cniVersion: "1.0.0", ...result };
  await lab.del({ ...web, conf: omitUndefined({ prevResult }) });
  expect(lab.logger.at(level)).toContain("DEL done");
});

test.each(["still", "no longer"])("del() fails with a %s unreadable record", async (now) => {
  const lab = await attached();
  const error = new CniError("IoFailure", "cannot read it: EMFILE");
  lab.records.failLoad = error;
  if (now === "still") {
    const { records } = await lab.records.list();
    const unreadable = { isIncomplete: false, isUnreadable: true, modifiedMs: 0 };
    const damaged = records.map(({ containerId, ifName }) => ({
      ...{ containerId, ifName, error, plan: undefined, ...unreadable },
      mayContain: () => true,
    }));
    lab.records.list = async () => ({ records: [], damaged });
  }
  expect((await lab.del(web)).json).toMatchObject({ code: 5 });
  expect(lab.records.quarantined).toEqual([]);
  expect(lab.plugins.log()).toEqual([]);
});

test.each(["add", "check"] as const)("%s() of a damaged record is refused", async (command) => {
  const lab = await attached();
  lab.records.damage(sandbox, "both");
  expectError(await lab[command](web), 6, "attachment record c1@eth0 is unusable");
  expect(lab.plugins.log()).toEqual([]);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  await lab.del(web);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
});

test.each([
  ["was detached before", true, 0],
  ["is unknown", false, 1],
])("a DEL of what %s (tombstone: %j) exits with %i", async (_, detachedBefore, exitCode) => {
  const lab = new EngineLab({ conf: { clusterNetwork: "main" } });
  lab.source.addNad("kube-system/main", network("main", "ptp"));
  if (detachedBefore) {
    await lab.add();
    expect(await lab.del()).toMatchObject({ exitCode: 0 });
  }
  lab.source.failure = new CniError("TryAgainLater", "API server away");
  expect(await lab.del()).toMatchObject({ exitCode });
});

test.each([
  ["a refusal", failed(7, "bandwidth: burst must be set with rate"), "burst"],
  ["a timeout", ended("timeout"), "timed out"],
])("del() of an unknown sandbox fails, to be retried, after %s", async (_, outcome, message) => {
  const lab = new EngineLab();
  lab.plugins.script("ptp DEL", outcome);
  const { exitCode, json } = await lab.del();
  expect(exitCode).toBe(1);
  expect(json.msg).toContain(message);
});
