import { join } from "node:path";
import { test } from "vitest";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import { prepareTools } from "../cluster/kubernetes/tools.ts";
import { builtModule } from "../cluster/machine/go-module.ts";
import { writeImageOnBusybox } from "../cluster/machine/images.ts";
import { repositoryRoot } from "../support/paths.ts";
import { columnsOf, expectCounts, ginkgoCounts, outputOf, type Suite } from "./suite.ts";

/** Its specs whose pods have a network, or the host's. */
const focus = "\\[k8s.io\\] (Networking|PodSandbox)|portforward|HostNetwork|support network";

/** What its containers execute: busybox, or a web server. */
const images = {
  busybox: ["registry.k8s.io/e2e-test-images/busybox:1.29-2"],
  web: [
    "registry.k8s.io/e2e-test-images/nginx:1.14-2",
    "registry.k8s.io/e2e-test-images/httpd:2.4.39-4",
    `gcr.io/k8s-staging-cri-tools/hostnet-nginx-${process.arch === "x64" ? "amd64" : process.arch}:latest`,
  ],
};

/** Serves at the ports of its web servers: 80, and 12003 on the host's network. */
const serve = "httpd -p 12003 -h /www; exec httpd -f -p 80 -h /www";

/** Builds it unless it is in the cache. It keeps its pods' control groups below CGROUP_PARENT. */
async function prepareCritest(): Promise<string> {
  const built = await builtModule({
    name: "critest",
    module: "sigs.k8s.io/cri-tools@v1.36.0",
    programs: {},
    tests: { critest: "./cmd/critest" },
    edit: `sed -i 's|^\\t"context"$|&\\n\\t"os"|; s|return ""|return os.Getenv("CGROUP_PARENT")|' pkg/common/pod_config.go`,
  });
  return join(built, "critest");
}

async function loadImages({ node, directory }: Cluster): Promise<void> {
  const { busybox } = await prepareTools();
  const archive = join(directory, "critest.tar");
  for (const reference of images.busybox) {
    await node.loadImage(await writeImageOnBusybox(busybox, { reference, archive, files: {} }));
  }
  for (const reference of images.web) {
    const files = { "www/index.html": join(repositoryRoot, "README.md") };
    const command = ["sh", "-c", serve];
    await node.loadImage(
      await writeImageOnBusybox(busybox, { reference, archive, files, command }),
    );
  }
}

const suite: Suite = {
  name: "critest",
  prepare: loadImages,
  async run({ node, directory }) {
    const critest = await prepareCritest();
    // It would remove pods that the API server does not know.
    await node.stopKubelet();
    const endpoint = `-runtime-endpoint=unix://${node.runtime.socket}`;
    const flags = [endpoint, "-ginkgo.no-color", `-ginkgo.focus=${focus}`];
    const environment = [`CGROUP_PARENT=/${node.cgroup}`, `TMPDIR=${directory}`];
    return outputOf(node.host.command(["env", ...environment, critest, ...flags]));
  },
  count: ginkgoCounts,
  expected: {
    Plexus: { passed: 15, failed: 0 },
    Multus: { passed: 2, failed: 13 },
    alone: { passed: 15, failed: 0 },
  },
};

test.each(columnsOf(suite))("%s: as many pass as docs/reference/suites.md shows", (column) =>
  expectCounts(suite, column),
);
