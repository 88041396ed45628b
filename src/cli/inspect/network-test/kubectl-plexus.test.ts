import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";

/*
 * `kubectl plexus test` with a scripted kubectl, for answers that a real one seldom gives. A scenario of two nodes runs it
 * with a real one.
 */

const root = join(import.meta.dirname, "../../../..");

/** What the scripted kubectl answers. */
interface Answers {
  /** Of each pod the node and the state, as the script's template has them. */
  readonly states?: string;
  readonly resourceName?: string;
  readonly create?: string;
  readonly probe?: string;
}

const status = JSON.stringify([
  { name: "shop/lan", interface: "net1", ips: ["10.1.0.1"], dns: {} },
]);
const annotations = { "k8s.v1.cni.cncf.io/network-status": status };
const list = JSON.stringify({
  items: ["a", "b"].map((name) => ({ metadata: { name, annotations }, spec: { nodeName: name } })),
});
const probe = { from: "a", to: "b", address: "10.1.0.1", mtu: 1500, finding: "ok", detail: "" };

async function run(args: readonly string[], answers: Answers = {}) {
  await using dir = await mkdtempDisposable(join(tmpdir(), "plexus-kubectl-"));
  const { states = "a/node-1/True+ b/node-2/True+", resourceName = "", create = "cat" } = answers;
  const script = `#!/bin/sh
echo "$*" >>${dir.path}/calls
case "$*" in
*"get network-attachment-definitions"*) echo 'shop/lan ${resourceName}' ;;
*"get daemonset "*) echo localhost/plexus:dev ;;
*"auth can-i "*) echo no ;;
*" create -f -"*) ${create} >${dir.path}/created ;;
*"get pods"*" -o json") cat <<'END'
${list}
END
;;
*"get pods"*field-selector*) printf 'b test ImagePullBackOff\\036' ;;
*"get pods"*) echo '${states}' ;;
*"get pod b"*Scheduled*) echo 'no node has the device' ;;
*"get pod b"*jsonpath=pod*) echo 'pod shop/b on node-2: Pending' ;;
*"get pod b"*) echo 'shop/b node-2' ;;
*"network-test probe"*) ${answers.probe ?? `echo '[${JSON.stringify(probe)}]'`} ;;
*"network-test report"*) while [ "$1" != /plexus/plexusctl.js ]; do shift; done; shift
  exec ${process.execPath} ${root}/src/cli/main.ts "$@" ;;
esac
`;
  await writeFile(join(dir.path, "kubectl"), script, { mode: 0o755 });
  const env = { PATH: `${dir.path}:${process.env.PATH}`, TMPDIR: dir.path };
  const program = join(root, "deploy/kubectl-plexus");
  const { exitCode, stdout, stderr } = await execa(program, ["test", ...args], {
    env,
    reject: false,
  });
  const read = (file: string) => readFile(join(dir.path, file), "utf8").catch(() => "");
  const calls = (await read("calls")).split("\n");
  return { exitCode, stdout, stderr, calls, created: await read("created") };
}

const deleted = (calls: readonly string[]) =>
  calls.filter((call) => /^-n shop delete pods -l plexus.dev\/test=[0-9a-f]{6} /.test(call));

test("starts pods, lets each probe the others, prints the report, and deletes the pods", async () => {
  const flags = ["--nodes", "4", "--node-selector=disk=ssd,zone=a", "-n", "shop"];
  const resourceName = "intel.com/sriov";
  const { exitCode, stdout, stderr, calls, created } = await run(["lan", ...flags], {
    resourceName,
  });
  expect(exitCode, stderr).toBe(0);
  expect(stdout).toContain("network shop/lan: ok, 2 of 2 tests passed between 2 pods on 2 nodes");
  expect(stderr.split("\n")).toEqual([
    "starting 4 pods on network shop/lan in namespace shop",
    "a is attached on node node-1",
    "b is attached on node node-2",
    "testing from a",
    "testing from b",
    "deleting the test's pods",
  ]);
  const pods = parseAllDocuments(created).map((document) => document.toJS());
  expect(pods).toHaveLength(4);
  expect(pods[3]).toMatchObject({
    metadata: {
      name: expect.stringMatching(/^plexus-test-[0-9a-f]{6}-4$/),
      labels: { "plexus.dev/test": expect.stringMatching(/^[0-9a-f]{6}$/) },
      annotations: { "k8s.v1.cni.cncf.io/networks": "shop/lan" },
    },
    spec: {
      nodeSelector: { "kubernetes.io/os": "linux", disk: "ssd", zone: "a" },
      containers: [{ image: "localhost/plexus:dev", resources: { limits: { [resourceName]: 1 } } }],
    },
  });
  const ofKilledTests = "delete pods -l plexus.dev/test --field-selector status.phase=Failed";
  expect(calls).toContain(`-n shop ${ofKilledTests}`);
  expect(deleted(calls)).toHaveLength(1);
});

test("a definition cannot add to the objects that the test makes", async () => {
  const resourceName = "x: 1} }\n---\nkind: ClusterRoleBinding";
  const { exitCode, stderr, calls } = await run(["lan", "-n", "shop"], { resourceName });
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr: expect.stringMatching("resourceName"),
  });
  expect(calls.filter((call) => call.includes("create"))).toEqual([]);
});

test("the pods may be in another namespace than the network", async () => {
  const { exitCode, stderr, calls } = await run(["shop/lan", "-n", "other", "--image=plexus:1"]);
  expect(exitCode, stderr).toBe(0);
  expect(calls[0]).toMatch(/^-n shop get network-attachment-definitions/);
  expect(calls.filter((call) => call.includes("daemonset"))).toEqual([]);
  expect(calls).toContain("-n other create -f -");
});

test("a pod that is not attached is explained, and the others are tested", async () => {
  const states = "a/node-1/True+ b/node-2/False";
  const { exitCode, stdout, stderr, calls } = await run(["lan", "--timeout=1"], { states });
  expect(stderr).toMatch(
    /^PROBLEM: after 1 s, b is not attached on node node-2:\nb test ImagePull/m,
  );
  expect(stderr).toContain("\npod shop/b on node-2: Pending\n");
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: expect.stringContaining("1 of 1") });
  expect(deleted(calls)).toHaveLength(1);
});

test.each([
  ["text", "network shop/lan: PROBLEM, no pod was attached"],
  ["json", '{"network":"shop/lan","passed":false,"pods":[],"probes":[]}'],
])("a pod without a node; no pod is attached: -o %s", async (format, last) => {
  const states = "b//";
  const { exitCode, stdout, stderr } = await run(["lan", "--timeout=1", "-o", format], { states });
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: last });
  expect(stderr).toMatch(/not attached on node yet to be chosen:\n.*\nno node has the device$/m);
});

test.each([
  [{ create: "echo 'Forbidden: quota' >&2; false" }, 2, "you may not create pods in shop"],
  [{ probe: "echo 'unknown command' >&2; exit 2" }, 2, "unknown command"],
])("pods are deleted after a failure: %o", async (answers, code, message) => {
  const { exitCode, stderr, calls } = await run(["shop/lan"], answers);
  expect(exitCode).toBe(code);
  expect(stderr).toContain(message);
  expect(deleted(calls)).toHaveLength(1);
});

test("--cleanup deletes the pods of all tests", async () => {
  const { exitCode, calls } = await run(["--cleanup", "-n", "shop"]);
  expect(exitCode).toBe(0);
  expect(calls.filter(Boolean)).toEqual([
    "-n shop delete pods -l plexus.dev/test --ignore-not-found --timeout=60s",
  ]);
});
