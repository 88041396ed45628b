import { expect, test } from "vitest";
import type { DelegateOutcome } from "#cni/runtime/delegate.ts";
import { EngineLab, expectError, netns, network, sandbox } from "#engine/testing/engine-lab.ts";
import { ended, failed } from "#engine/testing/fake-plugins.ts";
import { attachedPod, attachedTo, gone, missing, web, withIpam } from "#engine/testing/pod-lab.ts";
import type { JsonObject } from "#lib/json.ts";

/** Without a grace period, an attachment with a missing plugin can be given up at the first DEL. */
const config = { delGraceMs: 0 };

const refused = { outcome: "refused", message: "/opt is not in plugin-dirs" } as const;

/** A sandbox that is attached to one network of these plugins; those named after it are removed then. */
async function attached(conf: JsonObject, ...removed: string[]): Promise<EngineLab> {
  const lab = await attachedTo(conf, { config });
  for (const type of removed) lab.plugins.setLookup(type, missing);
  return lab;
}

test("del() runs the other plugins of a chain if one is missing", async () => {
  const lab = await attached(network("default-net", "ptp", "hidden", "sbr"), "hidden");
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["sbr DEL eth0", "hidden DEL eth0", "ptp DEL eth0"]);
  expect(lab.records.keys).toEqual([]);
  expect(lab.logger.at("warn")).toEqual([
    'network default-net (eth0): failed to find plugin "hidden" in path [/opt/cni/bin]: the attachment counts as detached, because its interface is gone',
  ]);
});

test("del() with a missing plugin fails while the interface exists, and names plugin and directories", async () => {
  const lab = await attached(network("default-net", "ptp", "tuning"), "ptp");
  const { json } = await lab.del();
  expectError({ json }, 999, /"ptp".*\/opt\/cni\/bin.*eth0/);
  expect(json.msg).not.toMatch(/not found|no such file or directory/i);
  const { teardown } = (await lab.records.list()).records[0] ?? {};
  expect(teardown).toMatchObject({ lastError: json.msg, reason: "PluginMissing" });
  lab.kernel.removeLink(netns, "eth0");
  lab.kernel.refuse = () => 1;
  expect(await lab.del(), "the kernel does not answer").toMatchObject({ exitCode: 1 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

test("del() emits an event on the pod that names the missing plugin", async () => {
  const lab = new EngineLab({ config });
  lab.source.addPod({ name: "web" });
  await lab.add({ pod: "default/web" });
  lab.plugins.setLookup("ptp", missing);
  lab.kernel.removeLink(netns, "eth0");
  expect(await lab.del({ pod: "default/web" })).toMatchObject({ exitCode: 0 });
  expect(lab.events.recorded.at(-1)).toEqual({
    pod: "default/web",
    type: "Warning",
    reason: "PluginMissing",
    message: expect.stringMatching(
      /default-net \(eth0\): failed to find plugin "ptp" in path \[\/opt\/cni\/bin\]/,
    ),
  });
});

test("del() with a missing plugin runs its IPAM plugin with the same input to release the address", async () => {
  const lab = await attached(withIpam("bridge"), "bridge");
  lab.kernel.removeLink(netns, "eth0");
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  const [bridge, ipam] = lab.plugins.calls;
  expect(lab.plugins.log()).toEqual(["bridge DEL eth0", "host-local DEL eth0"]);
  expect(ipam).toMatchObject({ env: bridge?.env, stdin: bridge?.stdin });
});

/** What plugins say whose IPAM plugin is missing: libcni's words. */
const lacksIpam = failed(999, 'failed to find plugin "host-local" in path [/opt/cni/bin]');

test("del() succeeds if a plugin fails because its IPAM plugin is missing, and the interface is gone", async () => {
  const lab = await attached(withIpam("bridge", "sbr"), "host-local");
  lab.plugins.script("bridge DEL", lacksIpam);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["sbr DEL eth0", "bridge DEL eth0", "host-local DEL eth0"]);
  expect(lab.logger.at("warn")).toEqual([
    'network default-net (eth0): failed to find plugin "host-local" in path [/opt/cni/bin]: the attachment counts as detached, because its interface is gone',
  ]);
});

interface StillFailing {
  readonly reason: string;
  readonly outcome?: DelegateOutcome;
  readonly conf?: JsonObject;
  readonly installed?: boolean;
  readonly options?: object;
}

test.each<StillFailing>([
  { reason: "the IPAM plugin exists", installed: true },
  { reason: "it does not say that it lacks its IPAM plugin, as where that is built in" },
  { reason: "the interface exists", outcome: lacksIpam, options: {} },
  { reason: "the plugin has no IPAM plugin", conf: network("default-net", "bridge") },
])("del() of a failing plugin remains an error if $reason", async (scene) => {
  const { outcome = failed(5, "busy"), conf = withIpam("bridge"), options = gone } = scene;
  const lab = await attached(conf, ...(scene.installed === true ? [] : ["host-local"]));
  lab.plugins.script("bridge DEL", outcome);
  expect(await lab.del(options)).toMatchObject({ exitCode: 1 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("del() with a refused plugin fails even if the interface is gone, as the plugin can still be allowed", async () => {
  const lab = await attached(network("default-net", "ptp"));
  lab.plugins.setLookup("ptp", refused);
  expect((await lab.del(gone)).json).toMatchObject({ msg: expect.stringContaining("/opt is not") });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test.each([
  { type: "ptp", conf: network("default-net", "ptp") },
  { type: "host-local", conf: withIpam("bridge") },
])("del() counts $type as missing in a directory that is not trusted", async (scene) => {
  const lab = await attached(scene.conf);
  lab.config = { delGraceMs: 60_000 };
  lab.plugins.script("bridge DEL", lacksIpam);
  lab.plugins.setLookup(scene.type, (path) => (path.includes("/opt/cni/bin") ? refused : missing));
  const moved = { env: { ...gone.env, CNI_PATH: "/new" } };
  expect((await lab.del(moved)).json.msg).toMatch(/gives it up 60 s/);
  lab.advance(61_000);
  expect(await lab.del(moved)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

const yearMs = 365 * 86_400_000;

test.each([
  { type: "portmap", conf: network("default-net", "ptp", "portmap"), stepMs: 0 },
  { type: "portmap", conf: network("default-net", "ptp", "portmap"), stepMs: yearMs },
  { type: "portmap", conf: network("default-net", "ptp", "portmap"), stepMs: -yearMs },
  { type: "host-local", conf: withIpam("bridge"), stepMs: 0 },
])("del() waits for a missing $type while the clock is set by $stepMs ms", async (scene) => {
  const lab = await attached(scene.conf, scene.type);
  lab.config = { delGraceMs: 60_000 };
  lab.plugins.script("bridge DEL", lacksIpam);
  expect((await lab.del(gone)).json.msg).toMatch(/gives it up 60 s/);
  lab.advance(50_000);
  lab.stepClock(scene.stepMs);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 1 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  lab.advance(10_000);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

test("del() starts the grace period when the plugin is missing, not when another DEL failed", async () => {
  const lab = await attached(network("default-net", "ptp", "portmap", "tuning"));
  lab.config = { delGraceMs: 60_000 };
  lab.plugins.script("tuning DEL", failed(5, "busy"));
  expect(await lab.del(gone)).toMatchObject({ exitCode: 1 });
  lab.plugins.unscript("tuning DEL");
  lab.advance(70_000);
  lab.plugins.setLookup("portmap", missing);
  expect((await lab.del(gone)).json.msg).toMatch(/gives it up 60 s/);
  lab.advance(60_000);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
});

const found = { outcome: "found" } as const;

test("del() restarts the grace period when a DEL finds more than a missing plugin", async () => {
  const lab = await attached(network("default-net", "ptp"), "ptp");
  lab.config = { delGraceMs: 60_000 };
  expect((await lab.del(gone)).json.msg).toMatch(/gives it up 60 s/);
  lab.plugins.setLookup("ptp", found);
  lab.plugins.script("ptp DEL", failed(11, "starting"));
  lab.advance(70_000);
  expect((await lab.del(gone)).json.msg).toMatch(/starting/);
  lab.plugins.setLookup("ptp", missing);
  expect((await lab.del(gone)).json.msg).toMatch(/gives it up 60 s/);
  lab.advance(60_000);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
});

test("del() restarts no grace period if there was no time to execute anything", async () => {
  const lab = await attachedPod("a");
  const del = () => lab.del({ ...web, ...gone });
  lab.plugins.setLookup("ptp", missing);
  lab.plugins.script("bridge DEL", failed(11, "starting"));
  lab.config = { delGraceMs: 120_000 };
  expect((await del()).json.msg).toMatch(/gives it up 120 s/);
  lab.plugins.script("bridge DEL", () => {
    lab.advance(60_000);
    return ended("timeout");
  });
  expect((await del()).json.msg).toMatch(/was not executed/);
  lab.plugins.unscript("bridge DEL");
  lab.advance(60_000);
  expect(await del()).toMatchObject({ exitCode: 0 });
});

test("each network of a sandbox has its own grace period", async () => {
  const lab = await attachedPod("a");
  lab.config = { delGraceMs: 60_000 };
  const del = () => lab.del({ ...web, ...gone });
  lab.plugins.setLookup("bridge", missing);
  lab.plugins.script("ptp DEL", failed(11, "starting"));
  await del();
  lab.advance(60_000);
  expect((await del()).json.msg).toMatch(/starting/);
  lab.plugins.setLookup("ptp", missing);
  expect((await del()).json.msg).toMatch(/gives it up 60 s/);
  lab.advance(60_000);
  expect(await del()).toMatchObject({ exitCode: 0 });
});

test.each([2, 8, 13, 80])("del() counts a plugin as missing with errno %d", async (code) => {
  const lab = await attached(withIpam("bridge", "tuning"));
  lab.config = { delGraceMs: 60_000 };
  lab.plugins.script("bridge DEL", { ...ended("failed"), code });
  expect((await lab.del(gone)).json).toMatchObject({
    msg: expect.stringMatching(/gives it up 60 s/),
    details: expect.stringContaining("PluginNotExecutable"),
  });
  lab.advance(60_000);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log().at(-1)).toBe("host-local DEL eth0");
});

test.each([28, 5])("del() waits while the shim cannot note a plugin: errno %d", async (code) => {
  const lab = await attached(withIpam("bridge"));
  lab.plugins.script("bridge DEL", { ...ended("failed"), code });
  expect(await lab.del(gone)).toMatchObject({ exitCode: 1 });
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("del() by the teardown plan runs the IPAM plugin of a missing plugin, too", async () => {
  const lab = await attached(withIpam("bridge", "tuning"), "bridge");
  lab.records.damage(sandbox, "record");
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["tuning DEL eth0", "bridge DEL eth0", "host-local DEL eth0"]);
  expect(lab.records.keys).toEqual([]);
});

test("del() without record and plan succeeds if the default network's plugin is missing", async () => {
  const lab = new EngineLab();
  lab.plugins.setLookup("ptp", missing);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
});
