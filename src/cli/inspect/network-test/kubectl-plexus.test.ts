import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

/*
 * `kubectl plexus test` with a scripted kubectl, for answers that a real one seldom gives. A scenario of two nodes runs it
 * with a real one.
 */

const root = join(import.meta.dirname, "../../../..");

/** What the scripted kubectl answers. */
interface Answers {
  /** Of each pod the node and the state, as the script's template has them. RUN is in the names of the test's pods. */
  readonly states?: string;
  readonly resourceName?: string;
  readonly create?: string;
  readonly probe?: string;
  readonly list?: string;
  readonly remove?: string;
  /** The nodes that are not ready. */
  readonly notReady?: string;
}

const status = JSON.stringify([
  { name: "shop/lan", interface: "net1", ips: ["10.1.0.1"], dns: {} },
]);
const annotations = { "k8s.v1.cni.cncf.io/network-status": status };
const [one, two] = ["plexus-test-RUN-1", "plexus-test-RUN-2"];
const listOf = (...nodes: readonly string[]): string =>
  JSON.stringify({
    items: [one, two].map((name, index) => ({
      metadata: { name, annotations },
      spec: { nodeName: nodes[index] },
    })),
  });
const refusal = "echo 'Error from server (Forbidden): nodes is forbidden' >&2; exit 1";
const probe = (from: string, to: string) =>
  JSON.stringify([{ from, to, address: "10.1.0.1", mtu: 1500, finding: "ok", detail: "" }]);

async function run(args: readonly string[], answers: Answers = {}) {
  const dir = await temporaryDirectory();
  const { states = `${one}/node-1/True+ ${two}/node-2/True+` } = answers;
  const { resourceName = "", create = "cat", remove = "true", notReady = "" } = answers;
  const script = `#!/bin/sh
echo "$*" >>${dir}/calls
run=$(grep -o 'plexus.dev/test: "[0-9a-f]*' ${dir}/created 2>/dev/null | head -n 1)
with_run() { sed "s/RUN/\${run#*\\"}/g"; }
case "$*" in
*"get network-attachment-definitions"*) echo 'shop/lan ${resourceName}' ;;
*"get nodes "*) ${notReady === refusal ? refusal : `echo '${notReady}'`} ;;
*"get daemonset "*) echo localhost/plexus:dev ;;
*"auth can-i "*) echo no ;;
*" create -f -"*) ${create} >${dir}/created ;;
*"get pods"*" -o json") with_run <<'END'
${answers.list ?? listOf("node-1", "node-2")}
END
;;
*" delete pods "*) ${remove} ;;
*"get pods"*field-selector*) printf '${two} test ImagePullBackOff\\036' ;;
*"get pods"*) echo '${states}' | with_run ;;
*"get pod plexus-test-"*Scheduled*) echo 'no node has the device' ;;
*"get pod web "*status.phase*) echo Pending ;;
*"get pod web "*) ;;
*"get pod plexus-test-"*) echo 'shop/web node-2' ;;
*"-1 -c test"*"network-test probe"*) ${answers.probe ?? `echo '${probe(one, two)}' | with_run`} ;;
*"network-test probe"*) echo '${probe(two, one)}' | with_run ;;
*"network-test report"*) while [ "$1" != /plexus/plexusctl.js ]; do shift; done; shift
  exec ${process.execPath} ${root}/src/cli/main.ts "$@" ;;
esac
`;
  await writeFile(join(dir, "kubectl"), script, { mode: 0o755 });
  const env = { PATH: `${dir}:${process.env.PATH}`, TMPDIR: dir };
  const program = join(root, "deploy/kubectl-plexus");
  const { exitCode, stdout, stderr } = await execa(program, ["test", ...args], {
    env,
    reject: false,
  });
  const read = (file: string) => readFile(join(dir, file), "utf8").catch(() => "");
  const calls = (await read("calls")).split("\n");
  const named = (text: string) => text.replaceAll(/(?<=plexus-test-)[0-9a-f]{6}/g, "RUN");
  const printed = { stdout: named(stdout), stderr: named(stderr) };
  return { exitCode, ...printed, calls, created: await read("created") };
}

const twoPods = ["--nodes=2", "--timeout=1"];
const forbidden = (what: string) =>
  `echo 'Error from server (Forbidden): pods "x" is forbidden: ${what}' >&2; false`;
const deleted = (calls: readonly string[]) =>
  calls.filter((call) => /^-n shop delete pods -l plexus.dev\/test=[0-9a-f]{6} /.test(call));

test("starts pods, lets each probe the others, prints the report, and deletes the pods", async () => {
  const flags = ["--nodes", "2", "--node-selector=disk=ssd,zone=a", "-n", "shop"];
  const resourceName = "intel.com/sriov";
  const { exitCode, stdout, stderr, calls, created } = await run(["lan", ...flags], {
    resourceName,
  });
  expect(exitCode, stderr).toBe(0);
  expect(stdout).toContain("network shop/lan: ok, 2 of 2 tests passed between 2 pods on 2 nodes");
  expect(stderr.split("\n")).toEqual([
    "starting 2 pods on network shop/lan in namespace shop",
    `${one} is attached on node node-1`,
    `${two} is attached on node node-2`,
    `testing from ${one}`,
    `testing from ${two}`,
    "deleting the test's pods",
  ]);
  const pods = parseAllDocuments(created).map((document) => document.toJS());
  expect(pods).toHaveLength(2);
  expect(pods[1]).toMatchObject({
    metadata: {
      name: expect.stringMatching(/^plexus-test-[0-9a-f]{6}-2$/),
      labels: { "plexus.dev/test": expect.stringMatching(/^[0-9a-f]{6}$/) },
      annotations: { "k8s.v1.cni.cncf.io/networks": "shop/lan" },
    },
    spec: {
      nodeSelector: { "kubernetes.io/os": "linux", disk: "ssd", zone: "a" },
      containers: [{ image: "localhost/plexus:dev", resources: { limits: { [resourceName]: 1 } } }],
    },
  });
  const ofKilledTests =
    "delete pods -l plexus.dev/test --field-selector status.phase=Failed --wait=false";
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
  const { exitCode, stderr, calls } = await run([
    ...["shop/lan", "-n", "other", "--image=plexus:1", "--nodes=2"],
  ]);
  expect(exitCode, stderr).toBe(0);
  expect(calls[0]).toMatch(/^-n shop get network-attachment-definitions/);
  expect(calls.filter((call) => call.includes("daemonset"))).toEqual([]);
  expect(calls).toContain("-n other create -f -");
});

test("a pod that is not attached is explained, and the others are tested", async () => {
  const states = `${one}/node-1/True+ ${two}/node-2/False`;
  const { exitCode, stdout, stderr, calls } = await run(["lan", ...twoPods], { states });
  expect(stderr).toContain(
    `PROBLEM: after 1 s, ${two} is not attached on node node-2:\n${two} test ImagePull`,
  );
  expect(stderr).toContain("\npod shop/web on node-2: Pending\n");
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: expect.stringContaining("1 of 1") });
  expect(deleted(calls)).toHaveLength(1);
});

test("a node that is not ready is a problem, if pods had to share the others", async () => {
  const list = listOf("node-1", "node-1");
  const answers = { list, notReady: "node-2 node-3 " };
  const flags = ["lan", "--nodes=2", "--node-selector=disk=ssd"];
  const { exitCode, stdout, calls } = await run(flags, answers);
  expect(exitCode).toBe(1);
  expect(stdout).toContain("so none between nodes; not tested on node-2, node-3\nNodeNotReady: ");
  const nodes = calls.find((call) => call.startsWith("get nodes "));
  expect(nodes).toMatch(/^get nodes -l kubernetes.io\/os=linux,disk=ssd -o go-template=/);
  expect(await run(flags, { notReady: "node-3 " })).toMatchObject({ exitCode: 0 });
  expect(await run(flags, { list, notReady: refusal })).toMatchObject({ exitCode: 0 });
});

test("a pod that was deleted before the test is a problem, and is not waited for", async () => {
  const { exitCode, stdout, stderr } = await run(["lan", "--nodes=3"]);
  expect(stderr).toContain("PROBLEM: plexus-test-RUN-3 was deleted before it was attached\n");
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(/^plexus-test-RUN-3 +- +- +- +-$/m);
  expect(stdout).toContain("shop/lan: PROBLEM, 2 of 2 tests passed between 2 pods on 2 nodes");
});

test("a pod that is deleted during the test is a problem, and another pod prints the report", async () => {
  const gone = 'echo "Error from server (NotFound): pods not found" >&2; exit 1';
  const { exitCode, stdout, stderr } = await run(["lan", "--nodes=2"], { probe: gone });
  expect(stderr).toContain("(NotFound)");
  expect(exitCode).toBe(1);
  expect(stdout).toContain("shop/lan: PROBLEM, 1 of 1 tests passed between 2 pods on 2 nodes");
  expect(stdout).toMatch(/^NotTested: /m);
  const states = `${one}/node-1/True+`;
  const alone = await run(["lan", ...twoPods], { probe: gone, states });
  expect([alone.exitCode, alone.stdout]).toEqual([
    1,
    "network shop/lan: PROBLEM, no pod could be tested",
  ]);
  const flags = ["lan", ...twoPods, "--request-timeout=1"];
  const hanging = await run(flags, { probe: "exec sleep 100", states });
  expect(hanging).toMatchObject({ exitCode: 1, stdout: alone.stdout });
  expect(hanging.stderr).toMatch(/pod plexus-test-RUN-1 has not answered within 1 s: .* hangs$/m);
});

test.each([
  ["text", "network shop/lan: PROBLEM, no pod was attached"],
  ["json", '{"network":"shop/lan","passed":false,"pods":[],"probes":[],"notReady":[]}'],
])("a pod without a node; no pod is attached: -o %s", async (format, last) => {
  const states = `${two}//`;
  const flags = [...twoPods, "-o", format];
  const { exitCode, stdout, stderr } = await run(["lan", ...flags], { states });
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: last });
  expect(stderr).toMatch(/not attached on node yet to be chosen:\n.*\nno node has the device$/m);
});

test.each([
  [{ create: forbidden('User "jane" cannot create it') }, 2, "you may not create pods in shop"],
  [
    { create: forbidden("exceeded quota: pods") },
    2,
    "kubectl plexus: Error from server (Forbidden)",
  ],
  [{ probe: "echo 'unknown command' >&2; exit 2" }, 2, "unknown command"],
])("pods are deleted after a failure: %o", async (answers, code, message) => {
  const { exitCode, stderr, calls } = await run(["shop/lan"], answers);
  expect(exitCode).toBe(code);
  expect(stderr).toContain(message);
  expect(deleted(calls)).toHaveLength(1);
});

test("a cleanup that fails prints the command that does it again, for the same cluster", async () => {
  const { stderr } = await run(["lan", "--nodes=2", "--context=east", "--as=it's"], {
    remove: 'case "$*" in *Failed*) ;; *) false ;; esac',
  });
  expect(stderr.split("\n").at(-1)).toBe(
    "try again: kubectl plexus test --cleanup '--context=east' '--as=it'\\''s' -n shop",
  );
});

test("--cleanup deletes the pods of all tests", async () => {
  const { exitCode, calls } = await run(["--cleanup", "-n", "shop"]);
  expect(exitCode).toBe(0);
  expect(calls.filter(Boolean)).toEqual([
    "-n shop delete pods -l plexus.dev/test --ignore-not-found --timeout=60s",
  ]);
});
