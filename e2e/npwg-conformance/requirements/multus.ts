import { expectEqual, expectThat } from "../expect.ts";
import { asList, asObject, type JsonObject } from "../json.ts";
import type { Pod } from "../pod.ts";
import type { Checks } from "../requirement.ts";
import { defaultType } from "../runtime/delegates.ts";
import { failure, network, result } from "../trial.ts";
import { expectOrder } from "./selection.ts";

/** What users of Multus rely on beyond the standard. */
export const multusChecks: Checks = {
  "X-1": (trial) => {
    const networks = ` net-a@ext0 , ${trial.namespace}/net-b@ext1`;
    return expectOrder(trial, networks, ["npwg-default/eth0", "npwg-a/ext0", "npwg-b/ext1"]);
  },
  "X-2": (trial) => {
    const order = ["npwg-default/eth0", "npwg-a/net1", "npwg-b/ext0", "npwg-c/net3"];
    return expectOrder(trial, "net-a,net-b@ext0,net-c", order);
  },
  "X-3": (trial) => expectOrder(trial, "", ["npwg-default/eth0"]),
  "X-4": async (trial) => {
    await trial.defineAll("ab");
    const annotations = { "v1.multus-cni.io/default-network": `${trial.namespace}/net-a` };
    const pod = await trial.pod({ networks: "net-b", annotations });
    await pod.mustAdd();
    expectEqual("executions of ADD", await pod.order(), ["npwg-a/eth0", "npwg-b/net1"]);
  },
  "X-5": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.pod({ networks: "net-a" });
    await pod.answer(`${defaultType}.ADD`, withAddress("10.9.0.7/24"));
    await pod.answer("npwg-a.ADD", withAddress("10.9.1.7/24"));
    const { ips } = await pod.mustAdd();
    const addresses = asList(ips).map((ip) => asObject(ip).address);
    expectEqual("addresses in the result", addresses, ["10.9.0.7/24"]);
  },
  "X-6": async (trial) => {
    await trial.defineAll("a");
    const status = await (await trial.attached("net-a")).statusOf("net-a");
    expectEqual("name in the status", status.name, `${trial.namespace}/net-a`);
  },
  "X-7": async (trial) => {
    await trial.define("net-a", network("a", { cniVersion: "1.1.0" }));
    const pod = await trial.pod({ networks: "net-a" });
    const { stdout } = result(
      {
        cniVersion: "1.1.0",
        ips: [{ address: "10.9.0.7/24", gateway: "10.9.0.1", interface: 0 }],
        routes: [{ dst: "0.0.0.0/0", gw: "10.9.0.1" }],
      },
      { mtu: 1450 },
    );
    await pod.answer("npwg-a.ADD", { stdout });
    await pod.mustAdd();
    const { ips, mtu, gateway } = await pod.statusOf("net-a");
    const expected = { ips: ["10.9.0.7"], mtu: 1450, gateway: ["10.9.0.1"] };
    expectEqual("keys in the status", { ips, mtu, gateway }, expected);
  },
  "X-8": async (trial) => {
    const guid = "c2:11:22:33:44:55:66:77";
    await trial.define("net-a", network("a", { capabilities: { infinibandGUID: true } }));
    const pod = await trial.attached([{ name: "net-a", "infiniband-guid": guid }]);
    const { runtimeConfig } = (await pod.invocation("npwg-a")).configuration;
    const got = asObject(runtimeConfig).infinibandGUID;
    expectEqual("runtimeConfig.infinibandGUID of the plugin", got, guid);
  },
  "X-9": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.attached("net-a");
    const { namespace, name, uid } = pod.sandbox.pod;
    const { containerId } = pod.sandbox;
    const named = [`K8S_POD_NAMESPACE=${namespace}`, `K8S_POD_NAME=${name}`, `K8S_POD_UID=${uid}`];
    for (const type of [defaultType, "npwg-a"])
      await expectCniArgs(pod, type, [...named, `K8S_POD_INFRA_CONTAINER_ID=${containerId}`]);
  },
  "X-10": async (trial) => {
    const capabilities = { mac: true, ips: true };
    await trial.define("net-a", network("a", { capabilities }));
    const mac = "02:23:45:67:89:01";
    const pod = await trial.pod({ networks: [{ name: "net-a", mac, ips: ["10.9.0.7/24"] }] });
    const ips = [{ address: "10.9.0.7/24", interface: 0 }];
    await pod.answer("npwg-a.ADD", result({ ips }, { mac }));
    await pod.mustAdd();
    await expectCniArgs(pod, "npwg-a", [`MAC=${mac}`, "IP=10.9.0.7/24"]);
  },
  "X-11": async (trial) => {
    await trial.defineAll("ab");
    const pod = await trial.pod({ networks: "net-a,net-b" });
    await pod.answer("npwg-b.ADD", failure("no addresses left"));
    await pod.mustFailToAdd("the plugin npwg-b fails");
    const expected = ["npwg-b/net2", "npwg-a/net1", "npwg-default/eth0"];
    expectEqual("executions of DEL", await pod.order("DEL"), expected);
  },
  "X-12": async (trial) => {
    await trial.defineAll("ab");
    const pod = await trial.attached("net-a,net-b");
    await pod.mustDel();
    const expected = ["npwg-b/net2", "npwg-a/net1", "npwg-default/eth0"];
    expectEqual("executions of DEL", await pod.order("DEL"), expected);
  },
  "X-13": async (trial) => {
    await trial.define("net-a", network("a", { edition: 1 }));
    await trial.defineAll("b");
    const pod = await trial.attached("net-a,net-b");
    await trial.define("net-a", network("c", { edition: 2 }));
    await trial.deleteDefinition("net-b");
    await pod.mustDel();
    const { configuration } = await pod.invocation("npwg-a", "DEL");
    expectEqual("the plugin's own key in DEL", configuration.edition, 1);
    await pod.invocation("npwg-b", "DEL");
  },
  "X-14": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.attached("net-a");
    await pod.deleteObject();
    await pod.mustDel();
    const expected = ["npwg-a/net1", "npwg-default/eth0"];
    expectEqual("executions of DEL", await pod.order("DEL"), expected);
  },
  "X-15": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.attached("net-a");
    await pod.mustDel({ netns: "" });
    await pod.invocation("npwg-a", "DEL");
    await pod.mustDel({ netns: "" });
  },
  "X-16": async (trial) => {
    const pod = await trial.pod();
    Object.assign(pod.sandbox.pod, { uid: "00000000-0000-4000-8000-000000000000" });
    await pod.mustFailToAdd("the pod has another UID");
  },
  "X-17": async (trial) => {
    const pod = await trial.pod();
    await pod.answer(`${defaultType}.ADD`, { link: true });
    await pod.mustAdd();
    await pod.mustCheck();
  },
  "X-18": async (trial) => {
    await trial.defineAll("a");
    const pod = await trial.pod({ networks: "net-a" });
    await pod.answer("npwg-a.ADD", withAddress("10.9.1.7/24"));
    await pod.mustAdd();
    await pod.mustDel();
    const { prevResult } = (await pod.invocation("npwg-a", "DEL")).configuration;
    const [ip] = asList(asObject(prevResult).ips).map(asObject);
    expectEqual("address in prevResult of DEL", ip?.address, "10.9.1.7/24");
  },
};

function withAddress(address: string): { stdout: JsonObject } {
  return result({ ips: [{ address, interface: 0 }] });
}

async function expectCniArgs(pod: Pod, type: string, expected: readonly string[]): Promise<void> {
  const args = (await pod.invocation(type)).environment.CNI_ARGS ?? "";
  for (const each of expected)
    expectThat(args.split(";").includes(each), `${each} in CNI_ARGS of ${type}`, args);
}
