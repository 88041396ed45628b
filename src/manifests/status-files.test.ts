import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { Pod } from "#engine/ports/cluster.ts";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { StatusFiles } from "./status-files.ts";

let dir: string;
let logger: FakeLogger;
let files: StatusFiles;

beforeEach(async () => {
  dir = await temporaryDirectory();
  logger = new FakeLogger();
  wanted.clear();
  files = new StatusFiles(dir, logger);
  files.follow(async ({ name }) => wanted.get(name));
});

const podOf = (name: string, namespace = "default"): Pod => ({
  ...{ namespace, name, uid: "u", annotations: {} },
});

/** What the records want, by name. */
const wanted = new Map<string, string>();

/** The record of a pod changes. */
function publish(pod: Pod, text: string): ReturnType<StatusFiles["shown"]> {
  wanted.set(pod.name, text);
  return files.shown(pod, new AbortController().signal);
}

function withdraw(pod: Pod): Promise<void> {
  wanted.delete(pod.name);
  return files.detached(pod);
}

test("only the owner can write to the directory of statuses, whatever the umask", async () => {
  const before = process.umask(0);
  onTestFinished(() => void process.umask(before));
  await publish(podOf("web", "apps"), "[1]");
  const modes = await Promise.all([".status", ".status/apps"].map((path) => stat(join(dir, path))));
  expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o755, 0o755]);
});

test("publish() writes the status to .status/<namespace>/<pod>.json, readable for all", async () => {
  await publish(podOf("web", "apps"), "[1]");
  await publish(podOf("web", "apps"), "[2]");
  const path = join(dir, ".status", "apps", "web.json");
  expect(await readFile(path, "utf8")).toBe("[2]");
  expect((await stat(path)).mode & 0o777).toBe(0o644);
});

test("detached() removes the file, if it still exists, unless another sandbox has a status", async () => {
  const left = (): Promise<string[]> => readdir(join(dir, ".status", "default"));
  await publish(podOf("b"), "[]");
  await publish(podOf("a"), "[]");
  await files.detached(podOf("a"));
  expect(await left()).toEqual(["a.json", "b.json"]);
  // As a process that is killed leaves it.
  await writeFile(join(dir, ".status/default/.a.json.1d458f942064.tmp"), "[");
  for (const _time of [1, 2]) await withdraw(podOf("a"));
  expect(await left()).toEqual(["b.json"]);
});

test("publish() succeeds while another pod's status is withdrawn", async () => {
  for (let i = 0; i < 50; i++) {
    await publish(podOf("a"), "[]");
    await Promise.all([withdraw(podOf("a")), publish(podOf("b"), `[${i}]`)]);
    expect(await readFile(join(dir, ".status", "default", "b.json"), "utf8")).toBe(`[${i}]`);
    await withdraw(podOf("b"));
  }
  expect(logger.lines).toEqual([]);
});

test("of several changes, the last one decides", async () => {
  const waiting = ["a", "b", "c"].map((name) => publish(podOf(name), "[1]"));
  await Promise.all([publish(podOf("b"), "[2]"), withdraw(podOf("c"))]);
  expect(await Promise.all(waiting)).toEqual([undefined, undefined, undefined]);
  const [a, b] = ["a", "b"].map((name) =>
    readFile(join(dir, ".status", "default", `${name}.json`), "utf8"),
  );
  expect([await a, await b]).toEqual(["[1]", "[2]"]);
  expect(await readdir(join(dir, ".status", "default"))).toEqual(["a.json", "b.json"]);
});

test("publish() and withdraw() log failures and never reject", async () => {
  await writeFile(join(dir, ".status"), "a file");
  expect(await publish(podOf("web"), "[]")).toMatchObject({ isRejected: false });
  const logged = "manifests: the network-status could not be changed";
  expect(logger.at("error")).toEqual([logged]);
  await rm(join(dir, ".status"));
  await mkdir(join(dir, ".status", "default", "web.json", "x"), { recursive: true });
  await withdraw(podOf("web"));
  expect(logger.at("error")).toEqual([logged, logged]);
});

test("a record that cannot be read is a failure, and nothing rejects", async () => {
  files.follow(() => Promise.reject(new Error("input/output error")));
  const message = expect.stringContaining("input/output error");
  const { signal } = new AbortController();
  expect(await files.shown(podOf("web"), signal)).toEqual({ message, isRejected: false });
  await files.detached(podOf("web"));
  expect(logger.at("error")).toHaveLength(2);
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
  await new StatusFiles(join(dir, ".status", "deep"), logger).detached({ namespace, name });
  await files.detached({ namespace, name });
  await publish(podOf(name, namespace), "[]");
  for (const path of ["victim.json", ".status/victim.json", "elsewhere/victim.json"]) {
    expect(await readFile(join(dir, path), "utf8")).toBe("keep");
  }
});
