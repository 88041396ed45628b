import { join } from "node:path";
import { expect } from "vitest";
import { needsPlexusd } from "../../support/needs-plexusd.ts";
import { bridge, hostLocal, list, macvlan, ptp } from "../../support/networks.ts";
import { explained } from "../../support/node/explain.ts";
import type { PlexusNode } from "../../support/node/plexus-node.ts";
import { test as nodeTest } from "../../support/node/test.ts";
import type { PodOptions, TestPod } from "../../support/node/test-pod.ts";
import { waitUntil } from "../../support/wait.ts";

/**
 * Errors of the real shim, plexusd, plugins and kernel. `plexusctl explain` recognizes errors by their text, so their
 * real text is tested.
 */
interface Scene {
  readonly node: PlexusNode;
  readonly pod: TestPod;
}

interface Case {
  readonly finding: string;
  /** What the sentence quotes of the real error. */
  readonly quotes: RegExp;
  /** The definition `net` of the case. */
  readonly net?: object;
  readonly networks?: PodOptions["networks"];
  readonly before?: (scene: Scene) => Promise<unknown>;
  /** Undoes what would disturb others. */
  readonly after?: (scene: Scene) => Promise<unknown>;
}

/** Not listed in /etc/plexus/plugin-dirs, and not the runtime's. */
const binDir = "/run/cni/unlisted";
const pool = (ipam: object): object => ({ capabilities: { ips: true }, ipam });
const small = { type: "host-local", ranges: [[{ subnet: "10.90.0.0/30" }]] };
const asked = (ip: string): object[] => [{ name: "net", ips: [ip] }];

const cases: Readonly<Record<string, Case>> = {
  "a plugin in a directory that plugin-dirs does not list": {
    net: list("net", { type: "unlisted" }),
    before: ({ node }) => node.lab.run("cp", "/bin/true", join(binDir, "unlisted")),
    ...{ finding: "PluginRefused", quotes: /may not be executed/ },
  },
  "a range without a free address": {
    net: bridge("net", 90, { ipam: small }),
    before: async ({ node }) => (await node.newPod({ networks: "net" })).mustAdd(),
    ...{
      finding: "IpamExhausted",
      quotes: /no IP addresses available.* held by default\/\S+ \(10\.90/,
    },
  },
  "a plugin that finds no IPAM plugin": {
    net: bridge("net", 94, { ipam: { type: "no-such-ipam" } }),
    ...{ finding: "PluginMissing", quotes: /failed to find plugin "no-such-ipam"/ },
  },
  "an address that another pod has": {
    net: bridge("net", 91, pool(hostLocal(91))),
    networks: asked("10.91.0.9/24"),
    before: async ({ node }) => (await node.newPod({ networks: asked("10.91.0.9/24") })).mustAdd(),
    ...{ finding: "AddressTaken", quotes: /10\.91\.0\.9/ },
  },
  "an address outside the range": {
    net: bridge("net", 91, pool(hostLocal(91))),
    networks: asked("10.99.0.9/24"),
    ...{ finding: "AddressOutsideRange", quotes: /10\.99\.0\.9/ },
  },
  "a master that the node does not have": {
    net: macvlan("net", 92, { master: "eth7" }),
    ...{
      finding: "MasterMissing",
      quotes: /Link not found \(the configuration names master "eth7"/,
    },
  },
  "a disk that is read-only for a plugin": {
    net: bridge("net", 93, { ipam: { ...hostLocal(93), dataDir: "/sys/leases" } }),
    ...{ finding: "PluginDenied", quotes: /\/sys\/leases/ },
  },
  "a value that only the plugin knows to be wrong": {
    net: bridge("net", 91, { ipam: { type: "static", addresses: [{ address: "nonsense" }] } }),
    ...{ finding: "InvalidNetworkConfig", quotes: /nonsense/ },
  },
  "a missing network namespace": {
    before: ({ node, pod }) => node.lab.deleteNetns(pod.netns),
    ...{ finding: "InvalidNetns", quotes: /namespace/ },
  },
  "a read-only state directory": {
    before: ({ node }) => remountState(node, "ro"),
    after: ({ node }) => remountState(node, "rw"),
    ...{ finding: "StateUnwritable", quotes: /attachment record/ },
  },
};

const test = nodeTest.extend("daemonConfig", { scope: "file" }, { binDir });

needsPlexusd("explain asks it", () => {
  test.beforeAll(async ({ idleNode: node }) => {
    await node.lab.run("mkdir", "-p", binDir, node.stateDir);
    await node.lab.run("mount", "-t", "tmpfs", "tmpfs", node.stateDir);
    node.defaultNetwork = ptp("default", 80);
  });

  test.for(Object.entries(cases))("explain finds %s", async ([, scenario], { node }) => {
    const { net = bridge("net", 91), networks = "net", before, after } = scenario;
    await node.nad("net", net);
    const pod = await node.newPod({ networks });
    await before?.({ node, pod });
    await pod.add();
    await after?.({ node, pod });
    const advice = await explained(node.socketPath, `default/${pod.name}`);
    expect(advice.finding, advice.sentence).toBe(scenario.finding);
    expect(advice.sentence).toMatch(scenario.quotes);
    expect(advice.ok).toBe(false);
  });

  test("explain finds a missing pod, a pod that is not attached yet, and a changed annotation", async ({
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
});

async function remountState({ lab, stateDir }: PlexusNode, mode: "ro" | "rw"): Promise<void> {
  // Records are open until they are durable, for half a second; such a file system stays writable.
  await waitUntil(`the state directory is ${mode}`, async () => {
    await lab.run("mount", "-o", `remount,${mode}`, stateDir);
    return true;
  });
}
