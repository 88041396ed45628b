import { expectEqual } from "../expect.ts";
import { asObject } from "../json.ts";
import type { Checks } from "../requirement.ts";
import { cniVersion, network, type Trial } from "../trial.ts";

/** The standard's section 3: NetworkAttachmentDefinitions. */
export const definitionChecks: Checks = {
  "N-3.2a": (trial) => expectOnDisk(trial, { conflist: "b" }, "b"),
  "N-3.3a": "the API server rejects other names before an implementation sees them",
  "N-3.4.1a": specConfig,
  "N-3.4.1b": (trial) => expectOnDisk(trial, { conf: "a", conflist: "b" }, "b"),
  "N-3.4.1c": (trial) => expectOnDisk(trial, { conf: "a" }, "a"),
  "N-3.4.1d": async (trial) => {
    await trial.define("nowhere");
    const pod = await trial.pod({ networks: "nowhere" });
    await pod.mustFailToAdd("the definition has no configuration and no file has its name");
    const missing = await trial.pod({ networks: "missing" });
    await missing.mustFailToAdd("the definition does not exist");
  },
  "N-3.4.2": async (trial) => {
    await trial.define("thick", { cniVersion, type: "npwg-a" });
    await trial.define("list", { cniVersion, plugins: [{ type: "npwg-b" }] });
    const pod = await trial.attached("thick,list");
    for (const [type, name] of [
      ["npwg-a", "thick"],
      ["npwg-b", "list"],
    ] as const) {
      const { configuration } = await pod.invocation(type);
      expectEqual(`name in the configuration of ${type}`, configuration.name, name);
    }
  },
  "N-3.4.3": async (trial) => {
    await trial.define("object", { ...network("a"), name: "cni-name" });
    const pod = await trial.attached("object");
    const { configuration } = await pod.invocation("npwg-a");
    expectEqual("name in the plugin's configuration", configuration.name, "cni-name");
  },
};

/** Writes files with the object's name, each with another plugin, and expects one of the plugins. */
async function expectOnDisk(
  trial: Trial,
  files: Readonly<Record<string, string>>,
  used: string,
): Promise<void> {
  const name = `on-disk-${trial.suffix}`;
  for (const [extension, letter] of Object.entries(files)) {
    const plugin = { type: `npwg-${letter}` };
    const content = extension === "conf" ? plugin : { plugins: [plugin] };
    await trial.writeConfiguration(`${name}.${extension}`, { cniVersion, name, ...content });
  }
  await trial.define(name);
  const pod = await trial.attached(name);
  expectEqual("executed plugins", await pod.order(), ["npwg-default/eth0", `npwg-${used}/net1`]);
}

async function specConfig(trial: Trial): Promise<void> {
  const name = `net-${trial.suffix}`;
  await trial.writeConfiguration(`${name}.conf`, { cniVersion, name, type: "npwg-c" });
  await trial.define(name, { ...network("a"), name });
  const plugins = [{ type: "npwg-b", key: 1 }, { type: "npwg-c" }];
  await trial.define("list", { cniVersion, name: "list", plugins });
  const pod = await trial.attached(`${name},list`);
  expectEqual("executed plugins", await pod.order(), [
    "npwg-default/eth0",
    "npwg-a/net1",
    "npwg-b/net2",
    "npwg-c/net2",
  ]);
  const { configuration } = await pod.invocation("npwg-b");
  expectEqual("the plugin's own key", configuration.key, 1);
  const { prevResult } = (await pod.invocation("npwg-c")).configuration;
  const [link] = (asObject(prevResult).interfaces ?? []) as unknown[];
  expectEqual("interface in prevResult of the second plugin", asObject(link).name, "net2");
}
