import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { list } from "../../support/networks.ts";
import { nad } from "../../support/node/manifests.ts";
import { run } from "../machine/run.ts";
import { home, networks } from "./target/objects.ts";
import {
  kubectlPlexus,
  plexusPod,
  readConfig,
  waitForPlexus,
  writeConfig,
} from "./target/plexus.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, skipGiven, type Target } from "./target/target.ts";

/** What `kubectl plexus doctor -o json` prints of a node. */
interface DoctorReport {
  readonly node: string;
  readonly findings: readonly { readonly check: string; readonly verdict: string }[];
}

/** Questions about a pod without net1, asked with kubectl plexus as installed on a workstation. */
export function explainScenarios(scene: () => Scene): void {
  describe("kubectl plexus", () => {
    test("explains pods and the next step, checks the node, and names a missing permission", async () => {
      const { target } = scene();
      await scene().startPod("found", { networks: "red" });
      const context = await target.kubectl("config", "current-context");
      const flags = ["-n", home, "--context", context, "--request-timeout=60s"];
      const found = await kubectlPlexus(target, ["explain", "found", ...flags]);
      expect(found.stdout.split("\n")[0]).toMatch(
        new RegExp(`^All networks are attached: eth0=\\S+, net1=${home}/red\\.$`),
      );
      expect(found.exitCode).toBe(0);

      await scene().createPod("lost", { networks: "nowhere" });
      await scene().waitForEvent("lost", "NoNetworkFound");
      const lost = await kubectlPlexus(target, ["explain", `${home}/lost`]);
      expect(lost.exitCode).toBe(1);
      expect(lost.stdout.split("\n")[0]).toContain(
        `Could not attach ${home}/nowhere: there is no NetworkAttachmentDefinition ${home}/nowhere, which the pod asks for. Create the definition`,
      );
      expect(lost.stdout).toMatch(/^LAST EVENT +REASON +MESSAGE\n/m);
      for (const reason of ["Scheduled", "NoNetworkFound"]) {
        expect(lost.stdout).toMatch(new RegExp(`^\\d{4}-\\d\\d-\\d\\dT[0-9:]{8}Z ${reason} `, "m"));
      }
      expect(await findingOf(target, "lost")).toBe("NoNetworkFound");
      const asked = await kubectlPlexus(target, ["explain", `${home}/lost`], {
        flags: ["--as=nobody"],
      });
      expect(asked).toMatchObject({
        exitCode: 2,
        stderr: expect.stringContaining(`you may not get pods in ${home}: ask for that right`),
      });

      const ofTenant = ["pods", "events", "network-attachment-definitions.k8s.cni.cncf.io"];
      const create = (kind: string, ...flags: string[]) =>
        target.kubectl("-n", home, "create", kind, "tenant", ...flags);
      await create("role", "--verb=get,list", `--resource=${ofTenant.join()}`);
      await create("rolebinding", "--role=tenant", "--user=tenant");
      const alone = await kubectlPlexus(target, ["explain", `${home}/lost`], {
        flags: ["--as=tenant"],
      });
      expect(alone).toMatchObject({ exitCode: 1, stderr: "" });
      expect(alone.stdout).toMatch(/^asks for: nowhere$/m);
      expect(alone.stdout).toMatch(
        new RegExp(`^definitions in namespace ${home}: .*\\bred\\b`, "m"),
      );
      expect(alone.stdout).toMatch(/^- NoNetworkFound: /m);
      await target.kubectl("-n", home, "delete", "role,rolebinding", "tenant");

      await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-sysdump-"));
      const dumped = await kubectlPlexus(target, ["sysdump", target.nodeName], { cwd: dir.path });
      expect(dumped).toMatchObject({ exitCode: 0, stderr: `${target.nodeName} (1 of 1)` });
      const archive = join(dir.path, dumped.stdout);
      const files = (await run(["tar", "-tzf", archive])).split("\n").map((path) => basename(path));
      const pod = (await plexusPod(target)).metadata.name;
      const logs = ["install", "plexusd"].map((container) => `${pod}.${container}.log`);
      const kept = [
        "doctor.json",
        "networks.json",
        "records.txt",
        "events.json",
        "plexus.json",
        ...logs,
      ];
      expect(files).toEqual(expect.arrayContaining(kept));
      expect(files.filter((name) => name.endsWith(".err"))).toEqual([]);

      const { stdout } = await kubectlPlexus(target, ["doctor", "-o", "json"]);
      const reports = JSON.parse(stdout) as DoctorReport[];
      const ofNode = reports.find(({ node }) => node === target.nodeName);
      const verdicts = ofNode?.findings.map(({ check, verdict }) => [check, verdict]) ?? [];
      expect(Object.fromEntries(verdicts)).toMatchObject({
        plexusd: "ok",
        configuration: "ok",
        "node configuration": "ok",
        "pods and definitions": "ok",
        shim: "ok",
      });
    });

    test("events and explain name the link that is missing, and have the details of a plugin's error", async () => {
      const { target } = scene();
      const says = async (name: string, plugin: object, ...words: string[]): Promise<void> => {
        await target.apply(nad(name, list(name, plugin), { namespace: home }));
        await scene().createPod(name, { networks: name });
        const { message } = await scene().waitForEvent(name, "AttachFailed");
        const { stdout } = await kubectlPlexus(target, ["explain", `${home}/${name}`]);
        expect(stdout).toMatch(new RegExp(`^(Could not|Cannot) attach ${home}/${name}[ :]`));
        for (const word of words)
          for (const text of [message, stdout]) expect(text).toContain(word);
      };
      const named = 'Link not found (the configuration names master "eth9"';
      await says("adrift", { type: "macvlan", master: "eth9" }, named);
      const { stdout } = await kubectlPlexus(target, ["explain", `${home}/adrift`]);
      expect(stdout).toContain(`${home}/adrift: the node has no link "eth9", also not as an`);
      expect(stdout).toMatch(/^nodes that have what these networks need: none$/m);
      await target.inNode(["sh", "-c", lendingPlugin]);
      onTestFinished(() => target.inNode(["rm", "/opt/cni/bin/lending"]).then());
      await says("lent", { type: "lending" }, "no lease", "the server is silent");
    });

    test("reports an unknown key, and a definition that was deleted while the pod runs", async () => {
      const { target } = scene();
      await target.apply(nad("late", networks.late, { namespace: home }));
      await scene().startPod("kept", { networks: [{ name: "late", ip: ["10.165.0.77/24"] }] });
      const { type, message } = await scene().waitForEvent("kept", "UnknownKey");
      expect(type).toBe("Warning");
      expect(message).toContain('key "ip": unknown key, ignored');
      await scene().kubectl("delete", "network-attachment-definition", "late");
      const says =
        "The pod runs, but will not start again: there is no NetworkAttachmentDefinition";
      await eventually("explain finds that the definition is gone", async () => {
        const { stdout } = await kubectlPlexus(target, ["explain", `${home}/kept`]);
        return stdout.startsWith(says);
      });
    });

    test("doctor reports an invalid configuration, plexusd that does not start with it, and a renamed primary", async (context) => {
      skipGiven(context);
      const { target } = scene();
      const doctorSays = (...words: string[]): Promise<true> =>
        eventually(`doctor says ${words.join(" and ")}`, async () => {
          const { exitCode, stdout } = await kubectlPlexus(target, ["doctor"]);
          return exitCode === 1 && words.every((each) => stdout.includes(each));
        });
      const dir = "/etc/cni/net.d";
      const rename = (from: string, to: string): Promise<string> =>
        target.inNode(["mv", `${dir}/${from}`, `${dir}/${to}`]);
      await rename("10-primary.conflist", "20-primary.conflist");
      try {
        await doctorSays("20-primary.conflist is taken over in ");
      } finally {
        await rename("20-primary.conflist", "10-primary.conflist");
      }
      const config = await readConfig(target);
      await writeConfig(target, `${config}\nlogLevle: debug\n`);
      try {
        await syncVolumes(target);
        await doctorSays("PROBLEM  configuration", "logLevle: unknown key");
        const ofReason = ["--namespace=default", "--field-selector=reason=InvalidConfiguration"];
        const events = await target.kubectl("get", "events", ...ofReason);
        expect(events).toMatch(/logLevle: unknown key, .*correct the ConfigMap plexus-config/);
        await deletePlexusPod(target);
        await doctorSays(" -c install (", "logLevle: unknown key");
      } finally {
        await writeConfig(target, config);
        await deletePlexusPod(target);
        await waitForPlexus(target);
      }
    });

    test("reports that another CNI configuration shadows Plexus, and a pod started meanwhile", async (context) => {
      skipGiven(context);
      const { target } = scene();
      const waitForFinding = (pod: string, finding: string): Promise<true> =>
        eventually(
          `explain finds ${finding}`,
          async () => (await findingOf(target, pod)) === finding,
        );
      const [dir, first] = ["/etc/cni/net.d", "00-first.conflist"];
      const copy = `cd ${dir} && cp $(ls | grep -v plexus | head -n 1) ${first}`;
      await target.inNode(["sh", "-c", copy]);
      try {
        await eventually("plexusd reports the shadowing", async () =>
          (await kubectlPlexus(target, ["doctor"])).stdout.includes("shadowed"),
        );
        await scene().startPod("overlooked", { networks: "red" });
        await waitForFinding("overlooked", "PlexusConfShadowed");
      } finally {
        await target.inNode(["rm", `${dir}/${first}`]);
      }
      await waitForFinding("overlooked", "NotAttached");
      await scene().startPod("of-the-host", { networks: "red", spec: { hostNetwork: true } });
      await waitForFinding("of-the-host", "HostNetwork");
    });
  });
}

/** Installs a plugin whose error has details. */
const lendingPlugin = `cat >/opt/cni/bin/lending <<'END'
#!/bin/sh
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion":"1.0.0","code":110,"msg":"no lease","details":"the server is silent"}'
exit 1
END
chmod 755 /opt/cni/bin/lending`;

/** The kubelet updates the volumes of a pod that changes at once, else within a minute. */
async function syncVolumes(target: Target): Promise<void> {
  const { name } = (await plexusPod(target)).metadata;
  await target.kubectl("--namespace=kube-system", "annotate", "pod", name, "plexus-e2e/sync=1");
}

async function deletePlexusPod(target: Target): Promise<void> {
  const { name } = (await plexusPod(target)).metadata;
  await target.kubectl("--namespace=kube-system", "delete", "pod", name);
}

async function findingOf(target: Target, pod: string): Promise<string> {
  const { stdout } = await kubectlPlexus(target, ["explain", "-o", "json", `${home}/${pod}`]);
  return JSON.parse(stdout).advice.finding;
}
