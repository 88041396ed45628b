import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base, expect, vi } from "vitest";
import { parse } from "yaml";
import { gcCommand } from "#cli/node/gc.ts";
import { checkNode } from "#cli/node/uninstall-checks.ts";
import { linesOf, run } from "#cli/testing/run.ts";
import type { AttachmentRecord, RecordedAttachment } from "#engine/record/record.ts";
import { readBootId } from "#host/boot-id.ts";
import { HostConfFiles } from "#host/conf-files.ts";
import { isCrioRunning } from "#host/crio.ts";
import { type HostView, viewOf, wholeHost } from "#host/host-view.ts";
import { FileRecordStore } from "#records/file-store.ts";

/** Sockets of all processes in the network namespace count: those of other tests, too. */
vi.mock("#host/crio.ts", () => ({ isCrioRunning: vi.fn(async () => false) }));

/** Expects exit code 1, and an error that says this. */
function expectFailure(
  { code, err }: Awaited<ReturnType<typeof run>>,
  says: string | RegExp,
): void {
  const isText = typeof says === "string";
  expect([code, err]).toEqual([
    1,
    isText ? expect.stringContaining(says) : expect.stringMatching(says),
  ]);
}

const primary = '{"cniVersion":"1.0.0","name":"cbr0","plugins":[{"type":"flannel"}]}';

/** A node below a directory, on which Plexus was installed. */
async function makeNode(root: string) {
  const at = (name: string): string => join(root, name);
  for (const dir of ["net.d", "bin", "state", "run", "image"]) await mkdir(at(dir));
  await writeFile(at("image/plexus"), "shim");
  await writeFile(at("image/plexus-standalone"), "engine");
  await writeFile(at("bin/flannel"), "", { mode: 0o755 });
  await writeFile(at("net.d/10-flannel.conflist"), primary);
  await writeFile(
    at("net.d/00-plexus.conflist"),
    JSON.stringify({
      cniVersion: "1.0.0",
      name: "plexus",
      plugins: [{ type: "plexus", clusterNetwork: at("net.d/10-flannel.conflist") }],
    }),
  );
  const list = ["--plugin-dirs-file", at("etc/plexus/plugin-dirs")];
  const install = (...flags: string[]): ReturnType<typeof run> =>
    run("install", "--from", at("image"), "--bin-dir", at("bin"), ...list, ...flags);
  await install("--standalone");
  await writeFile(at("state/primary-conf"), "10-flannel.conflist\n");
  const dirs = ["--cni-conf-dir", at("net.d"), "--bin-dir", at("bin"), "--state-dir", at("state")];
  const socket = ["--socket", at("run/plexus.sock")];
  const uninstall = (...flags: string[]): ReturnType<typeof run> =>
    run("uninstall", ...dirs, ...socket, ...list, ...flags);
  const paths = {
    cniConfDir: at("net.d"),
    primaryDir: at("net.d"),
    binDir: at("bin"),
    stateDir: at("state"),
    socket: at("run/plexus.sock"),
    pluginDirsFile: at("etc/plexus/plugin-dirs"),
  };
  const forget = (sandbox: string, ...flags: string[]): ReturnType<typeof run> =>
    run("gc", "--forget", sandbox, "--state-dir", at("state"), ...flags);
  return { at, paths, install, uninstall, forget };
}

const test = base
  .extend("node", async ({ task: _task }, { onCleanup }) => {
    const root = await mkdtemp(join(tmpdir(), "plexus-cli-"));
    onCleanup(() => rm(root, { recursive: true }));
    return makeNode(root);
  })
  .extend("store", ({ node }) => FileRecordStore.open(node.at("state")));

const failedAt = "2026-01-02T00:00:00.000Z";
const busy = { firstFailedAt: failedAt, failedAt, attempts: 2, lastError: "busy" };
const bootId = await readBootId();
const emptyPlan = { bootId, attempted: 0, steps: [] };

/** Of a pod that a runtime of Kubernetes attached. */
function recordOf(name: string, networks: readonly string[]): AttachmentRecord {
  return {
    listName: "cbr0",
    containerId: `c-${name}`,
    ifName: "eth0",
    netns: "/run/no-namespace-of-this-test",
    cniVersion: "1.0.0",
    pod: { namespace: "default", name, uid: "u" },
    createdAt: "2026-01-01T00:00:00.000Z",
    clockMs: 0,
    bootId,
    attachments: networks.map((network, i) => ({
      displayName: network,
      isDefault: i === 0,
      ifName: i === 0 ? "eth0" : `net${i}`,
      state: "attached",
      conf: { cniVersion: "1.0.0", name: network, plugins: [{ type: "flannel" }] },
      cniArgs: [["K8S_POD_INFRA_CONTAINER_ID", `c-${name}`]],
      capabilityArgs: {},
      searchPath: ["/opt/cni/bin"],
    })),
  };
}

test.each([
  [[], 2],
  [["help"], 0],
  [["--help"], 0],
  [["help", "records"], 0],
  [["config", "check"], 2],
  [["config", "check", "a", "b"], 2],
  [["install", "--nonsense"], 2],
  [["install", "--bin-dir"], 2],
  [["install", "extra"], 2],
  [["docker", "--scope", "swarm"], 2],
  [["docker", "--connectivity-scope", ""], 2],
  [["docker", "--log-level", "loud"], 2],
  [["uninstall", "--help"], 0],
])("plexusctl %j exits with %i and prints its usage", async (argv, code) => {
  const result = await run(...argv);
  expect(result.code).toBe(code);
  expect(result.out + result.err).toContain("usage: plexusctl");
});

test.each([
  [["recrods", "--leftovers"], '"recrods"; did you mean records?'],
  [["config"], '"config"; did you mean config show?'],
  [["conifg", "check"], '"conifg"; did you mean config check?'],
  [["help", "doctr"], '"doctr"; did you mean doctor?'],
  [["frobnicate"], '"frobnicate"; plexusctl --help lists the commands'],
])("plexusctl %j is one line about an unknown command", async (argv, problem) => {
  const err = `plexusctl: unknown command ${problem}`;
  expect(await run(...argv)).toEqual({ code: 2, out: "", err });
});

test("the last line about wrong usage is the error", async () => {
  expect((await run("install", "--nonsense")).err.split("\n")).toEqual([
    expect.stringContaining("usage: plexusctl install"),
    expect.stringMatching(/^plexusctl install: .*--nonsense/),
  ]);
});

test("version names plexusctl and plexusd", async ({ node }) => {
  const socket = ["--socket", node.at("run/plexus.sock")];
  const { code, out } = await run("version", ...socket);
  expect(await run("--version", ...socket)).toMatchObject({ code, out });
  expect([code, out]).toEqual([0, "plexusctl dev (dev)\nplexusd does not answer"]);
  const json = await run("version", "-o", "json", ...socket);
  expect(JSON.parse(json.out)).toEqual({ plexusctl: { version: "dev", commit: "dev" } });
});

const programs = ["install-plugins", "uninstall-cluster", "docker", "network-test"];

test("the overview leaves out the programs that manifests and units start; each has its own help", async () => {
  const { out } = await run("help");
  expect(out).toContain("  uninstall ");
  for (const name of programs) {
    expect(out).not.toContain(`  ${name} `);
    const help = await run(name, "--help");
    expect(help).toMatchObject({ code: 0, out: expect.stringContaining(`plexusctl ${name}: `) });
  }
});

test("each command of the overview has its own help", async () => {
  const { out } = await run("help");
  const names = Array.from(out.matchAll(/^ {2}([a-z]+( check)?) {2}/gm), ([, name = ""]) => name);
  expect(names).toContain("config check");
  for (const name of [...names, ...programs]) {
    const help = await run(...name.split(" "), "--help");
    expect(help.out).toContain(`plexusctl ${name}: `);
  }
});

test("the help lists every flag with its default", async () => {
  const { out } = await run("gc", "--help");
  const binDir = "--bin-dir DIR\n      the node's plugin directory (default /opt/cni/bin)\n";
  expect(out).toContain(binDir);
  for (const name of Object.keys(gcCommand.flags)) expect(out).toContain(`  --${name}`);
});

test("config check reports every problem with its line, or ok", async ({ node }) => {
  const file = node.at("config.yaml");
  await writeFile(file, "logLevel: loud\nlogLevle: off\n");
  const bad = await run("config", "check", file);
  expect(bad.code).toBe(1);
  expect(bad.err.split("\n")).toEqual([
    expect.stringContaining(`${file}:1: logLevel: `),
    `${file}:2: logLevle: unknown key, got "off"; did you mean logLevel?`,
  ]);
  await writeFile(file, "logLevel: debug\n");
  expect(await run("config", "check", file)).toEqual({ code: 0, out: `${file}: ok`, err: "" });
  expect((await run("config", "check", node.at("none"))).code).toBe(1);
});

test("network-test probe fails outside of the pods that are listed, and knows three steps", async () => {
  expect(await linesOf(["network-test", "probe"], '{"items":[]}')).toMatchObject({
    code: 1,
    err: [expect.stringMatching(/: pod \S+ is not in the list$/)],
  });
  const { code, err: problem } = await run("network-test", "all");
  expect([code, problem]).toEqual([1, expect.stringContaining("answer, probe or report")]);
});

test("config check - reads stdin", async () => {
  const text = "logLevle: debug\nclusterNetwork: ../../etc/x\n";
  const { code, err } = await linesOf(["config", "check", "-"], text);
  expect(code).toBe(1);
  expect(err.join("\n").split("\n")).toEqual([
    'stdin:1: logLevle: unknown key, got "debug"; did you mean logLevel?',
    'stdin:2: clusterNetwork: must be the name of a network, or an absolute path, got "../../etc/x"',
  ]);
});

test.for([
  ["readinessindicatorfile: /run/flannel/subnet.env", "/run/flannel"],
  ["clusterNetwork: /srv/net.d/10-x.conflist", "/srv/net.d"],
  ["defaultNetworks: [storage, /srv/net.d/20-y.conf]", "/srv/net.d"],
  ["confDir: /etc/cni/multus/net.d", "/etc/cni/multus/net.d"],
  ["binDir: /usr/libexec/cni", "/usr/libexec/cni"],
  ["cniBinDir: [/var/lib/cni/bin, /usr/libexec/cni]", "/usr/libexec/cni"],
  ["primaryDir: /etc/cni/primary.d", "/etc/cni/primary.d"],
] as const)("config check warns of unmounted paths: %j", async ([text, mount], { node }) => {
  const file = node.at("config.yaml");
  await writeFile(file, text);
  const { code, out, err } = await run("config", "check", file);
  expect([code, out]).toEqual([0, `${file}: ok`]);
  expect(err).toMatch(new RegExp(`^${file}: warning: [^:]+: \\S+ is not mounted by the manifests`));
  expect(err.split("\n")).toEqual([
    expect.stringContaining(
      `add a hostPath volume of ${mount} with the same path, as the chart does`,
    ),
  ]);
});

test("config check accepts the paths that the manifests mount", async ({ node }) => {
  const file = node.at("config.yaml");
  const lines = [
    "cniConfDir: /var/lib/rancher/k3s/agent/etc/cni/net.d",
    "cniBinDir: /var/lib/rancher/k3s/data/cni",
    "clusterNetwork: /var/lib/rancher/k3s/agent/etc/cni/net.d/10-flannel.conflist",
    "confDir: /etc/cni/plexus/net.d",
  ];
  await writeFile(file, lines.join("\n"));
  expect(await run("config", "check", file)).toEqual({ code: 0, out: `${file}: ok`, err: "" });
});

test("install uses the plugin directory of the configuration", async ({ node }) => {
  const file = node.at("config.yaml");
  await writeFile(file, `cniBinDir: [${node.at("first")}, ${node.at("second")}]\n`);
  const list = ["--plugin-dirs-file", node.at("plugin-dirs")];
  const { code, out } = await run("install", "--from", node.at("image"), "--config", file, ...list);
  expect([code, out]).toEqual([0, `${node.at("first")}/plexus: installed`]);
});

test("install installs the standalone engine by flag or if it is there", async ({ node }) => {
  const bin = node.at("opt/cni/bin");
  const list = ["--plugin-dirs-file", node.at("plugin-dirs")];
  const args = ["install", "--from", node.at("image"), "--bin-dir", bin, ...list];
  expect(await run(...args)).toMatchObject({ code: 0, out: `${bin}/plexus: installed` });
  expect(await readdir(bin)).toEqual(["plexus"]);
  await run(...args, "--standalone");
  await writeFile(node.at("image/plexus-standalone"), "engine 2");
  expect((await run(...args)).out.split("\n")).toEqual([
    `${bin}/plexus-standalone: installed`,
    `${bin}/plexus: unchanged`,
  ]);
});

test("install says which image has plexus-standalone, if this one lacks it", async ({ node }) => {
  await rm(node.at("image/plexus-standalone"));
  const { code, err } = await node.install("--standalone");
  expect(code).toBe(1);
  expect(err).toMatch(
    /the image has no .*plexus-standalone: use .* -standalone, or .*STANDALONE=1$/,
  );
  expect(err).not.toContain("ENOENT");
  const thick = await node.install();
  expect(thick.err).toMatch(/the image has no .*STANDALONE=1, or delete .*plexus-standalone$/);
});

const listed = async (path: string): Promise<string[]> =>
  (await readFile(path, "utf8")).split("\n").filter((line) => line !== "" && line[0] !== "#");

/** Installs with this `binDir` in the configuration. */
async function installWith(node: Awaited<ReturnType<typeof makeNode>>, binDir: string) {
  const config = node.at("config.yaml");
  await writeFile(config, JSON.stringify({ binDir }));
  return node.install("--config", config);
}

test("install lists the configuration's binDir", async ({ node }) => {
  const list = node.at("etc/plexus/plugin-dirs");
  expect((await installWith(node, "/srv/cni")).out).toContain(`${list}: lists /srv/cni`);
  expect(await listed(list)).toEqual(["/srv/cni"]);
  expect((await stat(list)).mode & 0o7777).toBe(0o644);
  expect((await stat(node.at("etc/plexus"))).mode & 0o022).toBe(0);
  expect((await installWith(node, node.at("bin"))).out).toContain(`${list}: removed`);
  await expect(stat(list)).rejects.toThrow("ENOENT");
});

test("install never changes a foreign list, and fails if it lacks one", async ({ node }) => {
  const list = node.at("etc/plexus/plugin-dirs");
  await mkdir(node.at("etc/plexus"), { recursive: true });
  await writeFile(list, "/srv/cni\n");
  expect(await node.install()).toMatchObject({ code: 0, err: "" });
  expect((await installWith(node, "/srv/cni")).out).toContain("already lists /srv/cni");
  expectFailure(await installWith(node, "/opt/other/bin"), "does not list /opt/other/bin");
  await node.uninstall();
  expect(await listed(list)).toEqual(["/srv/cni"]);
});

test("install warns of a listed directory that others than root can write to", async ({ node }) => {
  const dir = node.at("shared");
  await mkdir(dir);
  await chmod(dir, 0o775);
  expect((await installWith(node, dir)).err).toContain(`${dir}: the shim refuses its plugins`);
});

test.for(["/a:/b", "/a\n/b"])("install does not list %j", async (dir, { node }) => {
  expectFailure(await installWith(node, dir), "cannot be listed");
});

test("records lists pods and their networks", async ({ node, store }) => {
  await store.create(recordOf("web", ["cbr0", "default/net-a"]), emptyPlan);
  await store.create(recordOf("db", ["cbr0"]), emptyPlan);
  expect((await run("records", "--state-dir", node.at("state"))).out.split("\n")).toEqual([
    "POD          CONTAINER  NETWORKS                      SINCE",
    "default/db   c-db       eth0=cbr0                     2026-01-01T00:00:00.000Z",
    "default/web  c-web      eth0=cbr0,net1=default/net-a  2026-01-01T00:00:00.000Z",
  ]);
  const result = { cniVersion: "1.0.0", ips: [{ address: "10.1.0.7/24" }] };
  const base = recordOf("a", ["cbr0"]);
  const long = { ...base, containerId: "c-0123456789abcdef" };
  const attachments = base.attachments.map((each) => ({ ...each, result }));
  await store.create({ ...long, attachments }, emptyPlan);
  const wide = await run("records", "--state-dir", node.at("state"), "-o", "wide");
  expect(wide.out).toMatch(/^default\/a +c-0123456789abcdef +eth0=cbr0 .*Z +10.1.0.7\/24$/m);
  for (const format of ["json", "yaml"]) {
    const listed = await run("records", "--state-dir", node.at("state"), "-o", format);
    const records = parse(listed.out) as AttachmentRecord[];
    expect(records.map(({ containerId }) => containerId)).toEqual([
      long.containerId,
      "c-db",
      "c-web",
    ]);
  }
  await writeFile(node.at("state/c-x@eth0.record"), "{");
  expectFailure(await run("records", "--state-dir", node.at("state")), "c-x@eth0.record");
});

test.for([
  [["gc", "--forget", ""], /^usage: .*\nplexusctl gc: --forget is empty$/],
  [["gc", "--attached"], /^plexusctl gc: --attached is for --forget$/],
  [["gc", "--forget", "x", "--forget-leftovers"], /exclude each other$/],
  [["explain", ""], /^usage: .*\nplexusctl explain: an argument is empty$/],
  [
    ["explain", "shop/web/x"],
    /^plexusctl explain: "shop\/web\/x" is not NAMESPACE\/NAME of a pod$/,
  ],
  [["refresh", "shop/", "net1"], /^plexusctl refresh: "shop\/" is not NAMESPACE\/NAME of a pod$/],
] as const)("%j is refused", async ([argv, err]) => {
  expect(await run(...argv)).toMatchObject({ out: "", err: expect.stringMatching(err) });
});

test.for([["records"], ["gc", "--forget-leftovers"], ["gc", "--forget", "c-1"]])(
  "%j fails without the state directory, which it does not create",
  async (argv, { node }) => {
    expect(await run(...argv, "--state-dir", node.at("none"))).toEqual({
      code: 1,
      out: "",
      err: expect.stringMatching(/ENOENT: .*\/none.*; --state-dir must name the directory/),
    });
    await expect(stat(node.at("none"))).rejects.toThrow("ENOENT");
  },
);

test("records says that there is no attachment, and fails without state", async ({ node }) => {
  const flags = ["--state-dir", node.at("state")];
  expect(await run("records", ...flags)).toEqual({
    code: 0,
    out: "POD  CONTAINER  NETWORKS  SINCE",
    err: `no attachment in ${node.at("state")}`,
  });
  await rm(node.at("state/primary-conf"));
  expect(await run("records", ...flags)).toEqual({
    code: 1,
    out: "",
    err: `plexusctl records: Plexus has no state in ${node.at("state")}: --state-dir must name the directory of plexusd's records`,
  });
});

test("records --leftovers lists leftovers and the reasons", async ({ node, store }) => {
  const current = await readBootId();
  const planOf = (bootId: string) => ({ bootId, attempted: 1, steps: [] });
  const create = async (name: string, bootId: string): Promise<AttachmentRecord> => {
    const record = { ...recordOf(name, ["cbr0"]), bootId };
    await store.create(record, planOf(bootId));
    return record;
  };
  await create("web", current);
  const db = await create("db", current);
  await store.update({ ...db, teardown: busy }, planOf(current));
  await create("old", "earlier");
  await create("upgraded", "");
  // On a node that is a container, its own boot ID differs from that of its containers.
  const runs = { ...recordOf("runs", ["cbr0"]), bootId: "of-a-container", netns: node.at("net.d") };
  await store.create(runs, planOf("of-a-container"));
  const { out } = await run("records", "--leftovers", "--state-dir", node.at("state"));
  expect(out.split("\n").map((line) => line.replaceAll(/ {2,}/g, " | "))).toEqual([
    "POD | CONTAINER | NETWORKS | SINCE | REASON",
    `default/db | c-db | eth0=cbr0 | 2026-01-01T00:00:00.000Z | its teardown failed 2 times, last at ${failedAt}: busy`,
    "default/old | c-old | eth0=cbr0 | 2026-01-01T00:00:00.000Z | it was attached before the machine was restarted",
  ]);
});

test("uninstall hands the node back, leaves no directory, and is repeatable", async ({ node }) => {
  await mkdir(node.at("state/standalone"));
  await installWith(node, "/srv/cni");
  await mkdir(node.at("image/plugins"));
  await writeFile(node.at("image/plugins/vlan"), "plugin");
  await run("install-plugins", "--from", node.at("image/plugins"), "--bin-dir", node.at("bin"));
  for (const name of [
    "net.d/00-plexus.conflist.cilium_bak",
    "run/plexus.sock",
    "run/plexus.sock.0a1b2c",
    "state/c-1@eth0.record.damaged",
    "state/.c-1@eth0.record.0123456789ab.tmp",
    "state/c-1.lock",
    "state/definitions.json",
    "state/.definitions.json.0123456789ab.tmp",
    "state/standalone/config.yaml",
    "state/standalone/kubeconfig",
    "state/standalone/node-name",
    "state/standalone/.kubeconfig.0123456789ab.tmp",
  ]) {
    await writeFile(node.at(name), "");
  }
  const result = await node.uninstall();
  expect(result).toMatchObject({ code: 0, err: "" });
  expect(result.out).toContain("the container runtime uses 10-flannel.conflist");
  expect(await readdir(node.at("net.d"))).toEqual(["10-flannel.conflist"]);
  expect(await readdir(node.at("bin"))).toEqual([".plexus-reference-plugins", "flannel", "vlan"]);
  for (const dir of ["state", "run", "etc/plexus"]) {
    await expect(stat(node.at(dir))).rejects.toThrow("ENOENT");
  }
});

test("uninstall changes nothing without Plexus, and refuses a --state-dir", async ({ node }) => {
  const dirs = ["--cni-conf-dir", node.at("empty"), "--bin-dir", node.at("empty")];
  await mkdir(node.at("empty"));
  await mkdir(node.at("run/plexus"));
  const others = [
    "--socket",
    node.at("run/plexus/plexus.sock"),
    "--plugin-dirs-file",
    node.at("x"),
  ];
  // plexusd's DaemonSet and its uninstaller never name the state directory.
  expect(await run("uninstall", ...dirs, ...others)).toEqual({
    code: 0,
    out: `nothing of Plexus is in ${node.at("empty")}, ${node.at("empty")} and /var/lib/plexus`,
    err: "",
  });
  for (const flags of [dirs, []]) {
    expect(await node.uninstall(...flags, "--state-dir", node.at("empty"))).toEqual({
      code: 1,
      out: "",
      err: expect.stringContaining(`Plexus has no state in ${node.at("empty")}: --state-dir must`),
    });
  }
  expect(await readdir(node.at("empty"))).toEqual([]);
  expect(await readdir(node.at("run"))).toEqual(["plexus"]);
  expect(await readdir(node.at("bin"))).toContain("plexus");
});

test.for(["bin/plexus-standalone", "net.d/00-plexus.conflist.cilium_bak"])(
  "uninstall completes an interrupted one that has left %j",
  async (left, { node }) => {
    expect((await node.uninstall()).code).toBe(0);
    await writeFile(node.at(left), "");
    expect((await node.uninstall("--force")).out).toContain(`${node.at(left)}: removed`);
  },
);

test("uninstall removes no state if the other directories lack Plexus", async ({ node }) => {
  await mkdir(node.at("other.d"));
  const others = ["--cni-conf-dir", node.at("other.d"), "--bin-dir", node.at("run")];
  expectFailure(
    await node.uninstall(...others),
    `neither in ${node.at("other.d")} nor in ${node.at("run")}`,
  );
  for (const flag of ["--cni-conf-dir", "--bin-dir"]) {
    expectFailure(
      await node.uninstall(flag, node.at("none")),
      `no directory ${node.at("none")}: give the node's directory`,
    );
  }
  expect(await readdir(node.at("state"))).toEqual(["primary-conf"]);
  expect((await node.uninstall(...others, "--force")).code).toBe(0);
  await expect(stat(node.at("state"))).rejects.toThrow("ENOENT");
});

test("uninstall keeps the locks of another program in its --state-dir", async ({ node }) => {
  await mkdir(node.at("other"));
  await writeFile(node.at("other/storage.lock"), "");
  const { code, err } = await node.uninstall("--state-dir", node.at("other"), "--force");
  expect([code, err]).toEqual([0, expect.stringContaining("foreign files")]);
  expect(await readdir(node.at("other"))).toEqual(["storage.lock"]);
});

test("uninstall stops while pods are attached, unless forced", async ({ node, store }) => {
  await store.create(recordOf("web", ["cbr0", "default/net-a"]), emptyPlan);
  await store.create({ ...recordOf("typo", ["cbr0", "red"]), teardown: busy }, emptyPlan);
  const { code, out, err } = await node.uninstall();
  expect([code, out]).toEqual([1, ""]);
  expect(err).toMatch(/attached through Plexus: 1 \(default\/web\); delete these pods/);
  expect(err).toMatch(
    /not be detached: 1 \(default\/typo\); .*busy; .*Plexus again, or .*with --force$/m,
  );
  expect(err).not.toContain("kubectl plexus");
  expect(await readdir(node.at("net.d"))).toContain("00-plexus.conflist");
  await writeFile(node.at("state/c-lost@eth0.record"), "{", { mode: 0o600 });
  expect((await node.uninstall()).err).toMatch(/c-lost.*; delete the pod of this container/);
  await store.finish(recordOf("web", []));
  expect((await node.uninstall()).err).not.toContain("attached through Plexus");
  expect((await node.uninstall("--force")).code).toBe(0);
  expect(await readdir(node.at("net.d"))).toEqual(["10-flannel.conflist"]);
});

test("uninstall --check advises forget only while plexusd runs", async ({ node, store }) => {
  await store.create({ ...recordOf("typo", ["cbr0", "red"]), teardown: busy }, emptyPlan);
  const daemon = createServer();
  await new Promise<void>((resolve) => daemon.listen(node.at("run/plexus.sock"), resolve));
  expect((await node.uninstall("--check")).err).toMatch(/with kubectl plexus forget NODE$/m);
  await new Promise((resolve) => daemon.close(resolve));
  expect((await node.uninstall("--check")).err).not.toContain("kubectl plexus");
});

test("gc --forget removes a record, and prints what stays allocated", async ({ node, store }) => {
  const [attachment] = recordOf("web", ["cbr0"]).attachments;
  const result = { cniVersion: "1.0.0", ips: [{ address: "10.0.0.5/24" }] };
  const attachments = [{ ...(attachment as RecordedAttachment), result }];
  await store.create(
    { ...recordOf("web", []), attachments, teardown: busy, bootId: "b0" },
    emptyPlan,
  );
  expect(await node.forget("c-we")).toEqual({
    code: 0,
    out: [
      "network cbr0 (eth0, attached): Plexus will not release addresses 10.0.0.5/24, its interface and rules on the host",
      "default/web (c-web@eth0): forgotten; no plugin was executed",
    ].join("\n"),
    err: "",
  });
  expect(await readdir(node.at("state"))).toContain("c-web@eth0.detached");
  expectFailure(await node.forget("c-web"), /^sandbox c-web: no record in .*plexusctl records/);
});

test.for([
  ["attached while its namespace exists", "net.d/10-flannel.conflist", undefined],
  ["partly attached while its namespace exists", "net.d/10-flannel.conflist", busy],
  ["attached where the namespace's directory cannot be seen", "nowhere/netns/x", undefined],
] as const)("gc --forget refuses what is %s", async ([, netns, teardown], { node, store }) => {
  const place = { netns: node.at(netns), bootId: await readBootId() };
  const record = { ...recordOf("web", ["cbr0"]), ...place };
  await store.create(teardown === undefined ? record : { ...record, teardown }, emptyPlan);
  expect(await node.forget("c-web")).toMatchObject({
    code: 1,
    out: "",
    err: expect.stringMatching(/^default\/web \(c-web@eth0\): attached, .*--attached$/),
  });
  expect(await readdir(node.at("state"))).toContain("c-web@eth0.record");
  expect((await node.forget("c-web", "--attached")).code).toBe(0);
});

test("uninstall stops while another list calls Plexus, unless forced", async ({ node }) => {
  const own = await readFile(node.at("net.d/00-plexus.conflist"), "utf8");
  await writeFile(node.at("net.d/00-plexus.conflist.istio_bak"), own);
  await writeFile(node.at("net.d/05-mesh.conflist"), own);
  const nerdctl = { cniVersion: "1.0.0", name: "nerdctl", plugins: [{ type: "plexus" }] };
  await writeFile(node.at("net.d/87-nerdctl.conflist"), JSON.stringify(nerdctl));
  const { code, out, err } = await node.uninstall();
  expect([code, out]).toEqual([1, ""]);
  expect(err).toContain(`${node.at("net.d/87-nerdctl.conflist")} calls Plexus for another runtime`);
  expect(err).not.toContain("05-mesh");
  expect(await readdir(node.at("bin"))).toContain("plexus");
  expect((await node.uninstall("--force")).code).toBe(0);
});

test("gc --forget-leftovers removes leftovers, but nothing attached", async ({ node, store }) => {
  const forget = () => run("gc", "--forget-leftovers", "--state-dir", node.at("state"));
  await store.create({ ...recordOf("typo", ["cbr0", "red"]), teardown: busy }, emptyPlan);
  await store.create({ ...recordOf("rebooted", ["cbr0", "red"]), bootId: "b0" }, emptyPlan);
  await store.create(recordOf("web", ["cbr0", "red"]), emptyPlan);
  const runs = { ...recordOf("runs", ["cbr0", "red"]), bootId: "b0", netns: node.at("net.d") };
  await store.create(runs, emptyPlan);
  expect((await node.uninstall()).err).toMatch(
    /Plexus: 2 \(default\/runs, default\/web\).*not be detached: 2 \(default\/rebooted, default\/typo\)/s,
  );
  expect(await forget()).toMatchObject({
    code: 0,
    out: expect.stringMatching(/red \(net1, attached\).*c-rebooted.*c-typo@eth0\): forgotten;/s),
  });
  const left = (await store.list()).records.map(({ containerId }) => containerId);
  expect(left.toSorted()).toEqual(["c-runs", "c-web"]);
  expect((await forget()).out).toContain("no leftovers");
  expect((await node.uninstall()).err).not.toContain("not be detached");
});

test.for([["--forget", "c-web"], ["--forget-leftovers"]])(
  "gc %s leaves a sandbox for which a call runs",
  async (flags, { node, store }) => {
    await store.create({ ...recordOf("web", ["cbr0"]), teardown: busy, bootId: "b0" }, emptyPlan);
    const call = spawn("flock", [node.at("state/c-web.lock"), "-c", "echo locked; read _"]);
    await once(call.stdout, "data");
    const forget = () => run("gc", ...flags, "--state-dir", node.at("state"));
    const refusal = "default/web (c-web@eth0): a call for it is running; try again";
    expect(await forget()).toEqual({ code: 1, out: "", err: refusal });
    call.stdin.end();
    await once(call, "exit");
    expect(await forget()).toMatchObject({ code: 0, out: expect.stringContaining("forgotten") });
  },
);

test("gc --forget requires a unique ID", async ({ node, store }) => {
  for (const name of ["web", "web2"]) {
    await store.create({ ...recordOf(name, ["cbr0"]), bootId: "b0" }, emptyPlan);
  }
  expectFailure(await node.forget("c-we"), "not unique (c-web, c-web2)");
  expect((await node.forget("c-web")).code).toBe(0);
});

/** Of nerdctl: no CNI_ARGS name the sandbox. */
function ofNerdctl({ pod: _, attachments, ...container }: AttachmentRecord): AttachmentRecord {
  return { ...container, attachments: attachments.map((each) => ({ ...each, cniArgs: [] })) };
}

test.for<[string, AttachmentRecord, RegExp]>([
  [
    "a container of nerdctl",
    ofNerdctl(recordOf("db", ["cbr0"])),
    /Plexus: 1 \(c-db\); .*containers/,
  ],
  [
    "a container of nerdctl whose DEL failed",
    ofNerdctl({ ...recordOf("db", ["cbr0"]), teardown: busy }),
    /not be detached: 1 \(c-db\); c-db: its teardown failed 2 times/,
  ],
  [
    "a pod with only the default network whose DEL failed",
    { ...recordOf("web", ["cbr0"]), teardown: busy },
    /not be detached: 1 \(default\/web\); default\/web: its teardown failed 2 times/,
  ],
  [
    "a pod that another list attached",
    { ...recordOf("web", ["cbr0"]), listName: "plexus" },
    /Plexus: 1 \(default\/web\)/,
  ],
])("uninstall waits for %s, which may remain", async ([, record, reason], { node, store }) => {
  await store.create(record, emptyPlan);
  const { code, err } = await node.uninstall();
  expect([code, err]).toEqual([1, expect.stringMatching(reason)]);
  expect(await readdir(node.at("net.d"))).toContain("00-plexus.conflist");
  await store.finish(record);
  expect((await node.uninstall()).code).toBe(0);
});

test("uninstall --check leaves out a pod that a call detaches now", async ({ node, store }) => {
  await store.create({ ...recordOf("web", ["cbr0"]), teardown: busy }, emptyPlan);
  const daemon = createServer();
  await new Promise<void>((resolve) => daemon.listen(node.at("run/plexus.sock"), resolve));
  const refusal = { code: 1, err: expect.stringContaining("not be detached: 1 (default/web)") };
  expect(await node.uninstall("--check")).toMatchObject(refusal);
  const call = spawn("flock", [node.at("state/c-web.lock"), "-c", "echo locked; read _"]);
  await once(call.stdout, "data");
  expect(await node.uninstall("--check")).toMatchObject({ code: 0, err: "" });
  await new Promise((resolve) => daemon.close(resolve));
  expect(await node.uninstall()).toMatchObject(refusal);
  call.stdin.end();
  await once(call, "exit");
});

test("uninstall leaves default networks to the primary without CRI-O", async ({ node, store }) => {
  await store.create(recordOf("web", ["cbr0"]), emptyPlan);
  vi.mocked(isCrioRunning).mockResolvedValueOnce(true);
  expect((await node.uninstall()).err).toContain("attached through Plexus: 1 (default/web)");
  expect((await node.uninstall()).code).toBe(0);
});

test.for([
  ["is missing", (path: string) => rm(path)],
  ["is broken", (path: string) => writeFile(path, "{")],
  ["lacks its plugins", (path: string) => writeFile(path, primary.replace("flannel", "gone"))],
] as const)("uninstall stops when the primary's configuration %s", async ([, spoil], { node }) => {
  await spoil(node.at("net.d/10-flannel.conflist"));
  const result = await node.uninstall();
  expect(result.code).toBe(1);
  expect(result.err).toContain("the node would have no network");
  expect(await readdir(node.at("bin"))).toContain("plexus");
  expect((await node.uninstall("--force")).code).toBe(0);
});

test.for([
  ["serves calls", "run/plexus.sock"],
  ["leaves the calls to plexus-standalone", "run/admin-plexus.sock"],
] as const)("uninstall fails while plexusd runs and %s, also by --force", async (row, { node }) => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(node.at(row[1]), resolve));
  expectFailure(await node.uninstall("--force"), "plexusd is still running");
  expect(await readdir(node.at("net.d"))).toContain("00-plexus.conflist");
  await new Promise((resolve) => server.close(resolve));
});

test("uninstall copies the primary's configuration from --primary-dir", async ({ node }) => {
  await mkdir(node.at("private"));
  await writeFile(node.at("private/10-flannel.conflist"), primary);
  await rm(node.at("net.d/10-flannel.conflist"));
  const uninstall = (...flags: string[]) =>
    node.uninstall("--primary-dir", node.at("private"), ...flags);
  const copy = node.at("net.d/10-flannel.conflist");
  expect((await uninstall()).code).toBe(0);
  expect(await readFile(copy, "utf8")).toBe(primary);
  // Of a node that joins meanwhile, nothing else would ever copy it there.
  await rm(copy);
  await rename(node.at("private/10-flannel.conflist"), node.at("10-flannel.conflist"));
  expect((await uninstall()).err).toContain("no usable configuration of a primary CNI");
  await rename(node.at("10-flannel.conflist"), node.at("private/10-flannel.conflist"));
  expect((await uninstall("--force")).out).toMatch(/: restored\nnothing of Plexus is in /);
  expect(await readFile(copy, "utf8")).toBe(primary);
});

test("uninstall keeps foreign files and their directory", async ({ node }) => {
  await writeFile(node.at("state/important.txt"), "");
  expect((await node.uninstall()).err).toContain("foreign files");
  expect(await readdir(node.at("state"))).toEqual(["important.txt"]);
});

test("gc runs the shim as an agent, and passes on its output and exit code", async ({ node }) => {
  const script =
    '#!/bin/sh\necho "$@; $CNI_PATH; $PLEXUS_SOCKET"\necho trouble >&2\nexit $(cat "$0.exit")\n';
  await writeFile(node.at("bin/plexus"), script, { mode: 0o755 });
  const flags = ["--bin-dir", node.at("bin"), "--socket", node.at("run/plexus.sock")];
  for (const [code, ...options] of [[0], [1, "--any-owner"]] as const) {
    await writeFile(node.at("bin/plexus.exit"), String(code));
    expect(await run("gc", ...flags, ...options)).toEqual({
      code,
      out: `${["agent --once", ...options].join(" ")}; ${node.at("bin")}; ${node.at("run/plexus.sock")}`,
      err: "trouble",
    });
  }
});

test("gc fails without a shim, or if the shim fails without output", async ({ node }) => {
  const { code, err } = await run("gc", "--bin-dir", "/nowhere");
  expect(code).toBe(1);
  expect(err).toContain("/nowhere/plexus");
  await writeFile(node.at("bin/plexus"), "#!/bin/sh\nexit 3\n", { mode: 0o755 });
  const silent = await run("gc", "--bin-dir", node.at("bin"));
  expect(silent).toMatchObject({ code: 1, err: expect.stringContaining("Command failed: ") });
});

test("uninstall warns of plugins that it cannot see, such as k3s's", async ({ node }) => {
  await rm(node.at("bin/flannel"));
  await symlink("/var/lib/rancher/k3s/data/1234/bin/cni", node.at("bin/flannel"));
  const check = (view: HostView) =>
    checkNode(node.paths, { files: new HostConfFiles(view), isDaemonRunning: false });
  expect(await check(viewOf([node.at("")]))).toEqual({
    isHere: true,
    primary: "10-flannel.conflist",
    warnings: [expect.stringContaining("cannot see whether these plugins are there: flannel")],
    problems: [],
  });
  expect(await check(wholeHost)).toMatchObject({ warnings: [], problems: [expect.any(String)] });
});

test("uninstall finds the primary's plugins in the listed directories, too", async ({ node }) => {
  const dir = node.at("more");
  await mkdir(dir);
  await rename(node.at("bin/flannel"), join(dir, "flannel"));
  expect((await node.uninstall()).err).toContain("flannel not found in");
  await installWith(node, dir);
  expect(await node.uninstall()).toMatchObject({ code: 0, err: "" });
});

test.each([
  ["docker", ["--reconcile-seconds", "0"], "--reconcile-seconds must be a whole number of seconds"],
  ["uninstall-cluster", ["--seconds", "soon"], "--seconds must be a whole number of seconds"],
])("%s refuses %j", async (command, flags, problem) => {
  const { code, err } = await run(command, ...flags);
  expect({ code, err }).toEqual({ code: 1, err: `plexusctl ${command}: ${problem}` });
});

test("docker serves until it is stopped, and removes its socket", async ({ node }) => {
  const argv = [
    ...["docker", "--plugin-socket", node.at("run/plugins/plexus.sock")],
    ...["--call-socket", node.at("run/docker.sock"), "--state-dir", node.at("state/docker")],
    ...["--bin-dir", node.at("bin"), "--log-level", "error"],
  ];
  expect(await linesOf(argv, "", AbortSignal.abort())).toMatchObject({ code: 0, err: [] });
  expect(await readdir(node.at("run/plugins"))).toEqual([]);
  expect((await readdir(node.at("state/docker"))).toSorted()).toEqual([
    "endpoints",
    "networks",
    "records",
  ]);
});
