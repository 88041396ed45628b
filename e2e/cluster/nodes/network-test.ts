import { join } from "node:path";
import { execa } from "execa";
import { expect, onTestFinished, test } from "vitest";
import { bridge, list } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { repositoryRoot } from "../../support/paths.ts";
import { nodeInterface } from "../kubernetes/addresses.ts";
import { waitForServiceAccount } from "../kubernetes/cluster.ts";
import { namespaceObject } from "../scenarios/target/objects.ts";
import { eventually } from "../scenarios/target/target.ts";
import type { Lab } from "./lab.ts";

const namespace = "tested";
const twoPods = ["--nodes", "2"] as const;

/** `across` has no configuration: the file of its name on each node gives the node's part of the range. */
const definitions = {
  across: undefined,
  "node-local": bridge("node-local", 161),
  adrift: list("adrift", { type: "macvlan", master: "eth9" }),
};

/** The file of network `across` on the first node (1) or the second. */
function across(node: number): string {
  const part = (net: string) => ({ rangeStart: `${net}${node}0`, rangeEnd: `${net}${node}9` });
  const ranges = [
    [{ subnet: "10.168.0.0/24", ...part("10.168.0.") }],
    [{ subnet: "fd00:168::/64", ...part("fd00:168::") }],
  ];
  const ipam = { type: "host-local", ranges };
  return JSON.stringify(list("across", { type: "macvlan", master: nodeInterface, ipam }));
}

/** Both nodes have Plexus. */
export function networkTestScenarios(lab: () => Lab): void {
  test("kubectl plexus test: pods of both nodes, also for a tenant; in a namespace for restricted pods", async () => {
    await prepare(lab());
    const passed = await lab().kubectlPlexus(
      "test",
      `${namespace}/across`,
      "-o",
      "json",
      ...twoPods,
    );
    expect(passed.exitCode, passed.stderr).toBe(0);
    const { pods, probes } = JSON.parse(passed.stdout);
    expect(pods.map(({ node }: { node: string }) => node).toSorted()).toEqual(["node-1", "node-2"]);
    const ok = { mtu: 1500, finding: "ok" };
    expect(probes).toMatchObject([ok, ok, ok, ok]);
    expect(passed.stderr).toMatch(/ is attached on node node-2$/m);

    await allow("tester", "pods", ["get", "list", "watch", "create", "delete"]);
    await allow("prober", "pods/exec", ["create"]);
    await allow("reader", "network-attachment-definitions.k8s.cni.cncf.io", ["get"]);
    const asTenant = ["test", "across", "-n", namespace, "--as=tenant", ...twoPods];
    const refused = await lab().kubectlPlexus(...asTenant);
    expect(refused).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("you may not get daemonsets in kube-system"),
    });
    const image = "--image=localhost/plexus:dev";
    const tenant = await lab().kubectlPlexus(...asTenant, image);
    expect(tenant.exitCode, tenant.stderr).toBe(0);
    expect(tenant.stdout).toContain(
      `network ${namespace}/across: ok, 4 of 4 tests passed between 2 pods on 2 nodes`,
    );
    expect(tenant.stderr).not.toContain("orbidden");
    expect(await testPods()).toBe("");

    await lab().cluster.kubectl("-n", namespace, "create", "quota", "none", "--hard=pods=0");
    const limited = await lab().kubectlPlexus("test", `${namespace}/across`, ...twoPods);
    expect(limited).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("quota: none") });
    expect(limited.stderr).not.toContain("ask for that right");
    await lab().cluster.kubectl("-n", namespace, "delete", "quota", "none");
  });

  test("kubectl plexus test: the same addresses on both nodes, and a network that pods do not get", async () => {
    await prepare(lab());
    const local = await lab().kubectlPlexus("test", `${namespace}/node-local`, ...twoPods);
    expect(local.exitCode, local.stderr).toBe(1);
    expect(local.stdout).toMatch(/ DuplicateAddress: both pods have this address$/m);
    expect(local.stdout).toContain(`network ${namespace}/node-local: PROBLEM, 0 of 2 tests passed`);
    const adrift = await lab().kubectlPlexus("test", `${namespace}/adrift`, "--timeout=15");
    expect(adrift).toMatchObject({
      exitCode: 1,
      stdout: `network ${namespace}/adrift: PROBLEM, no pod was attached`,
    });
    expect(adrift.stderr).toMatch(/^Cannot attach tested\/adrift: the node has no link "eth9"/m);
    expect(await testPods()).toBe("");
  });

  test("kubectl plexus test: a pod that is deleted meanwhile", async () => {
    await prepare(lab());
    const flags = [...twoPods, "--timeout=15"];
    const running = lab().kubectlPlexus("test", `${namespace}/adrift`, ...flags);
    await eventually("the test has pods", async () => (await testPods()) !== "");
    const [pod = ""] = (await testPods()).split("\n");
    await lab().cluster.kubectl("-n", namespace, "delete", pod, "--now");
    const { exitCode, stderr } = await running;
    expect(exitCode, stderr).toBe(1);
    expect(stderr).toContain(`${pod.slice("pod/".length)} was deleted before it was attached`);
    expect(await testPods()).toBe("");
  });

  test("kubectl plexus test deletes its pods after Ctrl-C and SIGTERM, and later those of a run that was killed", async () => {
    await prepare(lab());
    for (const [signal, exitCode] of [
      ["SIGINT", 130],
      ["SIGTERM", 143],
    ] as const) {
      const run = await start();
      run.kill(signal);
      expect(await run.exitCode).toBe(exitCode);
      expect(await testPods()).toBe("");
    }
    const run = await start();
    run.kill("SIGKILL");
    await run.exitCode;
    expect(await testPods()).not.toBe("");
    const cleaned = await lab().kubectlPlexus("test", "--cleanup", "-n", namespace);
    expect(cleaned.exitCode, cleaned.stderr).toBe(0);
    expect(await testPods()).toBe("");
  });

  async function testPods(): Promise<string> {
    return lab().cluster.kubectl("-n", namespace, "get", "pods", "-o", "name");
  }

  async function allow(role: string, resource: string, verbs: readonly string[]): Promise<void> {
    const create = ["-n", namespace, "create"];
    const rights = [`--resource=${resource}`, ...verbs.map((verb) => `--verb=${verb}`)];
    await lab().cluster.kubectl(...create, "role", role, ...rights);
    await lab().cluster.kubectl(...create, "rolebinding", role, `--role=${role}`, "--user=tenant");
  }

  /** Starts a test whose pods do not get their network, and returns when they are there. */
  async function start() {
    const script = join(repositoryRoot, "deploy/kubectl-plexus");
    const command = lab().cluster.administratorCommand(script, "test", `${namespace}/adrift`);
    const [file, ...args] = command;
    // Ctrl-C goes to all processes of the terminal, other signals to one.
    const running = execa(file, args, { reject: false, detached: true });
    await eventually("the test has pods", async () => (await testPods()) !== "");
    return {
      kill: (signal: NodeJS.Signals) => {
        const pid = running.pid ?? 0;
        process.kill(signal === "SIGINT" ? -pid : pid, signal);
      },
      exitCode: running.then((result) => result.exitCode),
    };
  }
}

/** Makes the namespace and the networks of one test. */
async function prepare({ cluster, one, two }: Lab): Promise<void> {
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  await cluster.apply(namespaceObject(namespace, labels));
  onTestFinished(() => cluster.kubectl("delete", "namespace", namespace).then());
  await waitForServiceAccount(cluster, namespace);
  for (const [name, config] of Object.entries(definitions))
    await cluster.apply(nad(name, config, { namespace }));
  const dir = "/etc/cni/plexus/net.d";
  for (const [index, { target }] of [one, two].entries()) {
    const write = `mkdir -p ${dir} && printf '%s' "$1" >${dir}/across.conflist`;
    await target.inNode(["sh", "-c", write, "sh", across(index + 1)]);
  }
}
