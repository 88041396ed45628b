import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test as plainTest } from "vitest";
import { Daemon } from "../../support/daemon.ts";
import { differences, type HostState, readHostState } from "../../support/host-state.ts";
import { bridge, chained, hostLocal, list } from "../../support/networks.ts";
import { NetnsLab } from "../../support/node/netns-lab.ts";
import { ScriptedPlugins } from "../../support/node/scripted-plugins.ts";
import { cniPluginDir, distPath, nodeBinary } from "../../support/paths.ts";
import { waitUntil } from "../../support/wait.ts";

/** The driver for Docker in a lab. The test calls it as Docker Engine does. */
class DriverNode implements AsyncDisposable {
  readonly lab: NetnsLab;
  readonly plugins: ScriptedPlugins;
  readonly #logLevel: string;
  #driver: Daemon | undefined;

  private constructor(lab: NetnsLab, plugins: ScriptedPlugins, logLevel: string) {
    this.lab = lab;
    this.plugins = plugins;
    this.#logLevel = logLevel;
  }

  static async create(logLevel: string): Promise<DriverNode> {
    const lab = await NetnsLab.create();
    return new DriverNode(lab, await ScriptedPlugins.create(lab, "scripted"), logLevel);
  }

  async start(): Promise<void> {
    this.#driver = await this.launch();
  }

  /** Starts a driver and waits until it serves. @throws Error with the end of its log when it ends instead */
  async launch(): Promise<Daemon> {
    const { dir } = this.lab;
    const command = this.lab.command(
      nodeBinary(),
      ...[distPath("plexusctl.js"), "docker", "--plugin-socket", join(dir, "plexus.sock")],
      ...["--call-socket", join(dir, "call.sock"), "--state-dir", join(dir, "state")],
      ...["--bin-dir", `${cniPluginDir()}:${this.plugins.binDir}`],
      ...["--shim", distPath("plexus"), "--reconcile-seconds", "1"],
      ...["--log-level", this.#logLevel],
    );
    const logFile = join(dir, "driver.log");
    const driver = Daemon.start({ name: "plexusctl docker", command, logFile });
    await driver.waitUntil("the driver serves", () => driver.log.includes("driver serves"));
    return driver;
  }

  async stop(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    await this.#driver?.stop(signal);
  }

  /** Calls a method. @throws Error with the driver's reason when it refuses */
  async call(method: string, body: object): Promise<Record<string, unknown>> {
    const socketPath = join(this.lab.dir, "plexus.sock");
    const sent = request({ socketPath, path: `/NetworkDriver.${method}`, method: "POST" });
    sent.end(JSON.stringify(body));
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    const json = JSON.parse(await text(response)) as Record<string, unknown>;
    if (json.Err !== undefined) throw new Error(String(json.Err));
    return json;
  }

  async createNetwork(network: object): Promise<void> {
    const generic = { "plexus.network": JSON.stringify(network) };
    await this.call("CreateNetwork", {
      NetworkID: "n1",
      Options: { "com.docker.network.generic": generic },
      IPv4Data: [{ AddressSpace: "null", Pool: "0.0.0.0/0" }],
    });
  }

  /** Makes an endpoint in a container, as an engine does; the interface is called eth0 there. */
  async attach(id: string, container: string): Promise<string> {
    const created = await this.call("CreateEndpoint", { ...endpoint(id), Interface: {} });
    const address = (created.Interface as { Address: string }).Address;
    const SandboxKey = await this.lab.addNetns(container);
    const joined = await this.call("Join", { ...endpoint(id), SandboxKey });
    const { SrcName } = joined.InterfaceName as { SrcName: string };
    await this.lab.run("ip", "link", "set", SrcName, "netns", container, "name", "eth0");
    await this.lab.run("ip", "-n", container, "address", "add", address, "dev", "eth0");
    await this.lab.run("ip", "-n", container, "link", "set", "eth0", "up");
    return address.replace(/\/.*/, "");
  }

  /** Ends a container, as an engine does. */
  async detach(id: string, container: string): Promise<void> {
    await this.call("Leave", endpoint(id));
    const SrcName = `plx${id.slice(0, 12)}`;
    const { pid } = this.lab;
    const inside = ["link", "set", "eth0", "netns", String(pid), "name", SrcName];
    await this.lab.run("ip", "-n", container, ...inside);
    await this.call("DeleteEndpoint", endpoint(id));
    await this.lab.deleteNetns(container);
  }

  state(): Promise<HostState> {
    const run = (command: string[]): Promise<string> => this.lab.run(...command);
    const stateDir = join(this.lab.dir, "state/records");
    return readHostState({ run, stateDir }, { kinds: comparedKinds });
  }

  async endpoints(): Promise<string> {
    return this.lab.run("ls", join(this.lab.dir, "state/endpoints"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
    await this.lab[Symbol.asyncDispose]();
  }
}

const comparedKinds = [
  "links",
  "addresses",
  "iptables rules",
  "nftables rules",
  "netns",
  "address leases",
  "attachment records",
] as const;

function endpoint(id: string): object {
  return { NetworkID: "n1", EndpointID: id };
}

const test = plainTest
  .extend("logLevel", { scope: "file" }, "debug")
  .extend("node", { scope: "file" }, async ({ logLevel }, { onCleanup }) => {
    const node = await DriverNode.create(logLevel);
    onCleanup(() => node[Symbol.asyncDispose]());
    await node.start();
    return node;
  });

const masquerading = chained(
  bridge("masq", 61, { ipMasq: true, ipam: hostLocal(61, { routes: [{ dst: "0.0.0.0/0" }] }) }),
  { type: "firewall" },
);

/** Creates the bridge and the plugins' chains, which stay after their first use. */
async function warmUp(node: DriverNode): Promise<HostState> {
  await node.attach("0000warm", "warm");
  await node.detach("0000warm", "warm");
  return node.state();
}

test("containers on a bridge reach each other, and leave nothing behind", async ({ node }) => {
  await node.createNetwork(masquerading);
  const before = await warmUp(node);
  await node.attach("e1", "c1");
  const address = await node.attach("e2", "c2");
  await node.lab.run("ip", "netns", "exec", "c1", "ping", "-c", "1", "-W", "5", address);
  await node.detach("e1", "c1");
  await node.detach("e2", "c2");
  expect(differences(before, await node.state())).toEqual([]);
});

test("a restarted driver detaches an endpoint that the engine forgot and whose namespace is gone", async ({
  node,
}) => {
  await node.createNetwork(masquerading);
  const before = await warmUp(node);
  await node.attach("e3", "c3");
  await node.stop("SIGKILL");
  await node.lab.deleteNetns("c3");
  await node.start();
  await waitUntil("the endpoint is gone", async () => (await node.endpoints()) === "");
  expect(differences(before, await node.state())).toEqual([]);
});

test.for(["SIGKILL", "SIGTERM"] as const)(
  "after %s during an ADD that hangs, the driver ends, and its restart leaves nothing",
  async (signal, { node }) => {
    await node.createNetwork(list("scripted", { type: "scripted" }));
    await node.plugins.clear();
    const before = await node.state();
    await node.plugins.script("scripted", "ADD", { hold: true });
    const call = node.call("CreateEndpoint", { ...endpoint("e4"), Interface: {} });
    const broken = expect(call).rejects.toThrow();
    await node.plugins.reached("scripted", "ADD");
    await node.stop(signal);
    await broken;
    await node.plugins.release("scripted", "ADD");
    await node.start();
    await waitUntil("the endpoint is gone", async () => (await node.endpoints()) === "");
    expect(await node.plugins.order()).toContain("DEL scripted/eth0");
    expect(differences(before, await node.state())).toEqual([]);
  },
);

test("an endpoint whose staging namespace lost its mount can be deleted and created again", async ({
  node,
}) => {
  await node.createNetwork(masquerading);
  const before = await warmUp(node);
  const create = (id: string) => node.call("CreateEndpoint", { ...endpoint(id), Interface: {} });
  const loseMounts = async (): Promise<void> => {
    const staged = await node.lab.run("find", "/run/netns", "-name", "plexus-docker-*");
    for (const path of staged.split("\n")) await node.lab.run("umount", path);
  };
  await create("e5");
  await loseMounts();
  await node.call("DeleteEndpoint", endpoint("e5"));
  expect(await node.endpoints()).toBe("");
  expect(differences(before, await node.state())).toEqual([]);
  // A stale file at the path of the next staging namespace.
  await create("e6");
  const path = await node.lab.run("find", "/run/netns", "-name", "plexus-docker-*");
  await node.call("DeleteEndpoint", endpoint("e6"));
  await node.lab.run("touch", path);
  await create("e6");
  await node.call("DeleteEndpoint", endpoint("e6"));
  expect(differences(before, await node.state())).toEqual([]);
});

test("a second driver with the same state directory exits, and the first one continues", async ({
  node,
}) => {
  await expect(node.launch()).rejects.toThrow("is plexusctl docker running already?");
  await node.createNetwork(masquerading);
  await node.attach("e5", "c5");
  await node.detach("e5", "c5");
});
