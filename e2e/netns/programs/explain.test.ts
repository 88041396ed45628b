import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { bridge, hostLocal, list, macvlan, ptp } from "../../support/networks.ts";
import { explained } from "../../support/node/explain.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { errorScript, ScriptedPlugins } from "../../support/node/scripted-plugins.ts";
import { test as nodeTest } from "../../support/node/test.ts";
import type { PodOptions, TestPod } from "../../support/node/test-pod.ts";
import { startPlexusd } from "../../support/plexusd.ts";
import { waitUntil } from "../../support/wait.ts";

/**
 * What goes wrong for pods in practice, provoked with the real shim, daemon and plugins, and what `plexusctl
 * explain` then says: the words that it knows errors by are those that plugins and kernel really use.
 */
const readyFile = "/run/cni/primary-is-ready";
/** Not listed in /etc/plexus/plugin-dirs, and not the runtime's. */
const binDir = "/run/cni/unlisted";
/** What a test brings about, after the pod was made. */
interface Scene {
  readonly node: PlexusNode;
  readonly pod: TestPod;
  readonly plugins: ScriptedPlugins;
}

interface Case extends PodOptions {
  readonly finding: string;
  /** What the sentence quotes of the real error. */
  readonly quotes: RegExp;
  /** The definition `net` of the case. */
  readonly net?: object | string;
  /** What the runtime calls with, where that is not as usual. */
  readonly conf?: object;
  readonly before?: (scene: Scene) => Promise<unknown>;
  /** Undoes what would disturb others. */
  readonly after?: (scene: Scene) => Promise<unknown>;
}

const pool = (ipam: object): object => ({ capabilities: { ips: true }, ipam });
const small = { type: "host-local", ranges: [[{ subnet: "10.90.0.0/30" }]] };
const asked = (ip: string): object[] => [{ name: "net", ips: [ip] }];

const cases: Readonly<Record<string, Case>> = {
  "an annotation that cannot be read": {
    networks: "net@@net1",
    ...{ finding: "InvalidAnnotation", quotes: /net@@net1/ },
  },
  "a definition that is missing": {
    networks: "nowhere",
    ...{ finding: "MissingDefinition", quotes: /default\/nowhere/ },
  },
  "a namespace that may not be used": {
    networks: "elsewhere/net",
    ...{ finding: "NetworkAccessDenied", quotes: /elsewhere\/net/ },
  },
  "a node without a default network": {
    conf: { cniVersion: "1.0.0", name: "plexus", type: "plexus" },
    ...{ finding: "MissingDefaultNetwork", quotes: /no default network is configured/ },
  },
  "a definition without a configuration": {
    net: "",
    ...{ finding: "MissingConfiguration", quotes: /no net configurations? / },
  },
  "a definition whose configuration is broken": {
    net: { cniVersion: "1.0.0", plugins: 1 },
    ...{ finding: "InvalidDefinition", quotes: /"default\/net"/ },
  },
  "a definition of another meta-plugin": {
    net: list("net", { type: "multus" }),
    ...{ finding: "MetaPlugin", quotes: /"multus"/ },
  },
  "a plugin that is not installed": {
    net: list("net", { type: "absent" }),
    ...{ finding: "PluginMissing", quotes: /failed to find plugin "absent"/ },
  },
  "a plugin in a directory that the administrator did not list": {
    net: list("net", { type: "unlisted" }),
    before: ({ node }) => node.lab.run("cp", "/bin/true", join(binDir, "unlisted")),
    ...{ finding: "PluginRefused", quotes: /may not be executed/ },
  },
  "a default network under another interface name": {
    annotations: { "v1.multus-cni.io/default-network": "default/net@net7" },
    ...{ finding: "DefaultInterfaceName", quotes: /must be on interface eth0/ },
  },
  "an address that no plugin takes": {
    net: bridge("net", 91),
    networks: asked("10.91.0.9/24"),
    ...{ finding: "UndeclaredRequest", quotes: /capability "ips"/ },
  },
  "one interface name twice": {
    networks: "net@net5,net@net5",
    ...{ finding: "InterfaceNameTaken", quotes: /net5/ },
  },
  "more networks than there may be": {
    networks: Array.from({ length: 100 }, () => "net").join(","),
    ...{ finding: "OverLimit", quotes: /limit of \d+/ },
  },
  "a gateway that cannot be reached": {
    networks: [{ name: "net", "default-route": ["192.0.2.1"] }],
    ...{ finding: "UnreachableGateway", quotes: /gateway 192\.0\.2\.1/ },
  },
  "a default route that somebody else has set": {
    networks: [{ name: "net", "default-route": ["10.91.0.1"] }],
    before: async ({ pod }) => {
      await pod.addLink("other0");
      for (const end of ["other0", "other0peer"]) await pod.run("ip", "link", "set", end, "up");
      await pod.run("ip", "route", "add", "default", "dev", "other0");
    },
    ...{ finding: "DefaultRouteTaken", quotes: /interface other0/ },
  },
  "a range without an address": {
    net: bridge("net", 90, { ipam: small }),
    before: async ({ node }) => (await node.newPod({ networks: "net" })).mustAdd(),
    ...{ finding: "IpamExhausted", quotes: /no IP addresses available/ },
  },
  "an address that another pod has": {
    net: bridge("net", 91, pool(hostLocal(91))),
    networks: asked("10.91.0.9/24"),
    before: async ({ node }) => (await node.newPod({ networks: asked("10.91.0.9/24") })).mustAdd(),
    ...{ finding: "AddressTaken", quotes: /10\.91\.0\.9/ },
  },
  "an address of another network": {
    net: bridge("net", 91, pool(hostLocal(91))),
    networks: asked("10.99.0.9/24"),
    ...{ finding: "AddressOutsideRange", quotes: /10\.99\.0\.9/ },
  },
  "a master that the node does not have": {
    net: macvlan("net", 92, { master: "eth7" }),
    ...{ finding: "MasterMissing", quotes: /Link not found/ },
  },
  "a disk that is read-only for a plugin": {
    net: bridge("net", 93, { ipam: { ...hostLocal(93), dataDir: "/sys/leases" } }),
    ...{ finding: "PluginDenied", quotes: /\/sys\/leases/ },
  },
  "a network that cannot be attached twice": {
    net: ptp("net", 94, { ipMasq: true }),
    networks: "net,net",
    ...{ finding: "RepeatedNetwork", quotes: /cannot be attached twice/ },
  },
  "a plugin that crashes": {
    net: list("net", { type: "scripted" }),
    before: ({ plugins }) => plugins.script("scripted", "ADD", { signal: 11 }),
    ...{ finding: "PluginCrashed", quotes: /killed by signal 11/ },
  },
  "a plugin that does not know the version": {
    net: list("net", { type: "scripted" }),
    before: ({ plugins }) =>
      plugins.script("scripted", "ADD", errorScript(1, "incompatible CNI versions")),
    ...{ finding: "IncompatibleCniVersion", quotes: /incompatible CNI versions/ },
  },
  "a plugin that prints no result": {
    net: list("net", { type: "scripted" }),
    before: ({ plugins }) => plugins.script("scripted", "ADD", { stdout: "", exit: 0 }),
    ...{ finding: "PluginOutput", quotes: /scripted/ },
  },
  "a plugin that fails": {
    net: bridge("net", 91, { ipam: { type: "static", addresses: [{ address: "nonsense" }] } }),
    ...{ finding: "PluginFailed", quotes: /nonsense/ },
  },
  "a pod that was replaced meanwhile": {
    uid: "old",
    before: ({ node, pod }) =>
      node.manifest(`pod-default-${pod.name}`, {
        ...{ apiVersion: "v1", kind: "Pod" },
        metadata: { name: pod.name, namespace: "default", uid: "new" },
      }),
    ...{ finding: "PodReplaced", quotes: /deleted or replaced/ },
  },
  "a sandbox that is gone": {
    before: ({ node, pod }) => node.lab.deleteNetns(pod.netns),
    ...{ finding: "InvalidNetns", quotes: /namespace/ },
  },
  "a primary CNI that is not ready": {
    before: ({ node }) => node.lab.run("rm", readyFile),
    after: ({ node }) => node.lab.run("touch", readyFile),
    ...{ finding: "PrimaryNotReady", quotes: /primary-is-ready/ },
  },
  "a state directory that cannot be written": {
    before: ({ node }) => remountState(node, "ro"),
    after: ({ node }) => remountState(node, "rw"),
    ...{ finding: "StateUnwritable", quotes: /attachment record/ },
  },
};

const daemonConfig = { namespaceIsolation: true, readinessindicatorfile: readyFile, binDir };

const test = nodeTest
  .extend("daemonConfig", { scope: "file" }, daemonConfig)
  .extend("plugins", { scope: "file" }, async ({ node }) => {
    const plugins = await ScriptedPlugins.create(node.lab, "scripted");
    node.cniPath = [plugins.binDir, ...node.cniPath];
    return plugins;
  });

test.beforeAll(async ({ idleNode: node }) => {
  await node.lab.run("touch", readyFile);
  await node.lab.run("mkdir", binDir);
  await node.lab.run("mkdir", "-p", node.stateDir);
  await node.lab.run("mount", "-t", "tmpfs", "tmpfs", node.stateDir);
  node.defaultNetwork = ptp("default", 80);
});

test.for(Object.entries(cases))("%s", async ([, scenario], { node, plugins }) => {
  const { net = bridge("net", 91), networks = "net", conf, before, after, ...options } = scenario;
  await node.nad("net", net === "" ? undefined : (net as object));
  const pod = await node.newPod({ networks, ...options });
  const scene = { node, pod, plugins };
  await before?.(scene);
  await pod.add(conf === undefined ? {} : { conf });
  await after?.(scene);
  const advice = await explained(node.socketPath, `default/${pod.name}`);
  expect(advice.finding, advice.sentence).toBe(scenario.finding);
  expect(advice.sentence).toMatch(scenario.quotes);
  expect(advice.ok).toBe(false);
  await plugins.reset();
});

test("a pod that cannot be detached, and then is", async ({ node, plugins }) => {
  await node.nad("net", list("net", { type: "scripted" }));
  const pod = await node.newPod({ networks: "net" });
  await pod.mustAdd();
  await pod.addLink("net1");
  const attached = await explained(node.socketPath, `default/${pod.name}`);
  expect(attached.sentence).toBe("All networks are attached: eth0=default, net1=default/net.");
  await plugins.uninstall("scripted");
  await pod.del();
  const { finding, sentence } = await explained(node.socketPath, `default/${pod.name}`);
  expect(finding, sentence).toBe("PluginMissing");
  await plugins.install("scripted");
  await pod.mustDel();
});

test("a pod that there is not, one that is not attached yet, and one whose annotation is changed later", async ({
  node,
}) => {
  const findings: string[] = [];
  const note = async (pod: string): Promise<unknown> =>
    findings.push((await explained(node.socketPath, `default/${pod}`)).finding);
  await note("missing");
  const pod = await node.newPod();
  await note(pod.name);
  await pod.mustAdd();
  await note(pod.name);
  await node.nad("net", bridge("net", 91));
  await pod.annotate({ networks: "net" });
  await note(pod.name);
  const attached = "NothingRequested";
  expect(findings).toEqual(["PodNotFound", "NotAttachedYet", attached, "AnnotationChanged"]);
  await pod.mustDel();
});

test("a node without an API server", async ({ node }) => {
  const socket = join(node.lab.dir, "away/plexus.sock");
  const kubeconfig = join(node.lab.dir, "kubeconfig");
  const cluster = { server: "https://127.0.0.1:1" };
  const parts = {
    clusters: [{ name: "away", cluster }],
    users: [{ name: "away", user: {} }],
    contexts: [{ name: "away", context: { cluster: "away", user: "away" } }],
    "current-context": "away",
  };
  await writeFile(kubeconfig, JSON.stringify(parts));
  const config = join(node.lab.dir, "away.yaml");
  await writeFile(config, JSON.stringify({ apiTimeoutMs: 1000 }));
  const plexusd = await startPlexusd({
    socket,
    stateDir: node.stateDir,
    logFile: join(node.lab.dir, "away.log"),
    flags: ["--kubeconfig", kubeconfig, "--config", config],
    enter: (...command) => node.lab.command(...command),
  });
  const pod = await node.newPod();
  await pod.add({ env: { PLEXUS_SOCKET: socket } });
  const { finding, sentence } = await explained(socket, `default/${pod.name}`);
  await plexusd.stop();
  expect(finding, sentence).toBe("ApiUnavailable");
});

async function remountState({ lab, stateDir }: PlexusNode, mode: "ro" | "rw"): Promise<void> {
  // Records are open until they are durable, for half a second; such a file system stays writable.
  await waitUntil(`the state directory is ${mode}`, async () => {
    await lab.run("mount", "-o", `remount,${mode}`, stateDir);
    return true;
  });
}
