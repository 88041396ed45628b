import { appendFile, cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "vitest";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import { prepareTools, programPath } from "../cluster/kubernetes/tools.ts";
import { builtModule } from "../cluster/machine/go-module.ts";
import { writeImageOnBusybox } from "../cluster/machine/images.ts";
import type { Command } from "../cluster/machine/run.ts";
import { columnsOf, expectCounts, goCounts, outputOf, type Suite } from "./suite.ts";

/** Its tests about networks of pods. Some end containerd. Left out: the one beside which no other pod may run. */
const selected = [
  "TestRunPodSandboxWith(SetupCNI|Shim)",
  "TestRunPodSandboxAndTeardownCNISlow",
  "TestSandbox",
  "TestPodDualStack",
  "TestPodHostname",
  "TestContainerdRestartSandboxRecover",
];

/** The image of their containers. */
const reference = "ghcr.io/containerd/busybox:1.36";

/** In place of `bridge`, which it calls: fails as a pod's annotation says. */
const plugin = "cni-bridge-fp";
const shim = "containerd-shim-runc-fp-v1";

interface ConfList {
  readonly plugins: readonly object[];
}

/**
 * Builds the tests, and the plugin and the shim that fail on request, unless they are in the cache. They keep their
 * pods' control groups below CGROUP_PARENT. One of them looks for host-local in the first configuration file, where the
 * primary network's list need not be.
 */
function prepareTests(): Promise<string> {
  return builtModule({
    name: "containerd-tests",
    module: "github.com/containerd/containerd/v2@v2.1.9",
    programs: {
      [plugin]: `./integration/failpoint/cmd/${plugin}`,
      [shim]: `./integration/failpoint/cmd/${shim}`,
    },
    tests: { integration: "./integration" },
    edit: `cd integration
sed -i 's|var cgroupParent string|cgroupParent := os.Getenv("CGROUP_PARENT")|' main_test.go
sed -i 's|string(cniConfig), "host-local"|string(cniConfig), ""|' sandbox_clean_remove_test.go`,
  });
}

/** Puts the plugin into the primary network, and the shim beside runc. */
async function prepare({ node, directory }: Cluster): Promise<void> {
  const [built, { busybox }] = await Promise.all([prepareTests(), prepareTools()]);
  await cp(join(built, plugin), join(node.cniBinDir, plugin));
  const primary = join(node.cniConfDir, "10-primary.conflist");
  const conf = JSON.parse(await readFile(primary, "utf8")) as ConfList;
  const [bridge, ...others] = conf.plugins;
  const capabilities = { "io.kubernetes.cri.pod-annotations": true };
  const plugins = [{ ...bridge, type: plugin, capabilities }, ...others];
  await writeFile(primary, JSON.stringify({ ...conf, plugins }));
  await appendFile(
    node.at("containerd.toml"),
    `
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc-fp]
  runtime_type = "runc-fp.v1"
  runtime_path = "${join(built, shim)}"
  pod_annotations = ["io.containerd.runtime.v2.shim.failpoint.*"]
`,
  );
  const archive = join(directory, "containerd-tests.tar");
  await node.loadImage(await writeImageOnBusybox(busybox, { reference, archive, files: {} }));
}

/** Starts containerd again each time it ends, after five seconds, as the tests look each second whether it has ended. */
async function keepContainerd({ node }: Cluster): Promise<void> {
  const tools = await prepareTools();
  await node.runtime.stop();
  const path = `PATH=${programPath(tools)}`;
  const containerd = ["env", path, "containerd", `--config=${node.at("containerd.toml")}`];
  const script = 'while :; do "$@" || true; sleep 5; done';
  const keeper = await node.host.startDaemon("kept-containerd", [
    ...["sh", "-c", script, "sh"],
    ...containerd,
  ] as unknown as Command);
  const ctr = join(tools.containerd, "ctr");
  const version: Command = [ctr, `--address=${node.runtime.socket}`, "version"];
  const answers = async (): Promise<boolean> => (await node.host.tryRun(version)).exitCode === 0;
  await keeper.waitUntil("containerd answers", answers);
}

const suite: Suite = {
  name: "containerd",
  prepare,
  async run(cluster) {
    const { node, directory } = cluster;
    // It would remove pods that the API server does not know.
    await node.stopKubelet();
    await keepContainerd(cluster);
    const environment = [`CGROUP_PARENT=/${node.cgroup}`, `TMPDIR=${directory}`];
    const program = join(await prepareTests(), "integration");
    const flags = ["-test.v", `-test.run=^(${selected.join("|")})`];
    const endpoint = `-cri-endpoint=unix://${node.runtime.socket}`;
    return outputOf(node.host.command(["env", ...environment, program, endpoint, ...flags]));
  },
  count: goCounts,
  expected: {
    Plexus: { passed: 14, failed: 0 },
    Multus: { passed: 3, failed: 11 },
    alone: { passed: 14, failed: 0 },
  },
};

test.each(columnsOf(suite))("%s: as many pass as docs/reference/suites.md shows", (column) =>
  expectCounts(suite, column),
);
