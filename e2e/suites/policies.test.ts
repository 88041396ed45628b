import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Cluster, startCluster } from "../cluster/kubernetes/cluster.ts";
import { SlowApi } from "../cluster/kubernetes/slow-api.ts";
import { home } from "../cluster/scenarios/target/objects.ts";
import { restartPlexus, writeConfig } from "../cluster/scenarios/target/plexus.ts";
import { Scene } from "../cluster/scenarios/target/scene.ts";
import { hostLocal, list } from "../support/networks.ts";
import { nad } from "../support/node/manifests.ts";
import { poll } from "../support/wait.ts";
import { Enforcer } from "./enforcer.ts";
import { installers } from "./suite.ts";

/** How late the API server passes a PATCH of a pod on. */
const delaysMs = [500, 1000, 4000];

const enforcer = await Enforcer.find();
const cases = await enforcer.cases();

/** The results with Multus, by the file of cases. */
const ofMultus = new Map<string, string[]>();

describe("multi-networkpolicy-nftables with Multus", () => {
  let cluster: Cluster | undefined;

  beforeAll(async () => {
    cluster = await startCluster();
    await installers.Multus(cluster);
    await enforcer.install(cluster);
  });

  afterAll(() => cluster?.[Symbol.asyncDispose]());

  test.each(cases)("its own cases pass: %s", async (name) => {
    if (cluster === undefined) throw new Error("the cluster could not be started");
    const output = await enforcer.run(cluster, name);
    ofMultus.set(name, resultsOf(output));
    expectPassed(output);
  });
});

/** Denies what comes in on the network `guarded`. */
const policy = {
  apiVersion: "k8s.cni.cncf.io/v1beta1",
  kind: "MultiNetworkPolicy",
  metadata: {
    name: "deny",
    namespace: home,
    annotations: { "k8s.v1.cni.cncf.io/policy-for": "guarded" },
  },
  spec: { podSelector: {}, policyTypes: ["Ingress"] },
};

const guarded = list("guarded", {
  type: "macvlan",
  master: "net0",
  mode: "bridge",
  ipam: hostLocal(177),
});

describe("multi-networkpolicy-nftables, which reads a pod's network-status once", () => {
  let cluster: Cluster | undefined;
  let slow: SlowApi | undefined;
  const started = (): Cluster => {
    if (cluster === undefined) throw new Error("the cluster could not be started");
    return cluster;
  };
  const scene = (): Scene => new Scene(started());

  beforeAll(async () => {
    cluster = await startCluster();
    slow = await SlowApi.start(cluster);
    await installers.Plexus(cluster);
    await enforcer.install(cluster);
    await scene().prepare();
    await cluster.apply(nad("guarded", guarded, { namespace: home }));
    await cluster.apply(policy);
  });

  afterEach(async () => {
    await scene().kubectl("delete", "pods", "--all", "--timeout=120s");
  });

  afterAll(() => cluster?.[Symbol.asyncDispose]());

  describe.each(delaysMs)("with an API server that is %i ms late", (ms) => {
    beforeAll(() => slow?.delay(ms));

    test("a deny policy is in force for a pod that starts", async () => {
      const seconds = await untilDenied(scene());
      console.log(`in force ${seconds} s after the pod was ready`);
      expect(seconds).toBeLessThan(10);
    });

    test.each(cases)("its own cases pass, as many as with Multus: %s", async (name) => {
      const output = await enforcer.run(started(), name);
      expectPassed(output);
      expect(resultsOf(output)).toEqual(ofMultus.get(name));
    });
  });

  test("with publishStatus: afterReply, the policy is never in force", async () => {
    await writeConfig(started(), "publishStatus: afterReply\n");
    await restartPlexus(started());
    await slow?.delay(4000);
    expect(await untilDenied(scene())).toBe(Number.POSITIVE_INFINITY);
  });
});

/** The lines of what Bats prints that have a case's result. */
function resultsOf(output: string): string[] {
  return output.match(/^(?:not )?ok \d.*$/gm) ?? [];
}

function expectPassed(output: string): void {
  expect(output).toMatch(/^ok 1 /m);
  expect(output).not.toMatch(/^not ok/m);
}

async function startServer(scene: Scene, name: string): Promise<void> {
  const container = { image: enforcer.image, command: ["nc", "-klp", "5555"] };
  const securityContext = { privileged: true };
  await scene.startPod(name, {
    networks: "guarded",
    container: { ...container, securityContext },
  });
}

/** After how many seconds a pod that starts cannot be reached any more; infinite if that takes longer than twenty. */
async function untilDenied(scene: Scene): Promise<number> {
  await startServer(scene, "client");
  await startServer(scene, "server");
  const begun = performance.now();
  const [, net1] = await scene.networkStatus("server");
  const connect = `echo x | nc -w 1 ${net1?.ips?.[0]} 5555`;
  const command = ["exec", "client", "--", "sh", "-c", connect];
  const isDenied = async (): Promise<boolean> =>
    (await scene.target.tryKubectl(`--namespace=${home}`, ...command)).exitCode !== 0;
  const since = await poll(
    async () => {
      const at = performance.now();
      // With each event of a pod, the enforcer removes the rules and adds them again.
      return (await isDenied()) && (await isDenied()) && (await isDenied()) && at;
    },
    { timeoutMs: 20_000 },
  );
  return since === undefined ? Number.POSITIVE_INFINITY : (since - begun) / 1000;
}
