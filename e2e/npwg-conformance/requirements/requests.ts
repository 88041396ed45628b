import { expectEqual, expectThat, Mismatch } from "../expect.ts";
import { asList, asObject, isObject, type JsonObject } from "../json.ts";
import type { Requirement } from "../requirement.ts";
import { cniVersion, network, result, type Trial } from "../trial.ts";
import { standard } from "./table.ts";

const ips = ["10.2.2.42/24", "2001:db8::5/64"];
const mac = "02:23:45:67:89:01";
const infiniBand = "80:00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff:00:11:22";
const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }];
const bandwidth = { ingressRate: 2048, ingressBurst: 1600, egressRate: 8000, egressBurst: 1600 };

/** The standard's sections 4.1.2.1.3 to 4.1.2.1.8: requests of a network. */
export const requestRequirements: readonly Requirement[] = [
  ...standard("MUST", [
    [
      "N-4.1.2.1.3a",
      "ips: at least one element, each an IPv4 or IPv6 address with an optional prefix length.",
      async (trial) => {
        for (const each of [ips, ["10.2.2.42"], ["2001:db8::5"]])
          await expectRuntimeConfig(trial, { ips: each });
      },
    ],
    [
      "N-4.1.2.1.3b",
      "ips: an invalid value makes the whole annotation invalid and ignored.",
      (trial) =>
        expectIgnored(trial, "ips", [
          [],
          ["ten"],
          ["10.0.0.300"],
          ["10.0.0.1/33"],
          "10.0.0.1",
          [7],
        ]),
    ],
    [
      "N-4.1.2.1.3.2a",
      "ips is added to the delegate's runtimeConfig in the form of CNI's conventions.",
      async (trial) => {
        await expectRuntimeConfig(trial, { ips });
        await expectRealAddress(trial);
      },
    ],
    ["N-4.1.2.1.3.2b", noCapability("ips"), (trial) => expectFailure(trial, { ips })],
    [
      "N-4.1.2.1.4a",
      "mac: a 6-byte Ethernet or a 20-byte IP-over-InfiniBand hardware address.",
      async (trial) => {
        for (const each of [mac, infiniBand]) await expectRuntimeConfig(trial, { mac: each });
      },
    ],
    [
      "N-4.1.2.1.4b",
      "mac: an invalid value makes the whole annotation invalid and ignored.",
      (trial) => expectIgnored(trial, "mac", ["02:00:00", "zz:00:00:00:00:01", `${mac}:02:03`, 2]),
    ],
    [
      "N-4.1.2.1.4.2a",
      "mac is added to the delegate's runtimeConfig in the form of CNI's conventions.",
      (trial) => expectRuntimeConfig(trial, { mac }),
    ],
    ["N-4.1.2.1.4.2b", noCapability("mac"), (trial) => expectFailure(trial, { mac })],
    [
      "N-4.1.2.1.5a",
      "interface: a valid Linux interface name; an invalid value makes the whole annotation invalid and ignored.",
      async (trial) => {
        await trial.defineAll("a");
        const pod = await trial.attached([{ name: "net-a", interface: "ext.7-x_y" }]);
        expectEqual("executions of ADD", await pod.order(), [
          "npwg-default/eth0",
          "npwg-a/ext.7-x_y",
        ]);
        await expectIgnored(trial, "interface", ["a b", "a/b", "..", "longer-than-15-bytes", 1]);
      },
    ],
    [
      "N-4.1.2.1.5b",
      "interface: a name that a previous attachment already uses fails the current attachment.",
      async (trial) => {
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
    ],
    [
      "N-4.1.2.1.5.1",
      "interface is the CNI_IFNAME of the attachment's CNI operations.",
      async (trial) => {
        await trial.defineAll("a");
        const pod = await trial.attached([{ name: "net-a", interface: "ext0" }]);
        await pod.mustDel();
        for (const command of ["ADD", "DEL"]) {
          const { ifName } = await pod.invocation("npwg-a", command);
          expectEqual(`CNI_IFNAME in ${command}`, ifName, "ext0");
        }
      },
    ],
    [
      "N-4.1.2.1.6a",
      "cni-args: a dict, passed through to the delegate.",
      (trial) => expectArgs(trial, {}, { spoofchk: "on" }),
    ],
    [
      "N-4.1.2.1.6.2a",
      "cni-args becomes the args key of the delegate's configuration, per CNI's conventions.",
      (trial) => expectArgs(trial, {}, { nested: { list: [1, "two"] } }),
    ],
    [
      "N-4.1.2.1.6.2b",
      "The annotation's cni-args are merged into the args of the definition's configuration and override them.",
      (trial) => expectArgs(trial, { spoofchk: "off", kept: 1 }, { spoofchk: "on" }),
    ],
    [
      "N-4.1.2.1.7a",
      "portMappings: at least one dict. hostPort and containerPort are required integers from 1 to 65535. protocol is UDP, TCP or SCTP in any case, and defaults to TCP.",
      expectProtocols,
    ],
    [
      "N-4.1.2.1.7b",
      "portMappings: an invalid value makes the whole annotation invalid and ignored.",
      (trial) => {
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
    ],
    [
      "N-4.1.2.1.7.2a",
      "portMappings is added to the delegate's runtimeConfig in the form of CNI's conventions.",
      (trial) => expectRuntimeConfig(trial, { portMappings }),
    ],
    [
      "N-4.1.2.1.7.2b",
      noCapability("portMappings"),
      (trial) => expectFailure(trial, { portMappings }),
    ],
    [
      "N-4.1.2.1.8a",
      "bandwidth: at least one of ingressRate, ingressBurst, egressRate and egressBurst, each a non-zero integer. A burst requires its rate.",
      async (trial) => {
        for (const keys of [
          { ingressRate: 2048, ingressBurst: 1600 },
          { egressRate: 1, egressBurst: 2 },
        ])
          await expectRuntimeConfig(trial, { bandwidth: keys });
      },
    ],
    [
      "N-4.1.2.1.8b",
      "bandwidth: an invalid value makes the whole annotation invalid and ignored.",
      (trial) =>
        expectIgnored(trial, "bandwidth", [
          {},
          { ingressRate: 0 },
          { ingressRate: "2048" },
          { ingressBurst: 300 },
          { egressRate: 8000, ingressBurst: 300 },
          [1],
        ]),
    ],
    [
      "N-4.1.2.1.8.2a",
      "bandwidth is added to the delegate's runtimeConfig in the form of CNI's conventions.",
      (trial) => expectRuntimeConfig(trial, { bandwidth }),
    ],
    ["N-4.1.2.1.8.2b", noCapability("bandwidth"), (trial) => expectFailure(trial, { bandwidth })],
  ]),
  ...standard("MAY", [
    [
      "N-4.1.2.1.8.2c",
      "Bursts default to reasonable values.",
      async (trial) => {
        const { bandwidth: got } = await runtimeConfigFor(trial, {
          bandwidth: { ingressRate: 8000 },
        });
        const burst = asObject(got).ingressBurst;
        expectThat(Number(burst) > 0, "a positive ingressBurst in runtimeConfig.bandwidth", got);
      },
    ],
  ]),
];

function noCapability(name: string): string {
  return `If no plugin of the list has the ${name} capability, the attachment request fails.`;
}

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

/** The reference plugins bridge and static give the pod the requested address. */
async function expectRealAddress(trial: Trial): Promise<void> {
  const { bridge } = trial;
  const plugin = { type: "bridge", bridge, ipam: { type: "static" }, capabilities: { ips: true } };
  await trial.define("real", { cniVersion, name: "real", plugins: [plugin] });
  const pod = await trial.attached([{ name: "real", ips: ips.slice(0, 1) }]);
  const addresses = await pod.exec("ip", "-4", "-o", "address", "show", "dev", "net1");
  expectThat(addresses.includes("10.2.2.42/24"), "the address 10.2.2.42/24 on net1", addresses);
  await pod.mustDel();
}
