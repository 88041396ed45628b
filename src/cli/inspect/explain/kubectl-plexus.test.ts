import { chmod, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { Readable } from "node:stream";
import { execa } from "execa";
import { beforeEach, expect, test } from "vitest";
import { parse } from "yaml";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { formatNetworkStatus } from "#npwg/network-status.ts";
import { lastEvents } from "./last-events.ts";

/*
 * deploy/kubectl-plexus with a scripted kubectl, for answers that a real one seldom gives. The cluster
 * scenarios run it with a real one.
 */

const program = join(import.meta.dirname, "../../../../deploy/kubectl-plexus");
let dir: string;

beforeEach(async () => {
  dir = await temporaryDirectory();
});

/** How kubectl answers, by the words of its arguments that fit; shell code. */
interface Kubectl {
  readonly getPod?: string;
  /** Records that end with \036: a pod, and a container that does not run, or the pod's phase. */
  readonly podsOfNode?: string;
  /** Words: running pods of a node without their networks. */
  readonly lacking?: string;
  readonly nodes?: string;
  /** How many nodes the DaemonSet selects. */
  readonly selected?: string;
  /** The DaemonSet, and the command that installs its programs. */
  readonly install?: string;
  /** The nodes of plexusd's pods. */
  readonly served?: string;
  readonly exec?: string;
  readonly getNode?: string;
  readonly getEvents?: string;
  /** Words: pods, and their containers with logs. */
  readonly logs?: string;
  readonly mayExec?: string;
  /** What a tenant may ask for: of the pod, and of its events. */
  readonly phase?: string;
  readonly networks?: string;
  readonly networkStatus?: string;
  readonly plexusEvents?: string;
}

const pods = (...lines: string[]): string => `printf '${lines.join("\\036")}\\036'`;

type Answers = readonly (readonly [pattern: string, answer: string])[];

function daemonSet({ selected, install = selected ?? "echo plexus" }: Kubectl): Answers {
  return [
    ['*"get daemonset plexus -o jsonpath={.metadata.name}"*', install],
    ['*"get daemonset "*', selected ?? "echo 1"],
  ];
}

async function run(args: readonly string[], kubectl: Kubectl = {}) {
  const answers: Answers = [
    ['*" auth can-i create pods --subresource=exec"*', `echo ${kubectl.mayExec ?? "yes"}`],
    ['*"get pod "*status.phase*', `echo ${kubectl.phase ?? "Running"}`],
    ['*"get pod "*network-status*', `cat <<'END'\n${kubectl.networkStatus ?? ""}\nEND\n`],
    ['*"get pod "*/networks*', `cat <<'END'\n${kubectl.networks ?? ""}\nEND\n`],
    ['*"get events -o jsonpath="*', kubectl.plexusEvents ?? "true"],
    ['*"get network-attachment-definitions.k8s.cni.cncf.io -o jsonpath"*', "printf ' blue green'"],
    ['*"get nodes "*', kubectl.nodes ?? "echo node-1"],
    ['*"get node "*', kubectl.getNode ?? "echo node/node-1"],
    ...daemonSet(kubectl),
    [
      '*"get pods -l app.kubernetes.io/name=plexus --field-selector"*',
      kubectl.logs ?? "echo ' plexus-x plexusd/'",
    ],
    ['*"get pods -A --field-selector"*', kubectl.lacking ?? "true"],
    ['*"get pods -l"*field-selector*', kubectl.podsOfNode ?? pods("plexus-x Running")],
    ['*"get pods -l"*', kubectl.served ?? "echo node-1"],
    ['*"-n other get pod "*', "echo other/web node-1"],
    ['*"get pod "*', kubectl.getPod ?? "echo shop/web node-1"],
    ['*" exec "*', kubectl.exec ?? 'printf "%s\\n" "$*"'],
    ['*"get events "*', kubectl.getEvents ?? "false"],
    ['*"get pods -A -o go-template"* | *"get clusterroles"*', "echo text"],
    ['*" logs "* | *"get configmap "* | *"get network-attachment-definitions"*', 'echo "$*"'],
    ['*"get daemonsets,pods "*', "echo text"],
  ];
  const path = join(dir, "kubectl");
  const cases = answers.map(([pattern, answer]) => `${pattern}) ${answer} ;;`).join("\n");
  await writeFile(path, `#!/bin/sh\ncase "$*" in\n${cases}\nesac\n`);
  await chmod(path, 0o755);
  const { exitCode, stdout, stderr } = await execa(program, args, {
    reject: false,
    cwd: dir,
    env: { PATH: `${dir}:${process.env.PATH}`, TMPDIR: dir },
  });
  return { exitCode, stdout, stderr };
}

const refused = (what: string): string =>
  `echo 'Error from server (Forbidden): pods is forbidden: User "jane" cannot ${what} it' >&2; exit 1`;

const plexusctl = "plexus-x -c plexusd -- /plexus/node /plexus/plexusctl.js";

test.each([
  [
    "explain -n other web",
    `-n kube-system exec -i ${plexusctl} explain -o text --events other/web`,
  ],
  [
    "explain web -n other",
    `-n kube-system exec -i ${plexusctl} explain -o text --events other/web`,
  ],
  [
    "-nother explain web -ojson",
    `-n kube-system exec -i ${plexusctl} explain -o json --events other/web`,
  ],
  [
    "explain web --namespace=other --output json --context x --as=y z",
    "usage: kubectl plexus explain",
  ],
  [
    "explain web --output=json --context x --as=it's",
    `--context=x --as=it's -n kube-system exec -i ${plexusctl} explain -o json --events shop/web`,
  ],
  ["doctor node-1 -n network", `-n network exec -i ${plexusctl} doctor -o text --expected-config`],
  ["config node-1 -o yaml", `-n kube-system exec ${plexusctl} config show -o json`],
  ["records node-1 --leftovers", `-n kube-system exec ${plexusctl} records -o text --leftovers`],
  ["records node-1 -o wide", `-n kube-system exec ${plexusctl} records -o wide`],
  ["refresh web net1", `-n kube-system exec ${plexusctl} refresh shop/web net1`],
  ["refresh net1 -n other", "usage: kubectl plexus refresh POD INTERFACE"],
  ["forget node-1", `-n kube-system exec ${plexusctl} gc --forget-leftovers`],
  ["forget node-1 --leftovers", "usage: kubectl plexus forget NODE"],
])("takes flags anywhere: %s", async (line, answer) => {
  const { stdout, stderr } = await run(line.split(" "));
  expect(`${stdout}${stderr}`).toContain(answer);
});

test("kubectl's warnings go to stderr", async () => {
  const getPod = "echo 'Warning: use --other' >&2; echo shop/web node-1";
  const { exitCode, stdout, stderr } = await run(["explain", "shop/web"], { getPod });
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "Warning: use --other" });
  expect(stdout).toContain("explain -o text --events shop/web");
});

test.each([
  [{ getPod: refused("get") }, "you may not get pods in shop"],
  [{ podsOfNode: refused("list") }, "you may not list pods in kube-system"],
  [{ exec: refused("exec") }, "you may not create pods/exec in kube-system"],
] as const)("names the missing permission: %o", async (kubectl, message) => {
  const { exitCode, stderr } = await run(["explain", "shop/web"], kubectl);
  expect(exitCode).toBe(2);
  const advice = message.includes("exec")
    ? ", which is for administrators"
    : ": ask for that right";
  expect(stderr).toMatch(new RegExp(`^kubectl plexus: ${message}${advice} .*$`));
});

test.each([
  ["true", "has no pod on node node-1: .*; see kubectl -n kube-system describe daemonset plexus"],
  [pods("plexus-x install Starting"), "node-1 yet: .*; its container install is running"],
  [
    pods("plexus-x plexusd ImagePullBackOff"),
    "its container plexusd is in ImagePullBackOff: .*; see kubectl -n kube-system describe pod plexus-x",
  ],
  [
    pods("plexus-x Failed"),
    "its pod is Failed: .*; see kubectl -n kube-system describe pod plexus-x",
  ],
  [
    pods("plexus-x install Error plexusctl install:\\n no such key"),
    "logs plexus-x -c install \\(Error plexusctl install:  no such key\\)",
  ],
  [
    pods("plexus-x install Error a\\tb\\033[31m\\001"),
    "logs plexus-x -c install \\(Error a\\?b\\?\\[31m\\?\\)",
  ],
  [
    pods("plexus-x install Error no directory /x/"),
    "logs plexus-x -c install \\(Error no directory /x/\\)",
  ],
  [
    pods("plexus-x plexusd CrashLoopBackOff", "plexus-x Running", "plexus-y Pending"),
    "logs plexus-x -c plexusd \\(CrashLoopBackOff\\)",
  ],
])("names in one line why plexusd does not run: %s", async (podsOfNode, reason) => {
  const { exitCode, stderr } = await run(["explain", "web"], { podsOfNode });
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(new RegExp(`^kubectl plexus: plexusd .*${reason}$`));
  const doctor = await run(["doctor", "-o", "json"], { podsOfNode });
  const text = expect.stringMatching(new RegExp(`${reason}$`));
  const findings = [{ ...unavailable, text }];
  expect(JSON.parse(doctor.stdout)).toEqual([{ node: "node-1", findings }]);
  expect(doctor).toMatchObject({ exitCode: 1, stderr: "" });
});

test.each([
  ["thick", { podsOfNode: pods("plexus-x plexusd Error", "plexus-x Running") }, "wait for it"],
  [
    "thin",
    { podsOfNode: pods("plexus-x plexusd Error", "plexus-x Running --standalone") },
    "start if plexus-standalone is installed there and its token is valid",
  ],
  [
    "thin, without a pod",
    { podsOfNode: "true", install: `echo 'plexus["plexusctl","install","--standalone"]'` },
    "start if plexus-standalone is installed there",
  ],
  ["thick, without a pod", { podsOfNode: "true" }, "wait for it"],
])("says what happens to new pods without plexusd: %s", async (_, kubectl, effect) => {
  const doctor = await run(["doctor", "-o", "json"], kubectl);
  expect(JSON.parse(doctor.stdout)[0].findings[0].text).toContain(`new pods there ${effect}`);
});

test("without plexusd, explain gives an administrator what a tenant gets, and why not more", async () => {
  const podsOfNode = pods("plexus-x plexusd Error", "plexus-x Running");
  const alone = { podsOfNode, networks: "red", phase: "Pending", plexusEvents: events(warned) };
  const { exitCode, stdout, stderr } = await run(["explain", "web"], alone);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("plexusd does not run on node")]);
  expect(stdout.split("\n")).toEqual([
    "pod shop/web on node-1: Pending",
    "asks for: red",
    "has: no network-status",
    "- NoNetworkFound: there is no red",
    "definitions in namespace shop: blue green",
  ]);
  const json = await run(["explain", "web", "-o", "json"], alone);
  expect(json).toMatchObject({ exitCode: 2, stdout: "", stderr });
});

const unavailable = { check: "plexusd", reason: "DaemonUnavailable", verdict: "problem" };

const ofTenant = {
  mayExec: "'no - no policy matched'",
  podsOfNode: refused("list"),
  exec: refused("exec"),
} as const;
const statusOf = (...interfaces: string[]): string =>
  formatNetworkStatus(
    interfaces.map((name) => ({
      name: "n",
      interface: name,
      ips: ["10.0.0.2"],
      default: false,
      dns: {},
    })),
  );
const events = (...lines: string[]): string => `cat <<'END'\n${lines.join("\n")}\nEND\n`;
const added = "2026-01-02T00:00:02Z Normal AddedInterface: Add net1";
const warned = "2026-01-02T00:00:01Z Warning NoNetworkFound: there is no red";

test.each<[what: string, kubectl: Kubectl, exitCode: number, lines: readonly string[]]>([
  [
    "everything is attached",
    {
      networks: '[\n  { "name": "red" }\n]',
      networkStatus: statusOf("eth0", "net1"),
      plexusEvents: events(added, warned),
    },
    0,
    [
      "pod shop/web on node-1: Running",
      'asks for: [ { "name": "red" } ]',
      "has: eth0 net1",
      "- NoNetworkFound: there is no red",
      "- AddedInterface: Add net1",
    ],
  ],
  [
    "it asks for nothing",
    { plexusEvents: events(warned) },
    0,
    [
      "pod shop/web on node-1: Running",
      "has: no network-status",
      "- NoNetworkFound: there is no red",
    ],
  ],
  [
    "it is not attached",
    { phase: "Pending", networks: "red", plexusEvents: events(warned) },
    1,
    [
      "pod shop/web on node-1: Pending",
      "asks for: red",
      "has: no network-status",
      "- NoNetworkFound: there is no red",
      "definitions in namespace shop: blue green",
      "For more, ask an administrator to run: kubectl plexus explain shop/web",
    ],
  ],
  [
    "it lacks a network, and its events may not be listed",
    { networks: "red, blue", networkStatus: statusOf("eth0", "net1"), plexusEvents: "exit 1" },
    1,
    [
      "pod shop/web on node-1: Running",
      "asks for: red, blue",
      "has: eth0 net1",
      "- you may not list events in namespace shop: ask for that right",
      "definitions in namespace shop: blue green",
      expect.stringMatching("^For more"),
    ],
  ],
  [
    "its last event is a warning",
    {
      networks: "red",
      networkStatus: statusOf("eth0", "net1"),
      plexusEvents: events(added.replace("02Z", "00Z"), warned),
    },
    1,
    expect.arrayContaining(["- NoNetworkFound: there is no red"]),
  ],
  [
    "its default network fails",
    { phase: "Pending", plexusEvents: events(warned) },
    1,
    expect.anything(),
  ],
])("explain answers those who may not run plexusctl: %s", async (...row) => {
  const [, kubectl, exitCode, lines] = row;
  const { stdout, ...ended } = await run(["explain", "shop/web"], { ...ofTenant, ...kubectl });
  expect(ended).toEqual({ exitCode, stderr: "" });
  expect(stdout.split("\n")).toEqual(lines);
});

test("explain prints nothing that acts on a terminal to those who may not run plexusctl [S-309]", async () => {
  const kubectl = { networks: "r\u001b[2Jed é\u009b", plexusEvents: events(`${added} \u202e…`) };
  const { stdout } = await run(["explain", "web"], { ...ofTenant, ...kubectl });
  expect(stdout).toContain("asks for: r?[2Jed é?\n");
  expect(stdout).toContain("- AddedInterface: Add net1 ?…\n");
});

test("explain says in one line why those who may not run plexusctl get no answer", async () => {
  const { exitCode, stderr } = await run(["explain", "shop/web", "-o", "json"], ofTenant);
  expect([exitCode, stderr]).toEqual([
    2,
    "kubectl plexus: only administrators get -o json: those who may create pods/exec in kube-system",
  ]);
  const getPod =
    "printf 'E1127 memcache.go:1] no list\\nE1127 memcache.go:1] no list\\nrefused\\nsee it\\n' >&2; exit 1";
  expect(await run(["explain", "shop/web"], { getPod })).toEqual({
    exitCode: 2,
    stdout: "",
    stderr: "kubectl plexus: refused see it",
  });
});

test("fails for a pod without a node", async () => {
  const { exitCode, stderr } = await run(["explain", "web"], { getPod: "echo 'shop/web '" });
  expect(exitCode).toBe(2);
  expect(stderr).toContain("pod shop/web is not bound to a node yet");
});

test("the exit code is that of plexusctl", async () => {
  const exec = "echo report; echo 'command terminated with exit code 1' >&2; exit 1";
  expect(await run(["explain", "web"], { exec })).toEqual({
    exitCode: 1,
    stdout: "report",
    stderr: "",
  });
});

const twoNodes = {
  nodes: "echo node-1; echo node-2",
  served: "echo node-1; echo node-2",
  selected: "echo 2",
};

test("doctor checks all nodes and fails at the end", async () => {
  expect(await run(["doctor"], { ...twoNodes, exec: "echo report; exit 1" })).toEqual({
    exitCode: 1,
    stdout: "== node-1\nreport\n== node-2\nreport\n== 0 of 2 nodes without a problem",
    stderr: "",
  });
});

test("doctor examines 16 nodes at a time, and prints of many only what is not ok", async () => {
  const names = Array.from({ length: 45 }, (_, i) => `node-${i}`);
  const list = names.map((name) => `echo ${name}`).join("; ");
  const podsOfNode = `case "$*" in *=node-7|*=node-44) ${pods("plexus-ill Running")} ;; *) ${pods("plexus-x Running")} ;; esac`;
  // Waits until so many are asked, but not longer than the test.
  const exec = `
    : >"$TMPDIR/asked-$$"
    for turn in $(seq 400) missed; do
      if [ "$(ls "$TMPDIR" | grep -c asked)" -ge 16 ]; then break; fi
      if [ $turn = missed ]; then exit 2; fi
      sleep 0.05
    done
    echo "ok       shim  is there"
    case "$*" in *plexus-ill*) echo "PROBLEM  api  is unavailable"; exit 1 ;; esac`;
  const nodes = { nodes: list, served: list, selected: "echo 45", podsOfNode };
  expect(await run(["doctor"], { ...nodes, exec })).toEqual({
    exitCode: 1,
    stdout:
      "== node-7\nPROBLEM  api  is unavailable\n== node-44\nPROBLEM  api  is unavailable\n== 43 of 45 nodes without a problem",
    stderr: "",
  });
});

test("version prints the program's and the image of each node", async () => {
  const served = "echo 'node-1  plexus:1'";
  expect(await run(["version"], { served })).toMatchObject({
    exitCode: 0,
    stdout: "kubectl plexus dev\nnode-1  plexus:1",
  });
  for (const format of ["json", "yaml"]) {
    const { stdout } = await run(["version", "-o", format], { served });
    const nodes = [{ node: "node-1", image: "plexus:1" }];
    expect(parse(stdout)).toEqual({ client: "dev", nodes });
  }
});

const commands = [
  ...[
    "explain",
    "refresh",
    "networks",
    "check",
    "pods",
    "doctor",
    "config",
    "records",
    "test",
    "version",
    "sysdump",
    "forget",
    "restore",
    "help",
  ],
];

test.each([
  [[""], commands],
  [["help", "d"], ["doctor"]],
  [["refresh", "d"], ["db"]],
  [
    ["refresh", "web", ""],
    ["net1", "net2"],
  ],
  [["--context", ""], ["east"]],
  [["--context=east", "explain", ""], ["of-east"]],
  [["doctor", "--request-timeout", "1m", "node-1"], ["node-1"]],
  [["doctor", "node-1", ""], []],
  [
    ["sysdump", "node-1", ""],
    ["node-1", "node-2"],
  ],
  [["networks", "l"], ["lan"]],
  [
    ["pods", ""],
    ["lan", "red"],
  ],
  [["networks", "--node", "node-2"], ["node-2"]],
  [
    ["networks", "--n"],
    ["--namespace", "--node"],
  ],
  [["records", "--l"], ["--leftovers"]],
  [
    ["test", "--n"],
    ["--namespace", "--node-selector", "--nodes"],
  ],
  [["explain", "-o", "json", "--n"], ["--namespace"]],
  [["--r"], ["--request-timeout"]],
  [["re"], ["refresh", "records", "restore"]],
  [
    ["explain", ""],
    ["web", "db"],
  ],
  [["explain", "-n", "shop", "w"], ["web"]],
  [
    ["explain", "-n", ""],
    ["default", "shop"],
  ],
  [
    ["-o", "json", "doctor", ""],
    ["node-1", "node-2"],
  ],
  [["records", "-o", "w"], ["wide"]],
  [["version", ""], []],
  [["test", "--nodes", "2", "l"], ["lan"]],
])("completes %j with %j", async (args, expected) => {
  const answers = `case "$*" in
    "--context=east get pods "*) echo of-east ;;
    *"get pods "*) printf 'web\\ndb\\n' ;;
    *"get pod web "*) echo '[{"name":"a","interface":"eth0"},{"interface": "net1","ips":[]},{"interface":"net2"}]' ;;
    *get-contexts*) echo east ;;
    *"get network-attachment-definitions"*) printf 'lan\\nred\\n' ;;
    *"get nodes "*) printf 'node-1\\nnode-2\\n' ;;
    *"get namespaces "*) printf 'default\\nshop\\n' ;;
  esac`;
  await writeFile(join(dir, "kubectl"), `#!/bin/sh\n${answers}\n`, { mode: 0o755 });
  const deploy = dirname(program);
  const env = { PATH: `${dir}:${deploy}:${process.env.PATH}` };
  const { stdout } = await execa(join(deploy, "kubectl_complete-plexus"), args, { env });
  expect(stdout.split("\n")).toEqual([...expected, ":4"]);
});

/** The files of the archive that sysdump has written, without directories. */
async function archive(name: string): Promise<Map<string, string>> {
  await execa("tar", ["-xzf", name], { cwd: dir });
  const top = join(dir, name.replace(/\.tar\.gz$/, ""));
  const paths = (await readdir(top, { recursive: true, withFileTypes: true }))
    .filter((each) => each.isFile())
    .map((each) => join(each.parentPath, each.name));
  const read = paths.map(
    async (path) => [relative(top, path), await readFile(path, "utf8")] as const,
  );
  return new Map(await Promise.all(read));
}

const clusterFiles = [
  ...["configuration.json", "definitions.json", "events.json", "nodes.json", "plexus.json"],
  ...["FailedCreatePodSandBox", "FailedKillPod", "NetworkNotReady"].map((e) => `events-${e}.json`),
  ...["pods.txt", "roles.json"],
];
const ofNode = (node: string, ...files: string[]) => files.map((file) => `${node}/${file}`);

test("sysdump archives what says something of the nodes, with every log of Plexus there", async () => {
  const logs = "echo ' plexus-x install/ plexusd/ plexusd/previous plexus-agent-x agent/'";
  const answers = { ...twoNodes, logs, getEvents: "echo events" };
  const doctor = 'case "$*" in *doctor*) echo "[]"; exit 1 ;; *) echo "$*" ;; esac';
  const { exitCode, stdout, stderr } = await run(["sysdump"], { ...answers, exec: doctor });
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "node-1 (1 of 2)\nnode-2 (2 of 2)" });
  const files = await archive(stdout);
  const nodeFiles = [
    ...["doctor.json", "plexus-agent-x.agent.log", "plexus-x.install.log", "plexus-x.plexusd.log"],
    ...["plexus-x.plexusd.previous.log", "records.txt", "status.json", "cni-net.d.txt"],
    ...["networks.json", "networks.txt"],
  ];
  expect([...files.keys()].toSorted()).toEqual(
    [
      ...[...clusterFiles, "networks.html", "nodes.txt"],
      ...[...ofNode("node-1", ...nodeFiles), ...ofNode("node-2", ...nodeFiles)],
    ].toSorted(),
  );
  expect(files.get("definitions.json")).toMatch(/-A -o json$/m);
  expect(files.get("node-1/plexus-x.plexusd.previous.log")).toMatch(
    / logs plexus-x -c plexusd --tail=20000 --previous$/m,
  );
});

test("sysdump says what it could not collect, in the archive too", async () => {
  const podsOfNode = `case "$*" in *node-2*) true ;; *) ${pods("plexus-x Running")} ;; esac`;
  const { exitCode, stdout, stderr } = await run(["sysdump"], {
    ...{ ...twoNodes, podsOfNode, getEvents: refused("list") },
    exec: 'case "$*" in *records*) echo broken >&2; exit 1 ;; *) echo "$*" ;; esac',
  });
  expect(exitCode).toBe(1);
  const says = (line: string) => expect.stringMatching(new RegExp(`^${line}$`));
  const lacking = [
    ...["", "-FailedCreatePodSandBox", "-FailedKillPod", "-NetworkNotReady"].map((reason) =>
      says(`not collected: events${reason}.json: exit code 1: Error .*Forbidden.* `),
    ),
    says("not collected: node-1/records.txt: exit code 1: broken "),
    says("not collected: node-2: plexusd has no pod on node node-2: .*"),
  ];
  const lines = stderr.split("\n");
  const [ofNode1, ofNode2] = lacking.splice(4);
  expect(lines).toEqual([...lacking, "node-1 (1 of 2)", ofNode1, "node-2 (2 of 2)", ofNode2]);
  const files = await archive(stdout);
  const inArchive = files.get("not-collected.txt")?.split("\n");
  expect(inArchive).toEqual(expect.arrayContaining([...lacking, ofNode1, ofNode2]));
  expect([...files.keys()]).toContain("node-2/plexus-x.plexusd.log");
});

const notFound = (what: string): string =>
  `echo 'Error from server (NotFound): ${what} not found' >&2; exit 1`;
const noDaemonSet = `case "$*" in *--ignore-not-found*) ;; *) ${notFound('daemonsets.apps "plexus"')} ;; esac`;

test.each([
  [
    { selected: noDaemonSet },
    "node-1: there is no DaemonSet plexus in namespace kube-system",
    true,
  ],
  [{ selected: refused("get") }, "nodes.txt: exit code 2: .* you may not get daemonsets", false],
  [{ nodes: refused("list") }, "nodes.txt: exit code 2: .* you may not list nodes", false],
  [{ podsOfNode: refused("list") }, "node-1: its pods cannot be listed", false],
])("sysdump collects the rest: %o", async (without, lack, hasLogs) => {
  const podsOfNode = "true";
  const { exitCode, stdout, stderr } = await run(["sysdump"], { podsOfNode, ...without });
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(new RegExp(`^not collected: ${lack}`, "m"));
  const files = [...(await archive(stdout)).keys()];
  expect(files).toContain("plexus.json");
  expect(files.includes("node-1/plexus-x.plexusd.log")).toBe(hasLogs);
});

test("sysdump asks a node that hangs once, and one that does not report not at all", async () => {
  const getNode = 'case "$*" in *node-2*) echo Unknown ;; *) echo True ;; esac';
  const answers = { ...twoNodes, getNode, exec: "exec sleep 100", getEvents: "echo events" };
  const flags = ["sysdump", "--request-timeout=1s"];
  const { exitCode, stdout, stderr } = await run(flags, answers);
  expect(exitCode).toBe(1);
  expect(stderr.split("\n")).toEqual([
    "node-1 (1 of 2)",
    expect.stringMatching(/: node-1\/doctor.json, and the rest of the node: .* within 1 s: /),
    "node-2 (2 of 2)",
    expect.stringMatching(/^not collected: node-2: the kubelet of node node-2 does not report: /),
  ]);
  expect((await archive(stdout)).get("node-1/plexus-x.plexusd.log")).toBeUndefined();
});

test("sysdump of a node twice is of one, and of an unknown node a failure", async () => {
  const getEvents = "echo events";
  const twice = await run(["sysdump", "node-1", "node-1"], { getEvents });
  expect(twice).toMatchObject({ exitCode: 0, stderr: "node-1 (1 of 1)" });
  const getNode = "echo 'nodes \"nope\" not found' >&2; exit 1";
  expect(await run(["sysdump", "nope"], { getEvents, getNode, podsOfNode: "true" })).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("not collected: nope: there is no node nope"),
  });
});

test.each(["doctor", "records", "sysdump", "forget"])(
  "%s takes only a node's name for one",
  async (command) => {
    for (const name of ["../../evil", "a/b", ".", "Node_1"]) {
      const { exitCode, stderr } = await run([command, name]);
      expect(exitCode).toBe(2);
      expect(stderr).toMatch(/^kubectl plexus: '.*' is not the name of a node$/);
    }
    expect(await readdir(dir)).toEqual(["kubectl"]);
  },
);

test("doctor -o json prints one document that names the nodes", async () => {
  const findings = [{ check: "shim", verdict: "ok", text: '{"a":1},{"b":"[]"}' }];
  const exec = `cat <<'END'\n${JSON.stringify(findings)}\nEND\n`;
  const ofAll = await run(["doctor", "-o", "json"], { ...twoNodes, exec });
  expect(ofAll).toMatchObject({ exitCode: 0, stderr: "" });
  expect(JSON.parse(ofAll.stdout)).toEqual([
    { node: "node-1", findings },
    { node: "node-2", findings },
  ]);
  const yaml = await run(["doctor", "-o", "yaml"], { ...twoNodes, exec });
  expect(parse(yaml.stdout)).toEqual(JSON.parse(ofAll.stdout));
  const ofOne = await run(["doctor", "-o", "json", "node-1"], { exec });
  expect(JSON.parse(ofOne.stdout)).toEqual([{ node: "node-1", findings }]);
});

test("doctor reports a node where plexusctl cannot be run", async () => {
  const exec = "echo 'error: unable to upgrade connection' >&2; exit 1";
  expect(await run(["doctor"], { ...twoNodes, exec })).toMatchObject({
    exitCode: 1,
    stdout: expect.stringMatching(/^PROBLEM +plexusd +plexusctl cannot be run on node node-2: /m),
    stderr: expect.stringContaining("unable to upgrade connection"),
  });
  const json = await run(["doctor", "-o", "json"], { ...twoNodes, exec });
  expect(JSON.parse(json.stdout)).toHaveLength(2);
});

test.each([
  ["2", 1, "PROBLEM  plexusd  plexusd has no pod on node node-2"],
  ["1", 0, "WARNING  plexusd  the DaemonSet plexus does not select node node-2"],
])("doctor lists a node without plexusd, of %s that the DaemonSet selects", async (...row) => {
  const [selected, exitCode, finding] = row;
  const podsOfNode = `case "$*" in *=node-1*) ${pods("plexus-x Running")} ;; esac`;
  const nodes = { nodes: "echo node-1; echo node-2", selected: `echo ${selected}`, podsOfNode };
  expect(await run(["doctor"], { ...nodes, exec: "echo report" })).toMatchObject({
    exitCode,
    stdout: expect.stringContaining(`== node-1\nreport\n== node-2\n${finding}`),
  });
});

test.each([
  [{ lacking: "printf ' shop/a shop/b'" }, ": shop/a shop/b; have it select the node"],
  [{ lacking: refused("list") }, " (you may not list them); have it select the node"],
])("a node that the DaemonSet does not select is a problem for its pods: %o", async (row, text) => {
  const nodes = { nodes: "echo node-1; echo node-2", selected: "echo 1" };
  const { exitCode, stdout } = await run(["doctor", "-o", "json"], {
    ...nodes,
    ...row,
    exec: "echo []",
  });
  const [, { findings }] = JSON.parse(stdout);
  expect([exitCode, findings]).toMatchObject([
    1,
    [{ reason: "NodeNotSelected", verdict: "problem", text: expect.stringContaining(text) }],
  ]);
});

test("config shows the same settings of several nodes once", async () => {
  const names = ["node-1", "node-2", "node-3"].map((name) => `echo ${name}`).join("; ");
  const podsOfNode = `case "$*" in *=node-2*) ${pods("plexus-2 Running")} ;; *) ${pods("plexus-x Running")} ;; esac`;
  const exec = `case "$*" in *plexus-2*) echo '["b"]' ;; *) echo '["a"]' ;; esac`;
  const kubectl = { nodes: names, served: names, selected: "echo 3", podsOfNode, exec };
  const text = await run(["config"], kubectl);
  expect([text.exitCode, text.stdout.split("\n== ").length]).toEqual([0, 2]);
  expect(text.stdout).toContain('== node-1 node-3\n["a"]');
  const json = await run(["config", "-o", "json"], kubectl);
  const one = [
    { nodes: ["node-1", "node-3"], settings: ["a"] },
    { nodes: ["node-2"], settings: ["b"] },
  ];
  expect(JSON.parse(json.stdout)).toEqual(expect.arrayContaining(one));
  const ill = await run(["config", "node-1"], { ...kubectl, podsOfNode: "true" });
  expect(ill).toMatchObject({ exitCode: 2, stdout: "", stderr: expect.stringContaining("no pod") });
});

test.each([
  ["explain shop/web", "1s"],
  ["records node-1", "1"],
  ["forget node-1", "1s"],
  ["refresh shop/web net1", "1s"],
])("%s ends kubectl if a node does not answer in time", async (line, limit) => {
  const exec = "exec sleep 100";
  const { exitCode, stderr } = await run([...line.split(" "), `--request-timeout=${limit}`], {
    exec,
  });
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr:
      "kubectl plexus: pod plexus-x on node node-1 has not answered within 1 s: its kubelet or its container runtime hangs; see kubectl describe node node-1",
  });
});

test("doctor has one problem for a node that does not answer in time, and examines the others", async () => {
  const podsOfNode = `case "$*" in *=node-2*) ${pods("plexus-ill Running")} ;; *) ${pods("plexus-x Running")} ;; esac`;
  // What kubectl has started may keep its output open.
  const exec = 'case "$*" in *plexus-ill*) sleep 100 ;; *) echo "ok       shim  is there" ;; esac';
  const flags = ["doctor", "--request-timeout=3s"];
  const problem =
    "pod plexus-ill on node node-2 has not answered within 3 s: its kubelet or its container runtime hangs; see kubectl describe node node-2";
  expect(await run(flags, { ...twoNodes, podsOfNode, exec })).toEqual({
    exitCode: 1,
    stdout: `== node-1\nok       shim  is there\n== node-2\nPROBLEM  plexusd  ${problem}\n== 1 of 2 nodes without a problem`,
    stderr: "",
  });
  const json = await run([...flags, "-ojson"], { ...twoNodes, podsOfNode, exec: "sleep 100" });
  expect(JSON.parse(json.stdout)[1]).toEqual({
    node: "node-2",
    findings: [{ ...unavailable, text: problem }],
  });
});

const rights = {
  getPod: "explain refresh",
  podsOfNode: "explain refresh records forget doctor/node-1 doctor",
  exec: "explain refresh records forget doctor/node-1 doctor",
  nodes: "doctor",
  selected: "doctor",
  served: "doctor version",
} as const;
const linesWithoutRight = Object.entries(rights).flatMap(([right, lines]) =>
  lines.split(" ").map((line) => [line, right] as const),
);

test.each(linesWithoutRight)("%s says only that a right is missing: %s", async (line, right) => {
  const words = { explain: " web", refresh: " web net1", records: " node-1", forget: " node-1" };
  const args = `${line.replace("/", " ")}${words[line as keyof typeof words] ?? ""}`.split(" ");
  const { exitCode, stdout, stderr } = await run(args, { ...twoNodes, [right]: refused("use") });
  // What the API server says of the pod needs no plexusd.
  const rest = `${line}/${right}` === "explain/exec" ? expect.stringMatching(/^pod shop/) : "";
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: rest });
  expect(stderr).toMatch(/^kubectl plexus: you may not .*$/);
});

test("does not ask a node whose kubelet has stopped reporting", async () => {
  const getNode = 'case "$*" in *"get node node-2"*) echo Unknown ;; *) echo True ;; esac';
  const exec = "echo report";
  const problem = "the kubelet of node node-2 does not report: ";
  expect(await run(["doctor"], { ...twoNodes, getNode, exec })).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining(`== node-1\nreport\n== node-2\nPROBLEM  plexusd  ${problem}`),
  });
  const one = await run(["doctor", "node-2"], { getNode, exec });
  expect(one).toMatchObject({ exitCode: 1, stdout: expect.stringContaining(problem) });
  const getPod = "echo shop/web node-2";
  const explained = await run(["explain", "web"], { getNode, getPod, exec });
  expect(explained).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(problem) });
  const withoutPermission = await run(["explain", "web"], { getNode: refused("get"), exec });
  expect(withoutPermission).toEqual({ exitCode: 0, stdout: "report", stderr: "" });
});

test.each(["0", "1"])("doctor fails without a pod, of %s that are selected", async (selected) => {
  const none = { selected: `echo ${selected}`, served: "true", podsOfNode: "true" };
  const doctor = await run(["doctor"], none);
  expect(doctor).toMatchObject({ exitCode: 1, stdout: expect.stringContaining("PROBLEM") });
});

test("doctor fails where Plexus is not installed", async () => {
  const { exitCode, stderr } = await run(["doctor"], { selected: "true" });
  expect(exitCode).toBe(2);
  expect(stderr).toContain("no DaemonSet plexus in namespace kube-system: set PLEXUS_NAMESPACE");
});

test.each([
  [{ getNode: notFound('nodes "node-1"') }, "there is no node node-1"],
  [{ selected: noDaemonSet }, "there is no DaemonSet plexus in namespace"],
  [{ getNode: refused("get"), selected: refused("get") }, "plexusd has no pod on node node-1"],
])("says why a node has no pod of plexusd: %o", async (kubectl, reason) => {
  for (const command of ["explain web", "records node-1"]) {
    const { exitCode, stderr } = await run(command.split(" "), { ...kubectl, podsOfNode: "true" });
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(reason) });
  }
});

test.each([
  [["explain", "-o"], "-o must be text, json, yaml or wide, not ''"],
  [["doctor", "--output", "xml"], "--output must be text, json, yaml or wide, not 'xml'"],
  [["doctor", "--output", "wide"], "-o wide is for records and networks"],
  [["sysdump", "-o", "json"], "sysdump prints text only"],
  [["doctor", "--nodes=2", "node-1"], "--nodes is for test"],
  [["explain", "-n"], "-n needs a value"],
  [["explain", "web", "--context"], "--context needs a value"],
  [["explain", "-x", "web"], "unknown flag -x; kubectl plexus help lists the flags"],
  [["explain", "--leftovers", "web"], "usage: kubectl plexus explain POD | NAMESPACE/POD"],
  [["explain"], "usage: kubectl plexus explain POD | NAMESPACE/POD"],
  [["doctor", "node-1", "node-2"], "usage: kubectl plexus doctor [NODE]"],
  [["test"], "usage: kubectl plexus test NETWORK | --cleanup"],
  [["test", "lan", "--cleanup"], "usage: kubectl plexus test NETWORK | --cleanup"],
  [["test", "lan", "--nodes", "all"], "--nodes must be a number from 2, not 'all'"],
  [["test", "lan", "--timeout=0"], "--timeout must be a number from 1, not '0'"],
  [["test", "lan", "--timeout=08"], "--timeout must be a number from 1, not '08'"],
  [["test", "lan", "--timeout=-5"], "--timeout must be a number from 1, not '-5'"],
  [["restart"], `unknown command restart; there are ${commands.join(" ")}`],
  [["help", "record"], `unknown command record; there are ${commands.join(" ")}`],
  [["doctor", "--ouput=json"], "unknown flag --ouput; kubectl plexus help lists the flags"],
])("reports wrong usage in one line: %j", async (args, message) => {
  const stderr = `kubectl plexus: ${message}`;
  expect(await run(args)).toEqual({ exitCode: 2, stdout: "", stderr });
});

test.each(["help records", "records --help", "records node-1 -h"])("%s explains", async (line) => {
  const { exitCode, stdout } = await run(line.split(" "));
  expect(exitCode).toBe(0);
  expect(stdout.match(/(?<=kubectl plexus )[a-z]+/g)).toEqual(["records"]);
  expect(stdout).toMatch(/^ {2}-o, --output /m);
  expect(stdout).not.toContain("--nodes");
  expect((await run(["help", "test"])).stdout).toContain("--nodes N");
});

/** Runs this plexusctl instead of that in plexusd's pod; no plexusd answers it. */
const plexusctlHere = `while [ "$1" != /plexus/plexusctl.js ]; do shift; done; shift
  exec ${process.execPath} ${join(import.meta.dirname, "../../main.ts")} "$@" --socket /nowhere/plexus.sock`;

test("prints the pod's last five events by their time if the user may list them", async () => {
  const created = { metadata: { creationTimestamp: "2026-01-01T00:00:00Z" } };
  const at = (n: number): string => `2026-01-02T00:00:0${n}Z`;
  const event = (n: number) => ({
    ...created,
    ...{ reason: "Failed", message: `two\nlines ${n}`, lastTimestamp: at(n), eventTime: null },
  });
  const items = [
    ...[3, 1, 2].map(event),
    { ...event(1), lastTimestamp: null, eventTime: "2026-01-02T00:00:07.123456Z" },
    { ...event(5), series: { count: 2, lastObservedTime: "2026-01-02T00:00:06.000000Z" } },
    { ...created, lastTimestamp: null, eventTime: null },
    event(4),
  ];
  const getEvents = `cat <<'END'\n${JSON.stringify({ kind: "List", items })}\nEND\n`;
  const { exitCode, stdout, stderr } = await run(["explain", "web"], {
    exec: plexusctlHere,
    getEvents,
  });
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: "" });
  const [sentence, ...rest] = stdout.split("\n");
  expect(sentence).toContain("plexusd does not answer");
  expect(rest.slice(0, 7)).toEqual([
    "",
    "LAST EVENT           REASON                  MESSAGE",
    ...["2 2", "3 3", "4 4", "6 5", "7 1"]
      .map((each) => each.split(" "))
      .map(([time, n]) => `2026-01-02T00:00:0${time}Z Failed                  two lines ${n}`),
  ]);
  const without = await run(["explain", "web"], { exec: plexusctlHere });
  const alone = "pod shop/web on node-1: Running\nhas: no network-status";
  expect(without).toMatchObject({ exitCode: 2, stdout: `${sentence}\n${alone}`, stderr: "" });
  const json = await run(["explain", "-o", "json", "web"], { exec: plexusctlHere, getEvents });
  expect(JSON.parse(json.stdout)).toMatchObject({ pod: { namespace: "shop", name: "web" } });
});

test("plexusctl prints nothing that does something to a terminal [S-309]", async () => {
  const name = "w\u009b\u202e";
  const { stdout } = await run(["explain", "web", "-o", "json"], {
    exec: plexusctlHere,
    getPod: `echo 'shop/${name} node-1'`,
  });
  expect(stdout).toContain("w\\u009b\\u202e");
  expect(JSON.parse(stdout)).toMatchObject({ pod: { name } });
});

test.each([
  ["", []],
  ['{"kind":"List","items":[]}', []],
  [" ".repeat(5_000_000), []],
])("lastEvents() has no table without events (%#)", async (text, lines) => {
  expect(await lastEvents(Readable.from([Buffer.from(text)]))).toEqual(lines);
});
