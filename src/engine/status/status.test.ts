import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { plexusdsListMark } from "#engine/config.ts";
import { EngineLab, expectError, type LabOptions, network } from "#engine/testing/engine-lab.ts";
import { ended, failed } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { podAnnotationsCapability } from "#npwg/object-meta.ts";

function labOf(cniVersion: string, options: LabOptions = {}): EngineLab {
  return new EngineLab({
    conf: {
      ...plexusdsListMark,
      delegates: [{ ...network("default-net", "ptp", "tuning"), cniVersion }],
    },
    ...options,
  });
}

test("status() of a ready node runs the default network's plugins that support STATUS [R-1.1-22] [R-1.1-20]", async () => {
  const lab = labOf("1.1.0");
  expect(await lab.status()).toMatchObject({ exitCode: 0, stdout: "" });
  expect(lab.plugins.log()).toEqual(["ptp STATUS", "tuning STATUS"]);
  expect(lab.plugins.calls[0]?.conf).toMatchObject({ name: "default-net", cniVersion: "1.1.0" });
  expect(lab.source.asked).toEqual([]);
});

test("status() asks the default network's plugins only; those of other networks of every pod have to exist", async () => {
  const config = { auxiliaryCNIChainName: "aux" };
  const conf = { ...plexusdsListMark, clusterNetwork: "/net.d/10-main.conflist" };
  const lab = new EngineLab({ conf, config });
  lab.files.write("/net.d/10-main.conflist", { ...network("main", "ptp"), cniVersion: "1.1.0" });
  lab.files.write("/net.d/aux/10-a.conf", { cniVersion: "1.1.0", name: "x", type: "sidecar" });
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.log()).toEqual(["ptp STATUS"]);
  lab.plugins.setLookup("sidecar", { outcome: "missing", message: "" });
  for (const { json } of [await lab.status(), await lab.add()]) {
    expect(json.msg).toMatch(/network aux: .*"sidecar"/);
  }
});

test("status() is not ready while no record can be written, with which every ADD starts [R-1.1-20]", async () => {
  const lab = labOf("1.1.0");
  lab.records.whyUnusable = "the state directory /var/lib/plexus cannot be used: ENOSPC";
  expectError(await lab.status(), 50, /^the state directory .* cannot be used: ENOSPC$/);
});

test.each([50, 51])("status() passes on a plugin's code %i [R-1.1-22]", async (code) => {
  const lab = labOf("1.1.0");
  lab.plugins.script("ptp STATUS", failed(code, "backend away"));
  expect((await lab.status()).json).toMatchObject({
    code,
    msg: 'plugin type="ptp" failed (status): backend away',
  });
  expect(lab.plugins.log()).toEqual(["ptp STATUS"]);
});

test("status() turns any other failure of a plugin into code 50", async () => {
  const lab = labOf("1.1.0");
  lab.plugins.script("ptp STATUS", failed(120, "no idea"));
  expectError(await lab.status(), 50, /pods cannot be attached.*no idea/);
});

test("status() only checks that older plugins exist, with VERSION", async () => {
  const lab = labOf("1.0.0");
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
  expect(lab.plugins.calls.map((call) => `${call.type} ${call.command}`)).toEqual([
    "ptp VERSION",
    "tuning VERSION",
  ]);
  lab.plugins.script("tuning", ended("missing"));
  expectError(await lab.status(), 50, '"tuning"');
});

test.each([
  ["STATUS", "1.1.0"],
  ["VERSION", "1.0.0"],
])("status() waits at most ten seconds for plugins whose %s hangs", async (_, cniVersion) => {
  const lab = labOf(cniVersion);
  lab.plugins.script("ptp", () => {
    lab.advance(4000);
    return undefined;
  });
  lab.plugins.script("tuning", ({ timeoutMs }) => {
    lab.advance(timeoutMs);
    return ended("timeout");
  });
  expectError(await lab.status(), 50, /"tuning".*timed out/);
  const timeouts = lab.plugins.calls.map(({ timeoutMs }) => Math.ceil(timeoutMs / 1000));
  expect(timeouts).toEqual([10, 6]);
});

test("status() reports that the source of pods is not ready before it runs plugins", async () => {
  const lab = labOf("1.1.0");
  lab.source.notReady = "pods of this node have not been listed yet";
  expect((await lab.status()).json).toMatchObject({ code: 50, msg: lab.source.notReady });
  expect(lab.plugins.log()).toEqual([]);
});

test("status() works without a source of pods", async () => {
  expect(await labOf("1.1.0", { noSource: true }).status()).toMatchObject({ exitCode: 0 });
});

test("status() reports that the readiness file is missing [N-6.1.2a]", async () => {
  const lab = labOf("1.1.0", { config: { readinessindicatorfile: "/run/ready" } });
  expectError(await lab.status(), 50, "/run/ready");
  lab.files.write("/run/ready", "");
  expect(await lab.status()).toMatchObject({ exitCode: 0 });
});

test.each([
  ["is not configured", {}, "no default network is configured"],
  ["is a missing file", { clusterNetwork: "/etc/cni/none.conflist" }, "/etc/cni/none.conflist"],
  ["is an unknown name", { clusterNetwork: "flannel" }, "flannel"],
  ["is invalid", { delegates: [{ name: "x", plugins: [{}] }] }, "plugins[0].type"],
])("status() reports why a default network that %s is unavailable", async (_, conf, text) => {
  const lab = new EngineLab({ conf });
  expect((await lab.status()).json).toMatchObject({ code: 50, msg: expect.stringContaining(text) });
});

test("status() searches plugins in the same directories as ADD", async () => {
  const lab = labOf("1.1.0", { config: { binDir: "/opt/plexus/bin" } });
  await lab.status();
  expect(lab.plugins.calls[0]?.searchPath).toEqual(["/opt/plexus/bin", "/opt/cni/bin"]);
});

/** What libcni leaves in the conf of every call, and what it adds to that of an ADD. */
const describing = {
  capabilities: { [podAnnotationsCapability]: true },
  runtimeConfig: { [podAnnotationsCapability]: {} },
};
const notDescribing = { capabilities: { [podAnnotationsCapability]: false } };
const inline = { delegates: [network("default-net", "ptp")] };

test.each<[string, JsonObject, number[]]>([
  ["the runtime describes pods", { ...inline, ...describing }, []],
  ["the default network is a definition", { clusterNetwork: "red", ...describing }, [50, 11]],
  ["the runtime does not describe pods", { ...inline, ...notDescribing }, [50, 11]],
  ["the runtime's conf has no capabilities", inline, [50, 11]],
])("status() agrees with add() while the API is unavailable and %s", async (_, conf, codes) => {
  const lab = new EngineLab({ conf });
  lab.source.notReady = "pods of this node have not been listed yet";
  lab.source.failure = new CniError("TryAgainLater", "cannot read it from the API server");
  // Only an ADD has runtimeConfig.
  const status = await lab.status({ conf: { runtimeConfig: {} } });
  const add = await lab.add({ pod: "default/web/uid-9" });
  expect([status, add].flatMap(({ json }) => json.code ?? [])).toEqual(codes);
});

test("status() and add() use the definition of the default network that is known while the API server is unavailable", async () => {
  const lab = new EngineLab({ conf: { clusterNetwork: "red", ...describing } });
  lab.source.addNad("kube-system/red", network("red", "ptp"));
  lab.source.notReady = "pods of this node have not been listed yet";
  const answers = [await lab.add({ pod: "default/web/uid-9" }), await lab.status()];
  expect(answers.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
});

test.each<[string, JsonObject, string]>([
  ["a further network of every pod is invalid", withSecond({ name: "x" }), "delegates[1]"],
  ["a plugin of such a network is missing", withSecond(network("x", "none")), '"none"'],
  [
    "the auxiliary chain has no directory",
    { ...inline, auxiliaryCNIChainName: "aux" },
    "auxiliaryCNIChainName",
  ],
])("status() agrees with add() when %s", async (_, conf, text) => {
  const lab = new EngineLab({ conf });
  lab.plugins.setLookup("none", { outcome: "missing", message: "" });
  const answers = [await lab.status(), await lab.add()];
  for (const { json } of answers) expect(json.msg).toContain(text);
  expect(answers[0]?.json.code).toBe(50);
});

function withSecond(conf: JsonObject): JsonObject {
  return { delegates: [network("default-net", "ptp"), conf] };
}
