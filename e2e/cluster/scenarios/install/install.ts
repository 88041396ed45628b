import { describe, expect, onTestFinished, test } from "vitest";
import { nad } from "../../../support/node/manifests.ts";
import { home } from "../target/objects.ts";
import {
  installPlexus,
  nodeInPlexusd,
  plexusctl,
  plexusdPid,
  plexusPod,
  readConfig,
  writeConfig,
} from "../target/plexus.ts";
import type { Scene } from "../target/scene.ts";
import { nodeAddress, type Target } from "../target/target.ts";

/** Checks the installation before any pod uses it. */
export function installScenarios(scene: () => Scene): void {
  describe("the installation", () => {
    test("writes 00-plexus.conflist, reports it in an event, and keeps the node ready", async () => {
      const { target } = scene();
      const conf = await target.inNode(["cat", "/etc/cni/net.d/00-plexus.conflist"]);
      const firstOther = "cat /etc/cni/net.d/$(ls /etc/cni/net.d | grep -v plexus | head -n 1)";
      const primary = await target.inNode(["sh", "-c", firstOther]);
      const { name } = JSON.parse(primary) as { name: string };
      expect(JSON.parse(conf)).toMatchObject({ name, plugins: [{ type: "plexus" }] });
      const nodes = await target.kubectl("get", "node", target.nodeName, "--no-headers");
      expect(nodes).toMatch(/ Ready /);
      const about = ["--field-selector=reason=PlexusConfActive", "--namespace=default"];
      const events = await target.kubectl("get", "events", ...about);
      expect(events).toContain(`node/${target.nodeName}`);
    });

    test("keeps the operator's settings when its manifests are applied again", async () => {
      const { target } = scene();
      const before = await readConfig(target);
      onTestFinished(() => writeConfig(target, before));
      await writeConfig(target, `${before}\n# mine\n`);
      await installPlexus(target);
      expect(await readConfig(target)).toContain("# mine");
    });

    test("creates the CRD with short names, and the CRD rejects a config that is not a string", async () => {
      const { target } = scene();
      for (const name of ["nad", "net-attach-def", "network-attachment-definitions"]) {
        const listed = await target.kubectl("get", name, `--namespace=${home}`, "--output=name");
        expect(listed).toContain("networkattachmentdefinition.k8s.cni.cncf.io/red");
      }
      const bad = nad("bad", {}, { namespace: home });
      const spec = { config: { cniVersion: "1.0.0" } };
      await expect(target.apply({ ...bad, spec })).rejects.toThrow(/spec\.config/);
    });

    test("serves metrics only to a token with the permission to read them [S-505]", async () => {
      const { target } = scene();
      const reader = await tokenOf(target, "plexus-metrics-reader");
      const stranger = await tokenOf(target, "default");
      const statuses = await metricsStatuses(target, [reader, stranger, "forged", ""]);
      expect(statuses).toEqual([200, 403, 401, 401]);
    });

    test("serves health and metrics on localhost only, and keeps its API watches open [S-504]", async () => {
      const { target } = scene();
      await scene().startPod("asks-health", { spec: { hostNetwork: true } });
      const ask = async (path: string): Promise<string> =>
        scene().exec("asks-health", "wget", "-qO-", `http://127.0.0.1:19500${path}`);
      expect(await ask("/healthz")).toMatch(/ok/i);
      expect(await ask("/readyz")).toMatch(/ok|ready/i);
      const metrics = await ask("/metrics");
      expect(metrics).toMatch(/^plexus_build_info\{.*version="\d/m);
      expect(metrics).toMatch(/^plexus_conf_state\{state="active"\} 1$/m);
      for (const resource of ["pods", "network-attachment-definitions"]) {
        expect(metrics).toContain(`plexus_apiserver_cache_synced{resource="${resource}"} 1`);
      }
      expect(await plexusctl(target, "status")).toMatch(/node configuration: active.*ready$/s);
      const outside = ["wget", "-qO-", "-T3", `http://${await nodeAddress(target)}:19500/metrics`];
      await expect(scene().exec("asks-health", ...outside)).rejects.toThrow(/refused/);
      const { name } = (await plexusPod(target)).metadata;
      const logs = await target.kubectl("--namespace=kube-system", "logs", name);
      expect(logs.split("\n").filter((line) => /API watch/.test(line))).toEqual([]);
    });

    test("runs plexusd without privileges [S-110]", async () => {
      const { target } = scene();
      const pid = await plexusdPid(target);
      const status = await target.inNode(["cat", `/proc/${pid}/status`]);
      for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]) {
        expect(status).toMatch(new RegExp(`^${set}:\t0{16}$`, "m"));
      }
      expect(status).toMatch(/^NoNewPrivs:\t1$/m);
      expect(status).toMatch(/^Seccomp:\t2$/m);
      const mounts = await target.inNode(["cat", `/proc/${pid}/mountinfo`]);
      expect(mounts).toMatch(/^\d+ \d+ \S+ \S+ \/ ro[, ]/m);
      const own = await namespacesOf(target, pid);
      const node = await namespacesOf(target, "1");
      expect(own.filter((namespace) => node.includes(namespace))).toEqual([]);
    });
  });
}

async function namespacesOf(target: Target, pid: string): Promise<string[]> {
  const names = ["pid", "mnt", "ipc"];
  return Promise.all(names.map((name) => target.inNode(["readlink", `/proc/${pid}/ns/${name}`])));
}

/** A short-lived token of a service account in kube-system. */
async function tokenOf(target: Target, account: string): Promise<string> {
  const made = await target.kubectl("--namespace=kube-system", "create", "token", account);
  return made.trim();
}

/** Returns the metrics port's HTTP status for each token ("" = none), asked from plexusd's pod. */
async function metricsStatuses(target: Target, tokens: readonly string[]): Promise<number[]> {
  const host = (await plexusPod(target)).status.podIP ?? "";
  const script = `
    const ask = (token) => new Promise((resolve, reject) => require("node:https")
      .get({ host: ${JSON.stringify(host)}, port: 19501, path: "/metrics", rejectUnauthorized: false, agent: false,
        headers: token === "" ? {} : { authorization: "Bearer " + token } },
        (response) => { response.resume(); resolve(response.statusCode); }).on("error", reject));
    (async () => { const all = []; for (const token of ${JSON.stringify(tokens)}) all.push(await ask(token));
      console.log(JSON.stringify(all)); })();`;
  return JSON.parse(await nodeInPlexusd(target, "-e", script)) as number[];
}
