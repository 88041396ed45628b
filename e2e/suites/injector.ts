import { cp, mkdir, mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import { prepareTools } from "../cluster/kubernetes/tools.ts";
import { builtModule } from "../cluster/machine/go-module.ts";
import { writeImageOnBusybox } from "../cluster/machine/images.ts";
import { run } from "../cluster/machine/run.ts";
import { codeBlocks } from "../support/markdown.ts";
import { repositoryRoot } from "../support/paths.ts";
import { waitUntil } from "../support/wait.ts";
import { outputOf } from "./suite.ts";

const version = "v1.9.0";
const reference = `ghcr.io/k8snetworkplumbingwg/network-resources-injector:${version}`;

/** Its specs, but for those that need huge pages, or wait minutes for its ConfigMap. */
const focus = "Verify that resource and POD|Network injection testing|Node selector test";

/** Resources that a node only claims to have: no device plugin offers them. */
const resources = ["foo", "boo"];

/** Builds the webhook and its specs, which name a node, unless they are in the cache. */
function prepareInjector(node: string): Promise<string> {
  return builtModule({
    name: "resources-injector",
    module: `github.com/k8snetworkplumbingwg/network-resources-injector@${version}`,
    programs: { webhook: "./cmd/webhook" },
    tests: { specs: "./test/e2e" },
    edit: `sed -i s/kind-worker2/${node}/ test/e2e/nodeselector_test.go`,
  });
}

/** Installs deploy/components/resources-injector, as docs/user/devices.md does. */
export async function installInjector(cluster: Cluster): Promise<void> {
  const built = await prepareInjector(cluster.nodeName);
  const { busybox } = await prepareTools();
  const archive = join(cluster.directory, "injector.tar");
  const files = { "usr/bin/webhook": join(built, "webhook") };
  await cluster.node.loadImage(await writeImageOnBusybox(busybox, { reference, archive, files }));
  await using overlay = await mkdtempDisposable(join(tmpdir(), "plexus-injector-"));
  const deploy = join(overlay.path, "deploy");
  await cp(join(repositoryRoot, "deploy/components"), join(deploy, "components"), {
    recursive: true,
  });
  const directory = join(deploy, "overlays/mine");
  await mkdir(directory, { recursive: true });
  const page = codeBlocks(await readFile(join(repositoryRoot, "docs/user/devices.md"), "utf8"));
  const blockWith = (part: string): string =>
    page.find(({ text }) => text.includes(part))?.text ?? "";
  await run(["sh", "-euc", blockWith("openssl req")], { cwd: directory });
  await writeFile(join(directory, "kustomization.yaml"), blockWith("secretGenerator:"));
  await cluster.kubectl("apply", "--kustomize", directory);
  const deployment = ["deployment/network-resources-injector", "--namespace=kube-system"];
  await cluster.kubectl("rollout", "status", ...deployment, "--timeout=120s");
}

/** Runs its specs. @returns what Ginkgo prints */
export async function runSpecs(cluster: Cluster): Promise<string> {
  const patch = resources.map((name) => ({
    op: "add",
    path: `/status/capacity/example.com~1${name}`,
    value: "100",
  }));
  const change = ["--subresource=status", "--type=json", `--patch=${JSON.stringify(patch)}`];
  await cluster.kubectl("patch", "node", cluster.nodeName, ...change);
  const path = "{.status.allocatable.example\\.com/foo}";
  const read = ["get", "node", cluster.nodeName, `--output=jsonpath=${path}`];
  await waitUntil(
    "the kubelet offers what the node claims",
    async () => {
      return (await cluster.kubectl(...read)) === "100";
    },
    { intervalMs: 500 },
  );
  const specs = join(await prepareInjector(cluster.nodeName), "specs");
  const images = ["IMAGE_REGISTRY=docker.io/library", "TEST_IMAGE=busybox:1.37"];
  const { kubeconfig } = cluster.controlPlane;
  const flags = [`-kubeconfig=${kubeconfig}`, "-ginkgo.noColor", `-ginkgo.focus=${focus}`];
  return outputOf(cluster.administratorCommand("env", ...images, specs, ...flags));
}
