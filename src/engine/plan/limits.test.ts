import { expect, test } from "vitest";
import { EngineLab, expectError, network } from "#engine/testing/engine-lab.ts";
import { exited } from "#engine/testing/fake-plugins.ts";
import type { Json, JsonObject } from "#lib/json.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

const web = { pod: "default/web" };

function asking(networks: string, conf: JsonObject = {}): EngineLab {
  const lab = new EngineLab({ conf: { delegates: [network("main", "ptp")], ...conf } });
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: networks } });
  return lab;
}

/** A configuration of about so many bytes. */
function sized(name: string, bytes: number): JsonObject {
  return { ...network(name, "bridge"), filler: "x".repeat(bytes) };
}

const plugins = (count: number): Json[] => Array.from({ length: count }, () => ({ type: "a" }));

test.each([
  ["bridge", 0],
  ["host-device", 1],
])("IPAM plugins' DELs after %s count towards the limit: exit code %i", async (type, exitCode) => {
  const lab = asking("a,".repeat(20).slice(0, -1));
  const plugin = { type, ipam: { type: "host-local" }, filler: "x".repeat(95_000) };
  lab.source.addNad("default/a", { ...network("net-a"), plugins: [plugin] });
  expect(await lab.add(web)).toMatchObject({ exitCode });
});

test("CNI_ARGS count towards the record's limit once for each plugin of a list", async () => {
  const args = "x".repeat(30_000);
  const lab = asking("a,b,c,d,e", {});
  for (const name of ["a", "b", "c", "d", "e"]) {
    lab.source.addNad(`default/${name}`, { ...network(name), plugins: plugins(32) });
  }
  const env = {
    CNI_ARGS: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;LONG=${args}`,
  };
  const { json } = await lab.add({ ...web, env });
  expect(json).toMatchObject({ code: 100, msg: expect.stringContaining("up to network default/") });
  expect(lab.journal).toEqual([]);
});

test.each([
  ["CNI_ARGS", { env: { CNI_ARGS: `A=${"x".repeat(32_767)}` } }, 32_769],
  ["the network configuration on stdin", { stdin: `{${" ".repeat(2_097_152)}}` }, 2_097_154],
])("%s above the limit is refused, except at DEL [S-304]", async (field, options, bytes) => {
  const lab = asking("");
  for (const answer of [await lab.add(options), await lab.check(options)])
    expectError(answer, 100, `${field} has ${bytes} bytes, more than the limit of`);
  expect((await lab.del(options)).stdout).not.toContain("more than the limit");
});

test("a result above the limit fails the ADD, which is rolled back [S-601]", async () => {
  const lab = asking("");
  lab.plugins.script("ptp ADD", exited(0, `{"cniVersion":"1.0.0","x":"${"x".repeat(262_144)}"}`));
  expectError(
    await lab.add(web),
    100,
    "the result has 262173 bytes, more than the limit of 262144",
  );
  expect(lab.plugins.log()).toEqual(["ptp ADD eth0", "ptp DEL eth0"]);
});

test("results that together exceed the record's limit fail the ADD, which is rolled back", async () => {
  const lab = asking("a");
  lab.source.addNad("default/a", { ...network("net-a"), plugins: plugins(32) });
  lab.plugins.script("a ADD", exited(0, `{"cniVersion":"1.0.0","x":"${"x".repeat(200_000)}"}`));
  expectError(
    await lab.add(web),
    100,
    /^network default\/a \(net1\): the attachment record with its teardown plan, with the results so far, has 6\d+ bytes, more than the limit of 4194304/,
  );
  expect(lab.plugins.log("DEL")).toHaveLength(33);
  expect(lab.records.keys).toEqual([]);
});

test("a result exceeds the record's limit together with what is planned", async () => {
  const lab = asking("a,".repeat(20).slice(0, -1));
  const plugin = { type: "bridge", filler: "x".repeat(95_000) };
  lab.source.addNad("default/a", { ...network("net-a"), plugins: [plugin] });
  const long = exited(0, `{"cniVersion":"1.0.0","x":"${"x".repeat(250_000)}"}`);
  lab.plugins.script("bridge ADD", ({ ifName }) => (ifName === "net1" ? long : undefined));
  expectError(await lab.add(web), 100, "network default/a (net1): the attachment record");
});

test.each<[where: string, network: JsonObject, configure: (lab: EngineLab, text: string) => void]>([
  ["the configuration", { delegates: [sized("main", 140_000)] }, () => undefined],
  [
    "a list of too many plugins",
    { delegates: [{ name: "main", plugins: plugins(40) }] },
    () => undefined,
  ],
  [
    "a file",
    { clusterNetwork: "/etc/main.conflist" },
    (lab, text) => lab.files.write("/etc/main.conflist", text),
  ],
  [
    "a definition",
    { clusterNetwork: "main" },
    (lab, text) => lab.source.addNad("kube-system/main", text),
  ],
])("DEL without a record uses a long default network of %s", async (_, conf, configure) => {
  const lab = new EngineLab({ conf });
  configure(lab, JSON.stringify(sized("main", 140_000)));
  expect((await lab.add()).json).toMatchObject({ code: 100 });
  expect((await lab.del()).exitCode).toBe(0);
  expect(lab.plugins.log("DEL").length).toBeGreaterThan(0);
  expect((await lab.add()).json).toMatchObject({ code: 100 });
});

test("a record above the current limits is still detached", async () => {
  const lab = asking("");
  await lab.add(web);
  const { record, plan } = lab.records.writes.at(-1)!;
  const steps = Array.from({ length: 41 }, () => plan.steps[0]!);
  lab.records.put(record, { ...plan, steps });
  expect((await lab.del(web)).exitCode).toBe(0);
  expect(lab.plugins.log("DEL")).toHaveLength(41);
});
