import { expectEqual, expectThat, Mismatch } from "../expect.ts";
import { asList, asObject, isObject, type JsonObject } from "../json.ts";
import type { Checks } from "../requirement.ts";
import { cniVersion, network, result, type Trial } from "../trial.ts";

const ips = ["10.2.2.42/24", "2001:db8::5/64"];
const mac = "02:23:45:67:89:01";
const infiniBand = "80:00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff:00:11:22";
const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }];
const bandwidth = { ingressRate: 2048, ingressBurst: 1600, egressRate: 8000, egressBurst: 1600 };

/** The standard's sections 4.1.2.1.3 to 4.1.2.1.8: requests of a network. */
export const requestChecks: Checks = {
  "N-4.1.2.1.3a": async (trial) => {
    for (const each of [ips, ["10.2.2.42"], ["2001:db8::5"]])
      await expectRuntimeConfig(trial, { ips: each });
  },
  "N-4.1.2.1.3b": (trial) =>
    expectIgnored(trial, "ips", [[], ["ten"], ["10.0.0.300"], ["10.0.0.1/33"], "10.0.0.1", [7]]),
  "N-4.1.2.1.3.2a": async (trial) => {
    await expectRuntimeConfig(trial, { ips });
    await expectRealInterface(trial);
  },
  "N-4.1.2.1.3.2b": (trial) => expectFailure(trial, { ips }),
  "N-4.1.2.1.4a": async (trial) => {
    for (const each of [mac, infiniBand]) await expectRuntimeConfig(trial, { mac: each });
  },
  "N-4.1.2.1.4b": (trial) =>
    expectIgnored(trial, "mac", ["02:00:00", "zz:00:00:00:00:01", `${mac}:02:03`, 2]),
  "N-4.1.2.1.4.2a": async (trial) => {
    await expectRuntimeConfig(trial, { mac });
    await expectRealInterface(trial);
  },
  "N-4.1.2.1.4.2b": (trial) => expectFailure(trial, { mac }),
  "N-4.1.2.1.5a": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.attached([{ name: "net-a", interface: "ext.7-x_y" }]);
    expectEqual("executions of ADD", await pod.order(), ["npwg-default/eth0", "npwg-a/ext.7-x_y"]);
    await expectIgnored(trial, "interface", ["a b", "a/b", "..", "longer-than-15-bytes", 1]);
  },
  "N-4.1.2.1.5b": async (trial) => {
    await trial.defineAll("ab");
    for (const [first, second] of [
      ["ext0", "ext0"],
      ["ext0", "eth0"],
    ]) {
      const networks = [
        { name: "net-a", interface: first },
        { name: "net-b", interface: second },
      ];
      const pod = await trial.pod({ networks });
      for (const type of ["npwg-default", "npwg-a", "npwg-b"])
        await pod.answer(`${type}.ADD`, { link: true });
      await pod.mustFailToAdd(`a previous attachment uses the interface name ${second}`);
    }
  },
  "N-4.1.2.1.5.1": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.attached([{ name: "net-a", interface: "ext0" }]);
    await pod.mustDel();
    for (const command of ["ADD", "DEL"]) {
      const { ifName } = await pod.invocation("npwg-a", command);
      expectEqual(`CNI_IFNAME in ${command}`, ifName, "ext0");
    }
  },
  "N-4.1.2.1.6a": (trial) => expectArgs(trial, {}, { spoofchk: "on" }),
  "N-4.1.2.1.6.2a": (trial) => expectArgs(trial, {}, { nested: { list: [1, "two"] } }),
  "N-4.1.2.1.6.2b": (trial) => expectArgs(trial, { spoofchk: "off", kept: 1 }, { spoofchk: "on" }),
  "N-4.1.2.1.7a": expectProtocols,
  "N-4.1.2.1.7b": (trial) => {
    const [valid] = portMappings;
    const wrong = [
      { hostPort: 0 },
      { hostPort: 65536 },
      { containerPort: "80" },
      { protocol: "icmp" },
    ];
    const lists = wrong.map((keys) => [{ ...valid, ...keys }]);
    return expectIgnored(trial, "portMappings", [[], [{ hostPort: 80 }], ...lists, {}]);
  },
  "N-4.1.2.1.7.2a": (trial) => expectRuntimeConfig(trial, { portMappings }),
  "N-4.1.2.1.7.2b": (trial) => expectFailure(trial, { portMappings }),
  "N-4.1.2.1.8a": async (trial) => {
    for (const keys of [
      { ingressRate: 2048, ingressBurst: 1600 },
      { egressRate: 1, egressBurst: 2 },
    ])
      await expectRuntimeConfig(trial, { bandwidth: keys });
  },
  "N-4.1.2.1.8b": (trial) =>
    expectIgnored(trial, "bandwidth", [
      {},
      { ingressRate: 0 },
      { ingressRate: "2048" },
      { ingressBurst: 300 },
      { egressRate: 8000, ingressBurst: 300 },
      [1],
    ]),
  "N-4.1.2.1.8.2a": (trial) => expectRuntimeConfig(trial, { bandwidth }),
  "N-4.1.2.1.8.2b": (trial) => expectFailure(trial, { bandwidth }),
  "N-4.1.2.1.8.2c": async (trial) => {
    const { bandwidth: got } = await runtimeConfigFor(trial, {
      bandwidth: { ingressRate: 8000 },
    });
    const burst = asObject(got).ingressBurst;
    expectThat(Number(burst) > 0, "a positive ingressBurst in runtimeConfig.bandwidth", got);
  },
};

/** Attaches a network whose plugin has the request's capability; returns the plugin's runtimeConfig. */
async function runtimeConfigFor(trial: Trial, request: JsonObject): Promise<JsonObject> {
  const [capability = ""] = Object.keys(request);
  await trial.define("net-a", network("a", { capabilities: { [capability]: true } }));
  const pod = await trial.pod({ networks: [{ name: "net-a", ...request }] });
  const addresses = asList(request.ips).map((ip) => {
    const text = String(ip);
    const address = text.includes("/") ? text : `${text}/${text.includes(":") ? 64 : 24}`;
    return { address, interface: 0 };
  });
  const link = request.mac === undefined ? {} : { mac: request.mac };
  await pod.answer("npwg-a.ADD", result({ ips: addresses }, link));
  await pod.mustAdd();
  return asObject((await pod.invocation("npwg-a")).configuration.runtimeConfig);
}

async function expectRuntimeConfig(trial: Trial, request: JsonObject): Promise<void> {
  const [key = ""] = Object.keys(request);
  const got = (await runtimeConfigFor(trial, request))[key];
  const value = isObject(got) ? withoutZeros(got) : got;
  expectEqual(`runtimeConfig.${key} of the plugin`, value, request[key]);
}

/** A bandwidth of zero is the same as none. */
function withoutZeros(limits: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== 0));
}

/** The pod gets its default network, and nothing that the invalid annotation selects. */
async function expectIgnored(trial: Trial, key: string, values: readonly unknown[]): Promise<void> {
  await trial.define("net-a", network("a", { capabilities: { [key]: true } }));
  await trial.defineAll("b");
  const wrong: string[] = [];
  for (const value of values) {
    const pod = await trial.pod({ networks: [{ name: "net-b" }, { name: "net-a", [key]: value }] });
    const reply = await pod.add();
    const order = (await pod.order()).join(", ");
    if (reply.exitCode !== 0) wrong.push(`${JSON.stringify(value)} fails ADD`);
    else if (order !== "npwg-default/eth0") wrong.push(`${JSON.stringify(value)} is accepted`);
  }
  if (wrong.length > 0)
    throw new Mismatch(`expected that the annotation is ignored, but ${key} ${wrong.join(", ")}`);
}

async function expectFailure(trial: Trial, request: JsonObject): Promise<void> {
  await trial.defineAll("a");
  const [key = ""] = Object.keys(request);
  const pod = await trial.pod({ networks: [{ name: "net-a", ...request }] });
  await pod.mustFailToAdd(`no plugin has the capability ${key}`);
}

async function expectArgs(trial: Trial, own: JsonObject, requested: JsonObject): Promise<void> {
  const args = Object.keys(own).length === 0 ? {} : { args: { cni: own } };
  await trial.define("net-a", network("a", args));
  const pod = await trial.attached([{ name: "net-a", "cni-args": requested }]);
  const { configuration } = await pod.invocation("npwg-a");
  const cni = asObject(asObject(configuration.args).cni);
  for (const [key, value] of Object.entries({ ...own, ...requested }))
    expectEqual(`args.cni.${key} of the plugin`, cni[key], value);
}

async function expectProtocols(trial: Trial): Promise<void> {
  const protocols = ["tcp", "UDP", "Sctp", undefined];
  const request = protocols.map((protocol, nth) => ({
    hostPort: 65535 - nth,
    containerPort: 1 + nth,
    ...(protocol !== undefined && { protocol }),
  }));
  const { portMappings: got } = await runtimeConfigFor(trial, { portMappings: request });
  const names = asList(got).map((each) => String(asObject(each).protocol ?? "none").toLowerCase());
  expectEqual("protocols in runtimeConfig.portMappings", names, ["tcp", "udp", "sctp", "tcp"]);
}

/** The reference plugins bridge and static give the pod the requested address and MAC. */
async function expectRealInterface(trial: Trial): Promise<void> {
  const { bridge } = trial;
  const capabilities = { ips: true, mac: true };
  const plugin = { type: "bridge", bridge, ipam: { type: "static" }, capabilities };
  await trial.define("real", { cniVersion, name: "real", plugins: [plugin] });
  const pod = await trial.attached([{ name: "real", mac, ips: ips.slice(0, 1) }]);
  const [link] = asList(JSON.parse(await pod.exec("ip", "-j", "address", "show", "dev", "net1")));
  const { address, addr_info: addresses } = asObject(link);
  expectEqual("MAC address of net1", address, mac);
  const locals = asList(addresses).map((each) => asObject(each).local);
  expectThat(locals.includes("10.2.2.42"), "the address 10.2.2.42 on net1", locals);
  await pod.mustDel();
}
