import { expect, test } from "vitest";
import { EngineLab, expectError, network } from "#engine/testing/engine-lab.ts";
import { exited, interfaceResult } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

/* Multus' key `auxiliaryCNIChainName` (multus.md §1.1). */

const web = { pod: "default/web" };
const primary = "/etc/cni/net.d/10-main.conflist";

/** A node whose primary network is a file, and a pod that asks for network `a`. */
function labWith(files: Record<string, JsonObject | string>, conf: JsonObject = {}): EngineLab {
  const lab = new EngineLab({
    conf: { clusterNetwork: primary, auxiliaryCNIChainName: "vendor", ...conf },
  });
  lab.files.write(primary, network("main", "ptp"));
  for (const [name, content] of Object.entries(files))
    lab.files.write(`/etc/cni/net.d/vendor/${name}`, content);
  lab.source.addNad("default/a", network("net-a", "bridge"));
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "a" } });
  return lab;
}

const chain = { "20-b.conf": { type: "sidecar" }, "10-a.conf": { name: "x", type: "tuning" } };

test("the chain does not make a pod one with further networks, for which clusterRoutes are kept", async () => {
  const lab = labWith(chain);
  lab.config = { ...lab.config, clusterRoutes: ["10.0.0.0/16"] };
  lab.source.addPod({ name: "plain" });
  expect(await lab.add({ pod: "default/plain" })).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("ADD")).toContain("sidecar ADD net1");
  expect(lab.source.asked).not.toContain("cluster ranges");
});

test("the files of the auxiliary directory form a last network, whose first plugin gets an empty result", async () => {
  const lab = labWith(chain);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("ADD")).toEqual([
    "ptp ADD eth0",
    "bridge ADD net1",
    "tuning ADD net2",
    "sidecar ADD net2",
  ]);
  const [first] = lab.plugins.of("tuning", "ADD");
  expect(first?.conf).toEqual({
    type: "tuning",
    name: "vendor",
    cniVersion: "1.0.0",
    prevResult: { cniVersion: "1.0.0" },
  });
  expect(lab.publisher.status("default/web")).toMatchObject([
    { name: "main" },
    { name: "default/a" },
  ]);
  expect(lab.publisher.status("default/web")).toHaveLength(2);
  expect(lab.events.reasons).toEqual(["AddedInterface"]);
  expect(lab.events.recorded[0]?.message).not.toContain("vendor");
  expect(await lab.check(web)).toMatchObject({ exitCode: 0 });
  await lab.del(web);
  expect(lab.plugins.log("DEL")).toEqual([
    "sidecar DEL net2",
    "tuning DEL net2",
    "bridge DEL net1",
    "ptp DEL eth0",
  ]);
});

test("status and event show what the auxiliary network makes, and every other network, even an empty one", async () => {
  const lab = labWith(chain);
  lab.plugins.script("bridge ADD", exited(0, { cniVersion: "1.0.0" }));
  lab.plugins.script("tuning ADD", (call) => exited(0, interfaceResult(call, "10.1.1.9/24")));
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  const status = lab.publisher.status("default/web");
  expect(status.map(({ name }) => name)).toEqual(["main", "default/a", "vendor"]);
  const shown = "net1 [] from default/a, net2 [10.1.1.9/24] from vendor";
  expect(lab.events.recorded[0]?.message).toContain(shown);
});

test.each([
  ["without a directory", {}, 0],
  ["without .conf files", { "10-a.conflist": network("x", "tuning") }, 0],
  ["with a broken file, which is logged", { ...chain, "30-c.conf": "{" }, 1],
])("there is no auxiliary network %s", async (_, files, warnings) => {
  const lab = labWith(files);
  expect(await lab.add(web)).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("ADD")).toEqual(["ptp ADD eth0", "bridge ADD net1"]);
  expect(lab.logger.at("warn")).toHaveLength(warnings);
});

test("the auxiliary network also attaches sandboxes without a pod, and its failure fails the ADD", async () => {
  const lab = labWith(chain);
  expect(await lab.add()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log("ADD")).toEqual(["ptp ADD eth0", "tuning ADD net1", "sidecar ADD net1"]);
  await lab.del();
  lab.plugins.setLookup("sidecar", { outcome: "missing", message: "" });
  expect((await lab.add()).json).toMatchObject({
    msg: expect.stringMatching(/network vendor: .*"sidecar"/),
  });
});

test("an auxiliary network with a meta-plugin fails the ADD", async () => {
  const lab = labWith({ "10-a.conf": { name: "x", type: "multus" } });
  expectError(await lab.add(web), 7, '"multus" is a meta-plugin');
  expect(lab.plugins.calls).toEqual([]);
});
