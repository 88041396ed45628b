import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { networkStatusAnnotation } from "#npwg/selection/selection.ts";
import { StatusFiles } from "./status-files.ts";

let dir: string;
let logger: FakeLogger;
let files: StatusFiles;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "plexus-status-"));
  logger = new FakeLogger();
  files = new StatusFiles(dir, logger);
});

afterEach(async () => {
  await rm(dir, { recursive: true });
});

const podOf = (name: string, namespace = "default"): Parameters<StatusFiles["publish"]>[0] => ({
  namespace,
  name,
  uid: "u",
});

const status = (value: string | null): Record<string, string | null> => ({
  [networkStatusAnnotation]: value,
});

test("only the owner can write to the directory of statuses, whatever the umask", async () => {
  const before = process.umask(0);
  onTestFinished(() => void process.umask(before));
  await files.publish(podOf("web", "apps"), status("[1]"));
  const modes = await Promise.all([".status", ".status/apps"].map((path) => stat(join(dir, path))));
  expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o755, 0o755]);
});

test("publish() writes the status to .status/<namespace>/<pod>.json, readable for all", async () => {
  await files.publish(podOf("web", "apps"), status("[1]"));
  await files.publish(podOf("web", "apps"), status("[2]"));
  const path = join(dir, ".status", "apps", "web.json");
  expect(await readFile(path, "utf8")).toBe("[2]");
  expect((await stat(path)).mode & 0o777).toBe(0o644);
});

test("publish() with null or no status, and withdraw(), remove the file, if it still exists", async () => {
  const left = (): Promise<string[]> => readdir(join(dir, ".status", "default"));
  await files.publish(podOf("b"), status("[]"));
  for (const remove of [
    () => files.publish(podOf("a"), status(null)),
    () => files.publish(podOf("a"), {}),
    () => files.withdraw(podOf("a")),
  ]) {
    await files.publish(podOf("a"), status("[]"));
    expect(await left()).toEqual(["a.json", "b.json"]);
    // As a process that is killed leaves it.
    await writeFile(join(dir, ".status/default/.a.json.1d458f942064.tmp"), "[");
    for (const _time of [1, 2]) await remove();
    expect(await left()).toEqual(["b.json"]);
  }
});

test("publish() succeeds while another pod's status is withdrawn", async () => {
  for (let i = 0; i < 50; i++) {
    await files.publish(podOf("a"), status("[]"));
    await Promise.all([files.withdraw(podOf("a")), files.publish(podOf("b"), status(`[${i}]`))]);
    expect(await readFile(join(dir, ".status", "default", "b.json"), "utf8")).toBe(`[${i}]`);
    await files.withdraw(podOf("b"));
  }
  expect(logger.lines).toEqual([]);
});

test("publish() writes unless a later call has decided", async () => {
  const waiting = ["a", "b", "c"].map((name) => files.publish(podOf(name), status("[1]")));
  await Promise.all([files.publish(podOf("b"), status("[2]")), files.withdraw(podOf("c"))]);
  expect(await Promise.all(waiting)).toEqual(["settled", "settled", "settled"]);
  const [a, b] = ["a", "b"].map((name) =>
    readFile(join(dir, ".status", "default", `${name}.json`), "utf8"),
  );
  expect([await a, await b]).toEqual(["[1]", "[2]"]);
  expect(await readdir(join(dir, ".status", "default"))).toEqual(["a.json", "b.json"]);
});

test("publish() and withdraw() log failures and never reject", async () => {
  await writeFile(join(dir, ".status"), "a file");
  expect(await files.publish(podOf("web"), status("[]"))).toBe("pending");
  expect(logger.at("error")).toEqual(["manifests: the network-status could not be written"]);
  await rm(join(dir, ".status"));
  await mkdir(join(dir, ".status", "default", "web.json", "x"), { recursive: true });
  await files.withdraw(podOf("web"));
  expect(logger.at("error").at(-1)).toBe("manifests: the network-status could not be removed");
});

test.each([
  ["../../elsewhere", "victim"],
  ["default", "../../victim"],
  ["..", "victim"],
])("withdraw() of the invalid pod name %s/%s touches no file", async (namespace, name) => {
  for (const path of ["victim.json", ".status/victim.json", "elsewhere/victim.json"]) {
    await mkdir(join(dir, path, ".."), { recursive: true });
    await writeFile(join(dir, path), "keep");
  }
  await new StatusFiles(join(dir, ".status", "deep"), logger).withdraw({ namespace, name });
  await files.withdraw({ namespace, name });
  await files.publish(podOf(name, namespace), status("[]"));
  for (const path of ["victim.json", ".status/victim.json", "elsewhere/victim.json"]) {
    expect(await readFile(join(dir, path), "utf8")).toBe("keep");
  }
});
