import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, expect, test } from "vitest";

/*
 * deploy/kubectl-plexus with a scripted kubectl, for answers that a real one seldom gives. The cluster
 * scenarios run it with a real one.
 */

const program = join(import.meta.dirname, "../../../../deploy/kubectl-plexus");
let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-kubectl-"));
});

afterEach(async () => {
  await rm(dir, { recursive: true });
});

/** How kubectl answers, by the first words of its arguments that fit; shell code. */
interface Kubectl {
  readonly getPod?: string;
  readonly listPods?: string;
  readonly exec?: string;
  readonly getEvents?: string;
}

async function run(args: readonly string[], kubectl: Kubectl = {}) {
  const {
    getPod = "echo node-1",
    listPods = "echo plexus-x Running",
    exec = 'printf "%s\\n" "$*"',
    getEvents = "false",
  } = kubectl;
  const path = join(dir, "kubectl");
  await writeFile(
    path,
    `#!/bin/sh\ncase "$*" in\n"config view"*) echo shop ;;\n*"get pods -l"*) ${listPods} ;;\n*"get pod "*) ${getPod} ;;\n*" exec "*) ${exec} ;;\n*"get events "*) ${getEvents} ;;\nesac\n`,
  );
  await chmod(path, 0o755);
  const { exitCode, stdout, stderr } = await execa(program, args, {
    reject: false,
    env: { PATH: `${dir}:${process.env.PATH}`, TMPDIR: dir },
  });
  return { exitCode, stdout, stderr };
}

const refused = (what: string): string =>
  `echo 'Error from server (Forbidden): pods is forbidden: ${what}' >&2; exit 1`;

test("a pod without a namespace is in the namespace of kubectl's context", async () => {
  const { exitCode, stdout } = await run(["explain", "web"]);
  expect(exitCode).toBe(0);
  expect(stdout).toBe(
    "-n kube-system exec plexus-x -c plexusd -- /plexus/node /plexus/plexusctl.js explain -o text shop/web",
  );
});

test.each([
  [["-n", "other", "web"], "-o text other/web"],
  [["--namespace", "other", "-o", "json", "web"], "-o json other/web"],
])("accepts the flags of kubectl: %j", async (args, asked) => {
  const { exitCode, stdout } = await run(["explain", ...args]);
  expect(exitCode).toBe(0);
  expect(stdout).toContain(`plexusctl.js explain ${asked}`);
});

test("kubectl's warnings go to stderr", async () => {
  const getPod = "echo 'Warning: use --other' >&2; echo node-1";
  const { exitCode, stdout, stderr } = await run(["explain", "shop/web"], { getPod });
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "Warning: use --other" });
  expect(stdout).toContain("explain -o text shop/web");
});

test.each([
  [{ getPod: refused("get") }, "you may not get pods in shop"],
  [{ listPods: refused("list") }, "you may not list pods in kube-system"],
  [{ exec: refused("exec") }, "you may not create pods/exec in kube-system"],
] as const)("names the missing permission: %o", async (kubectl, message) => {
  const { exitCode, stderr } = await run(["explain", "shop/web"], kubectl);
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(new RegExp(`^kubectl plexus: ${message}: ask for that right .*$`));
});

test("fails with one line where plexusd does not run", async () => {
  const { exitCode, stderr } = await run(["explain", "web"], { listPods: "echo plexus-x Pending" });
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(
    /^kubectl plexus: plexusd does not run on node node-1 \(plexus-x Pending\)/,
  );
  expect(stderr).not.toContain("\n");
});

test("fails for a pod without a node", async () => {
  const { exitCode, stderr } = await run(["explain", "web"], { getPod: "true" });
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

test("doctor checks all nodes and fails at the end", async () => {
  const listPods = `case "$*" in *field-selector*) echo plexus-x Running ;; *) echo node-1; echo node-2 ;; esac`;
  const exec = "echo report; exit 1";
  expect(await run(["doctor"], { listPods, exec })).toEqual({
    exitCode: 1,
    stdout: "== node-1\nreport\n== node-2\nreport",
    stderr: "",
  });
});

test.each([
  [["explain", "-o"], "-o must be text or json, not ''"],
  [["doctor", "--output", "yaml"], "--output must be text or json, not 'yaml'"],
  [["explain", "-n"], "-n needs a namespace"],
  [["explain", "-x", "web"], "usage: kubectl plexus explain"],
  [["explain"], "usage: kubectl plexus explain"],
  [["doctor", "node-1", "node-2"], "usage: kubectl plexus explain"],
  [["restart"], "usage: kubectl plexus explain"],
])("reports wrong usage: %j", async (args, message) => {
  const { exitCode, stderr } = await run(args);
  expect(exitCode).toBe(2);
  expect(stderr).toContain(message);
});

test("prints the pod's last five events if the user may list them", async () => {
  const getEvents = 'echo "LAST EVENT"; for n in 1 2 3 4 5 6 7; do echo "event $n"; done';
  const { exitCode, stdout } = await run(["explain", "web"], {
    exec: "echo report; exit 1",
    getEvents,
  });
  const events = ["LAST EVENT", ...[3, 4, 5, 6, 7].map((n) => `event ${n}`)];
  expect({ exitCode, lines: stdout.split("\n") }).toEqual({
    exitCode: 1,
    lines: ["report", "", ...events],
  });
  const json = await run(["explain", "-o", "json", "web"], { exec: "echo {}", getEvents });
  expect(json.stdout).toBe("{}");
});
