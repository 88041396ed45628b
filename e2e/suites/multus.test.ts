import { cp, mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "vitest";
import { multusSource } from "../../bench/peers/multus.ts";
import { nodeInterface } from "../cluster/kubernetes/addresses.ts";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import { writeImage } from "../cluster/machine/images.ts";
import { run, tryRun } from "../cluster/machine/run.ts";
import { writeConfig } from "../cluster/scenarios/target/plexus.ts";
import { rootFileSystem } from "../fresh/root-fs.ts";
import { type Counts, columnsOf, expectCounts, type Suite } from "./suite.ts";

/** Its scripts that need neither Docker, nor its own configuration, nor another repository. */
const scripts = [
  "test-simple-pod.sh",
  "test-simple-macvlan1.sh",
  "test-default-route1.sh",
  "test-connection-limit.sh",
  "test-subdirectory-chaining.sh",
];

/** An image with bash and an `ip` that prints JSON. */
const image = "plexus.dev/e2e/tools:1";

/** Adapts them to the project's cluster: its node, that one's interface and default network, and an image that it has. */
function adapt({ nodeName }: Cluster): string {
  const changes = [
    `s#image: .*#image: ${image}#`,
    `s#kind-worker2*#${nodeName}#`,
    `s#"master": "eth1"#"master": "${nodeInterface}"#`,
    `s#DEFAULT_NETWORK_CNI_NAME="kindnet"#DEFAULT_NETWORK_CNI_NAME="primary"#`,
    // The pods' gateway, and a longer wait than any pod needs.
    "s#10.244.1.1#10.244.0.1#; s#--timeout=300s#--timeout=60s#",
    "s#sysctl -n net.ipv4.conf.eth0.arp_filter#cat /proc/sys/net/ipv4/conf/eth0/arp_filter#",
  ];
  return `chmod -R u+w . && sh sed_generate_yaml.sh && sed -i '${changes.join("; ")}' yamls/*.yml test-*.sh`;
}

/** Runs the scripts. A difference that one only prints is a failure, too. */
async function runScripts(cluster: Cluster): Promise<string> {
  const archive = join(cluster.directory, "tools.tar");
  const root = await rootFileSystem("bookworm", "policies");
  await cluster.node.loadImage(
    await writeImage({ reference: image, root, archive, stopSignal: "SIGKILL" }),
  );
  await using copy = await mkdtempDisposable(join(tmpdir(), "plexus-multus-e2e-"));
  const cwd = join(copy.path, "e2e");
  await cp(join(await multusSource(), "e2e"), cwd, { recursive: true });
  await run(["sh", "-euc", adapt(cluster)], { cwd });
  let output = "";
  for (const script of scripts) {
    const command = cluster.administratorCommand("bash", script);
    const { exitCode, stdout, stderr } = await tryRun(command, { cwd });
    const passed = exitCode === 0 && !stdout.includes(" is different");
    output += `${stdout}\n${stderr}\n${passed ? "passed" : "failed"}: ${script}\n`;
  }
  return output;
}

function count(output: string): Counts {
  const lines = (result: string): number =>
    output.match(new RegExp(`^${result}: `, "gm"))?.length ?? 0;
  return { passed: lines("passed"), failed: lines("failed") };
}

const suite: Suite = {
  name: "Multus's scripts",
  // As `plexusctl migrate` sets it: a script requests an address that no plugin declares.
  prepare: (cluster) => writeConfig(cluster, "strictness: multus\n"),
  run: runScripts,
  count,
  expected: { Plexus: { passed: 5, failed: 0 }, Multus: { passed: 4, failed: 1 } },
};

test.each(columnsOf(suite))("%s: as many pass as docs/reference/suites.md shows", (column) =>
  expectCounts(suite, column),
);
