import { expect, test } from "vitest";
import { readCall } from "#engine/ports/call.ts";
import { EngineLab } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { attachedTo, gone, web } from "#engine/testing/pod-lab.ts";
import type { JsonObject } from "#lib/json.ts";

/* A primary CNI that is upgraded in place, and refuses the configuration of its earlier release. */

const ipam = { type: "host-local", subnet: "10.0.0.0/24" };
const before = { type: "ptp", mtu: "9001", ipam };
const now = { ...before, mtu: 9001 };

function list(plugin: JsonObject, more: JsonObject = {}): JsonObject {
  return { cniVersion: "0.3.1", name: "default-net", plugins: [plugin], ...more };
}

/** A pod that was attached before the upgrade, with a further delegate. */
async function attached(further: JsonObject = { type: "bridge" }): Promise<EngineLab> {
  const back = { ...list(further), name: "back" };
  const lab = new EngineLab({ conf: { delegates: [list(before), back] } });
  lab.source.addPod({ name: "web" });
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  lab.plugins.calls.length = 0;
  for (const type of ["ptp", "bridge"])
    lab.plugins.script(`${type} DEL`, ({ conf }) =>
      conf.mtu === 9001 || conf.cniVersion === "1.0.0"
        ? undefined
        : failed(999, "cannot unmarshal"),
    );
  return lab;
}

/** What the runtime passes now. */
function delegates(...lists: JsonObject[]) {
  return { ...web, conf: { delegates: lists } };
}

test("a DEL that fails with the recorded configuration is repeated with the one of now", async () => {
  const lab = await attached();
  const [first, back] = [list(now), { ...list({ type: "bridge", mtu: 9001 }), name: "back" }];
  expect(await lab.del(delegates(first, back))).toMatchObject({ exitCode: 0 });
  const log = ["bridge DEL net1", "bridge DEL net1", "ptp DEL eth0", "ptp DEL eth0"];
  expect(lab.plugins.log()).toEqual(log);
  const [recorded, repeated] = lab.plugins.of("ptp", "DEL");
  expect(repeated?.env).toEqual(recorded?.env);
  expect(lab.records.keys).toEqual([]);
});

test("a plugin's failed DEL is not repeated as that of another plugin of its type", async () => {
  const plugins = ["a", "b"].map((role) => ({ type: "multi", role }));
  const lab = new EngineLab({ conf: { delegates: [list(before, { plugins })] } });
  lab.source.addPod({ name: "web" });
  await lab.add(web);
  lab.plugins.script("multi DEL", ({ conf }) =>
    conf.role === "b" ? failed(999, "busy") : undefined,
  );
  for (const now of [plugins, plugins.slice(0, 1)])
    expect(await lab.del(delegates(list(before, { plugins: now })))).toMatchObject({ exitCode: 1 });
});

test("an address that a plugin keeps without a namespace is released, also with the configuration of now", async () => {
  const device = { type: "host-device", mtu: "9001", ipam };
  const lab = await attachedTo(list(device));
  lab.plugins.script("host-device DEL", ({ conf }) =>
    conf.mtu === 9001 ? undefined : failed(999, "cannot unmarshal"),
  );
  const conf = { delegates: [list({ ...device, mtu: 9001 })] };
  expect(await lab.del({ ...gone, conf })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("DEL").slice(1)).toEqual(["host-device DEL eth0", "host-local DEL eth0"]);
});

test("the agent, which no runtime calls, takes the configuration of the node", async () => {
  const lab = await attached({ type: "tuning" });
  expect(await lab.del(web)).toMatchObject({ exitCode: 1 });
  await lab.engine.keepDefaultPlan({ ...lab.conf, delegates: [list(now)] });
  const agent = readCall({ env: { CNI_COMMAND: "AGENT" }, stdin: "" });
  expect(await lab.engine.retryAllLeftovers(agent, lab.host())).toMatchObject([
    { remainsBecause: undefined },
  ]);
});

test("the repeated DEL gets the result of the ADD in the version of now", async () => {
  const lab = await attached({ type: "tuning" });
  const upgraded = list(before, { cniVersion: "1.0.0" });
  expect(await lab.del(delegates(upgraded))).toMatchObject({ exitCode: 0 });
  const [recorded, repeated] = lab.plugins.of("ptp", "DEL");
  expect(recorded?.conf).not.toHaveProperty("prevResult");
  expect(repeated?.conf).toMatchObject({
    cniVersion: "1.0.0",
    prevResult: { cniVersion: "1.0.0", ips: [{ address: "10.0.0.1/24" }] },
  });
});

const otherIpam = { ...ipam, subnet: "10.9.0.0/24" };

test.each<[string, JsonObject | undefined]>([
  ["of another name", list(now, { name: "other" })],
  ["with another plugin", list({ ...now, type: "bridge" })],
  ["with another IPAM", list({ ...now, ipam: otherIpam })],
  ["with another IPAM in another case", list({ ...now, IPAM: otherIpam })],
  ["as it is recorded", list(before)],
  ["that has the plugin twice", list(now, { plugins: [now, { ...now, mtu: 1500 }] })],
  ["that cannot be used", { cniVersion: "1.0.0", name: "default-net", plugins: [{}] }],
])("a failed DEL is not repeated with a network %s", async (_, changed) => {
  const lab = await attached({ type: "tuning" });
  expect(await lab.del(delegates(changed as JsonObject))).toMatchObject({ exitCode: 1 });
  expect(lab.plugins.of("ptp", "DEL")).toHaveLength(1);
  expect(lab.records.keys).toEqual(["c1@eth0"]);
});

test("the configuration of now is not asked of the API server", async () => {
  const lab = await attached({ type: "tuning" });
  lab.source.asked.length = 0;
  const conf = { clusterNetwork: "main", delegates: [] };
  expect(await lab.del({ ...web, conf })).toMatchObject({ exitCode: 1 });
  expect(lab.source.asked).toEqual([]);
});

test("a network that the pod requests keeps its recorded configuration", async () => {
  const lab = await attached({ type: "tuning" });
  const requested = { isDefault: false, selection: { name: "default-net" } };
  lab.records.changeAttachments(({ isDefault }) => (isDefault ? requested : {}));
  expect(await lab.del(delegates(list(now)))).toMatchObject({ exitCode: 1 });
  expect(lab.plugins.of("ptp", "DEL")).toHaveLength(1);
});
