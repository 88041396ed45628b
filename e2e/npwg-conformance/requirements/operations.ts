import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { expectEqual, expectThat, Mismatch } from "../expect.ts";
import { asList, asObject } from "../json.ts";
import type { Checks } from "../requirement.ts";
import { errorOf } from "../runtime/cni-runtime.ts";
import { defaultType } from "../runtime/delegates.ts";
import { cniVersion, failure, network, result, type Trial } from "../trial.ts";

/** The standard's sections 6 and 7: the default network, and how attachments are made and undone. */
export const operationChecks: Checks = {
  "N-6a": async (trial) => {
    const pod = await trial.attached();
    expectEqual("executions of ADD", await pod.order(), ["npwg-default/eth0"]);
  },
  "N-6.1.2a": expectReadiness,
  "N-6.2": async (trial) => {
    await trial.defineAll("a");
    const [first] = await (await trial.attached("net-a")).order();
    expectEqual("first execution of ADD", first, "npwg-default/eth0");
  },
  "N-7.1a": expectInjection,
  "N-7.2a": async (trial) => {
    await trial.defineAll("ab");
    for (const [failing, order] of [
      ["npwg-a", ["npwg-default", "npwg-a"]],
      [defaultType, ["npwg-default"]],
    ] as const) {
      const pod = await trial.pod({ networks: "net-a,net-b" });
      await pod.answer(`${failing}.ADD`, failure("no addresses left"));
      await pod.mustFailToAdd(`the plugin ${failing} fails`);
      const types = (await pod.invocations()).map(({ type }) => type);
      expectEqual("executed plugins", types, order);
    }
  },
  "N-7.2b": async (trial) => {
    await trial.defineAll("abc");
    const pod = await trial.attached("net-a,net-b,net-c");
    await pod.answer("npwg-b.DEL", failure("cannot detach"));
    await pod.del();
    const types = (await pod.invocations("DEL")).map(({ type }) => type);
    const expected = ["npwg-a", "npwg-b", "npwg-c", "npwg-default"];
    expectEqual("plugins executed for DEL", [...new Set(types)].toSorted(), expected);
  },
  "N-7.2c": async (trial) => {
    await trial.defineAll("ab");
    const pod = await trial.attached("net-a,net-b");
    await pod.answer("npwg-b.DEL", failure("cannot detach"));
    const reply = await pod.del();
    expectThat(reply.exitCode !== 0, "an error of DEL, as one detachment fails", "success");
  },
  "N-7.3": async (trial) => {
    await trial.defineAll("abc");
    const pod = await trial.pod({ networks: "net-a,net-b,net-c" });
    for (const letter of "abc")
      for (const command of ["ADD", "DEL"])
        await pod.answer(`npwg-${letter}.${command}`, { sleep: 0.1 });
    await pod.mustAdd();
    await pod.mustDel();
    for (const command of ["ADD", "DEL"]) {
      const all = await pod.invocations(command);
      const parallel = all.filter(({ overlaps }) => overlaps).map(({ type }) => type);
      expectEqual(`plugins that ran beside another one in ${command}`, parallel, []);
    }
  },
  "N-7.4": async (trial) => {
    const configuration = trial.keysFor("isolation");
    await trial.define("net-a", network("a"), trial.otherNamespace);
    const pod = await trial.pod({ networks: `${trial.otherNamespace}/net-a` });
    await pod.mustFailToAdd("the pod may not use another namespace's definition", configuration);
    const types = (await pod.invocations()).map(({ type }) => type);
    expectThat(!types.includes("npwg-a"), "that npwg-a is not executed", types);
  },
  "N-7.5": async (trial) => {
    const capabilities = { portMappings: true };
    const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }];
    await trial.define("net-a", network("a", { capabilities }));
    const pod = await trial.pod({ networks: "net-a" });
    await pod.mustAdd({ capabilities, runtimeConfig: { portMappings } });
    const [main, secondary] = await Promise.all(
      [defaultType, "npwg-a"].map(async (type) => {
        const { runtimeConfig } = (await pod.invocation(type)).configuration;
        return asList(asObject(runtimeConfig).portMappings).length;
      }),
    );
    expectEqual("port mappings of the default network", main, 1);
    expectEqual("port mappings of net-a, which requests none", secondary, 0);
  },
  "N-6.1a": "how an implementation installs its configuration file is not known from outside",
};

/** As a kubelet does, the pod is attached again after a failure. */
async function expectReadiness(trial: Trial): Promise<void> {
  const keys = trial.keysFor("readiness");
  const pod = await trial.pod();
  const blocked = pod.add(keys);
  await Promise.race([blocked, sleep(2000)]);
  expectEqual("executions before the default network is ready", await pod.order(), []);
  await writeFile(trial.readinessFile, "");
  let reply = await blocked;
  if (reply.exitCode !== 0) reply = await pod.add(keys);
  if (reply.exitCode !== 0)
    throw new Mismatch(`expected that ADD succeeds when it is ready, got ${errorOf(reply)}`);
}

async function expectInjection(trial: Trial): Promise<void> {
  const plugins = [{ type: "npwg-a" }, { type: "npwg-b" }];
  await trial.define("net-a", { cniVersion: "0.4.0", name: "list", plugins });
  const pod = await trial.pod({ networks: "net-a" });
  const old = {
    cniVersion: "0.4.0",
    interfaces: [],
    ips: [{ version: "4", address: "10.9.0.7/24" }],
  };
  for (const letter of "ab") await pod.answer(`npwg-${letter}.ADD`, { stdout: old });
  await pod.answer(`${defaultType}.ADD`, result({ ips: [{ address: "10.9.0.8/24" }] }));
  const got = await pod.mustAdd({ cniVersion: "0.4.0" });
  for (const type of ["npwg-a", "npwg-b"]) {
    const { configuration } = await pod.invocation(type);
    const { cniVersion: version, name } = configuration;
    expectEqual(`cniVersion and name of ${type}`, [version, name], ["0.4.0", "list"]);
  }
  const main = (await pod.invocation(defaultType)).configuration;
  expectEqual("cniVersion of the default network's plugin", main.cniVersion, cniVersion);
  expectEqual("cniVersion of the result for a runtime of 0.4.0", got.cniVersion, "0.4.0");
  const [ip] = asList(got.ips).map(asObject);
  expectEqual("ips[0].version of the result", ip?.version, "4");
}
