import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ScriptedServer, status } from "#grpc/testing/scripted-server.ts";
import { listSandboxes } from "./list-sandboxes.ts";
import { sandboxListFile, sandboxListPath, writeSandboxList } from "./sandbox-list-file.ts";
import { listPodSandbox } from "./testing/list-pod-sandbox.ts";

const timeoutMs = 5000;

test("listSandboxes() returns every sandbox, stopped ones included", async () => {
  const runtime = await ScriptedServer.create();
  const metadata = { name: "web", uid: "u1", namespace: "default", attempt: 0 };
  const items = [
    { id: "c1", metadata, state: 0 },
    { id: "c2", metadata: undefined, state: 1 },
  ];
  await runtime.answer(listPodSandbox, () => ({ items })).start();
  const listed = await listSandboxes(runtime.socketPath, { timeoutMs });
  expect(listed).toEqual(new Set(["c1", "c2"]));
  expect(runtime.requests).toEqual([[listPodSandbox.path, {}]]);
});

test.each([
  ["fails", () => Promise.reject(status(2, "server is not initialized yet")), "not initialized"],
  ["hangs", () => new Promise<never>(() => undefined), "DEADLINE_EXCEEDED"],
  ["answers with garbage", () => Buffer.from("0aff", "hex"), "the response is not readable"],
])("listSandboxes() rejects when the runtime %s", async (_, answer, problem) => {
  const runtime = await ScriptedServer.create();
  await runtime.answer(listPodSandbox, answer).start();
  await expect(listSandboxes(runtime.socketPath, { timeoutMs: 300 })).rejects.toThrow(problem);
});

test("listSandboxes() rejects when the server is not a container runtime", async () => {
  const other = await ScriptedServer.create();
  await other.answer({ ...listPodSandbox, path: "/v1.Other/List" }, () => ({})).start();
  await expect(listSandboxes(other.socketPath, { timeoutMs })).rejects.toThrow("UNIMPLEMENTED");
});

test("sandboxListFile() reads what writeSandboxList() wrote", async () => {
  const { directory } = await ScriptedServer.create();
  const path = sandboxListPath(join(directory, "plexus.sock"));
  const file = sandboxListFile(path);
  expect(await file.latest()).toBeUndefined();
  const list = { listedAt: "2026-01-01T00:00:00.000Z", containerIds: new Set(["c1", "c2"]) };
  await writeSandboxList(path, list);
  expect(await file.latest()).toEqual(list);
  expect(await readFile(path, "utf8")).toContain('"containerIds":["c1","c2"]');
});

test.each(["", "{", "[]", '{"containerIds":["c1"]}', '{"listedAt":"now","containerIds":[1]}'])(
  "sandboxListFile() refuses %j",
  async (content) => {
    const { directory } = await ScriptedServer.create();
    const path = join(directory, "sandboxes.json");
    await writeFile(path, content);
    await expect(sandboxListFile(path).latest()).rejects.toThrow();
  },
);
