import { expect, test } from "vitest";
import { type EngineLab, expectError, netns, sandbox } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { attachedTo, gone, missing } from "#engine/testing/pod-lab.ts";

/** A sandbox that is attached to one network of this plugin. */
function attached(type: string, ipam = "host-local"): Promise<EngineLab> {
  const plugins = [{ type, ipam: { type: ipam } }, { type: "tuning" }];
  return attachedTo({ cniVersion: "1.0.0", name: "default-net", plugins });
}

test.each(["host-device", "ib-sriov", "accelerated-bridge"])(
  "del() without a namespace executes the IPAM plugin that %s skips, with the same input",
  async (type) => {
    const lab = await attached(type);
    expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
    const [, device, ipam] = lab.plugins.calls;
    const ownCalls = ["tuning DEL eth0", `${type} DEL eth0`];
    expect(lab.plugins.log()).toEqual([...ownCalls, "host-local DEL eth0"]);
    expect(ipam).toMatchObject({ env: device?.env, stdin: device?.stdin });
    expect(ipam?.env.CNI_NETNS).toBe("");
  },
);

test("del() executes the IPAM plugin of a network that writes IPAM, as plugins in Go read it", async () => {
  const plugins = [{ type: "host-device", IPAM: { Type: "host-local" } }];
  const lab = await attachedTo({ cniVersion: "1.0.0", name: "default-net", plugins });
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["host-device DEL eth0", "host-local DEL eth0"]);
});

test.each([
  ["bridge", "host-local", gone],
  ["host-device", "host-local", {}],
  ["vendor", "host-local", gone],
])("del() runs no IPAM plugin after %s with %s and options %j", async (type, ipam, options) => {
  const lab = await attached(type, ipam);
  expect(await lab.del(options)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["tuning DEL eth0", `${type} DEL eth0`]);
});

test("del() repeats host-device without a namespace if its interface is gone, and releases the address", async () => {
  const lab = await attached("host-device");
  lab.kernel.removeLink(netns, "eth0");
  const noLink = failed(5, "no such interface");
  lab.plugins.script("host-device DEL", (call) => (call.netns === "" ? undefined : noLink));
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  const device = ["host-device DEL eth0", "host-device DEL eth0"];
  expect(lab.plugins.log()).toEqual(["tuning DEL eth0", ...device, "host-local DEL eth0"]);
});

test("del() fails if it cannot release the address, and succeeds when retried", async () => {
  const lab = await attached("host-device");
  lab.config = { delGraceMs: 0 };
  lab.plugins.script("host-local DEL", failed(11, "store is locked"));
  expectError(await lab.del(gone), 11, 'plugin type="host-local" failed (delete): store is locked');
  expect(lab.records.keys).toEqual(["c1@eth0"]);
  lab.plugins.unscript("host-local DEL");
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(lab.records.keys).toEqual([]);
});

test("del() waits for a missing IPAM plugin until the grace period is over", async () => {
  const lab = await attached("host-device");
  lab.config = { delGraceMs: 60_000 };
  lab.plugins.setLookup("host-local", missing);
  expect((await lab.del(gone)).json.msg).toMatch(/host-local.*gives it up 60 s/);
  lab.advance(60_000);
  expect(await lab.del(gone)).toMatchObject({ exitCode: 0 });
  expect(lab.logger.at("warn").at(-1)).toMatch(/failed to find plugin "host-local"/);
});

test("del() executes the rest of a chain without a namespace once that is gone", async () => {
  const lab = await attached("bridge");
  lab.plugins.script("tuning DEL", (call) => {
    if (call.netns === "") return undefined;
    lab.kernel.removeNamespace(netns);
    return failed(5, "no such namespace");
  });
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.calls.map((call) => call.netns)).toEqual([netns, "", ""]);
});

test("the teardown plan runs the IPAM plugin's DEL after host-device's, even with a namespace", async () => {
  const lab = await attached("host-device");
  const planned = lab.records.writes.at(-1)?.plan.steps.map(({ call }) => call.type);
  expect(planned).toEqual(["tuning", "host-device", "host-local"]);
  lab.records.damage(sandbox, "record");
  expect(await lab.del()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(planned?.map((type) => `${type} DEL eth0`));
});
