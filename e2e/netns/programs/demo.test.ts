import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa, type Options, type ResultPromise } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { demoSvg } from "../../../scripts/demo/svg.ts";
import { requireRoot } from "../../support/node/netns-lab.ts";
import { cniPluginDir, repositoryRoot } from "../../support/paths.ts";
import { waitForExit } from "../../support/processes.ts";

let scratch: string;
const script = join(repositoryRoot, "scripts/demo.sh");

beforeAll(async () => {
  requireRoot();
  scratch = await mkdtemp(join(tmpdir(), "plexus-demo-test-"));
});
afterAll(async () => await rm(scratch, { recursive: true, force: true }));

/** The demo in a directory of the test's own. */
function demo(name: string, options: Options = {}): { dir: string; run: ResultPromise } {
  const dir = join(scratch, name);
  const env = { PLEXUS_DEMO_DIR: dir, ...(options.env as Record<string, string> | undefined) };
  return { dir, run: execa(script, [], { reject: false, ...options, env }) as ResultPromise };
}

/** The host's links and named namespaces, which the demo must not touch. */
async function host(): Promise<string> {
  return (await execa("sh", ["-c", "ip -o link | cut -d: -f2; ls /run/netns 2>/dev/null; true"]))
    .stdout;
}

test("make demo attaches two pods to three networks, pings over each and leaves nothing", async () => {
  const before = await host();
  const { dir, run } = demo("success");
  const { exitCode, stdout, stderr } = await run;
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  expect(stdout).toMatch(/^[\n\x20-\x7e]*$/);
  for (const ifName of ["eth0", "net1", "lab0"])
    expect(stdout).toMatch(new RegExp(`\\n {3}${ifName} .* ms\\n`));
  expect(stdout).toMatch(
    /CNI_COMMAND=ADD[\s\S]*K8S_POD_NAME=web[\s\S]*"clusterNetwork":"pod-network"/,
  );
  expect(stdout).toMatch(/192\.168\.50\.10\/24[\s\S]*"name": "demo\/lab"/);
  expect(stdout).toMatch(
    /address leases +0 +4 +0 +as before[\s\S]*attachment records +0 +2 +0 +as before/,
  );
  expect(stdout).toMatch(/ Nothing is left\.\n/);
  const picture = join(repositoryRoot, "docs/pods.svg");
  expect(demoSvg(String(stdout))).toBe(await readFile(picture, "utf8"));
  expect(existsSync(dir)).toBe(false);
  expect(await host()).toBe(before);
});

test("make demo without root fails with the reason in one line", async () => {
  const asUser = ["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-s"];
  // Read from stdin, as the checkout may be in a directory that only root can read.
  const { exitCode, stdout, stderr } = await execa("setpriv", asUser, {
    inputFile: script,
    reject: false,
    cwd: "/",
  });
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
  expect(stderr).toBe("demo: it makes network namespaces and so needs root: sudo make demo");
});

/** The reference plugins that the demo needs, without macvlan. */
async function withoutMacvlan(name: string): Promise<string> {
  const plugins = join(scratch, name);
  await mkdir(plugins);
  for (const type of ["ptp", "bridge", "host-local", "static"])
    await symlink(join(cniPluginDir(), type), join(plugins, type));
  return plugins;
}

test("make demo names a missing plugin in one line", async () => {
  const plugins = await withoutMacvlan("plugins");
  const { dir, run } = demo("missing", { env: { CNI_PLUGIN_DIR: plugins } });
  const { exitCode, stdout, stderr } = await run;
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
  expect(stderr).toBe(`demo: CNI plugin macvlan is missing in ${plugins}: run \`make deps\``);
  expect(existsSync(dir)).toBe(false);
});

test("make demo rejects a directory in use in one line, and leaves the directory", async () => {
  await mkdir(join(scratch, "busy"));
  const { dir, run } = demo("busy");
  const { exitCode, stdout, stderr } = await run;
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
  expect(stderr).toBe(
    `demo: ${dir} is in use: another demo runs, or one was killed; then remove it`,
  );
  expect(existsSync(dir)).toBe(true);
});

test("make demo names a failed step in one line, and leaves nothing", async () => {
  const plugins = await withoutMacvlan("broken-plugins");
  await symlink("/bin/false", join(plugins, "macvlan"));
  const { dir, run } = demo("broken", { env: { CNI_PLUGIN_DIR: plugins } });
  const { exitCode, stderr } = await run;
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/^demo: ADD of pod web failed: .*demo\/lab \(lab0\).*$/);
  expect(existsSync(dir)).toBe(false);
});

test.each(["SIGINT", "SIGTERM"] as const)("%s during make demo leaves nothing", async (signal) => {
  const before = await host();
  const { dir, run } = demo(signal, { detached: true });
  await new Promise<void>((resolve) => {
    run.stdout?.on("data", (chunk: Buffer) => {
      if (chunk.includes("it serves")) resolve();
    });
  });
  process.kill(-(run.pid as number), signal);
  const { exitCode } = await run;
  expect(exitCode).not.toBe(0);
  await waitForExit(run.pid as number);
  expect(existsSync(dir)).toBe(false);
  expect(await host()).toBe(before);
});
