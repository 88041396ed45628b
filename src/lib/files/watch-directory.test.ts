import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { watchDirectory } from "./watch-directory.ts";

async function scratch() {
  const path = await mkdtemp(join(tmpdir(), "plexus-watch-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

test("watchDirectory() reports changes until it is closed", async () => {
  await using dir = await scratch();
  const onEvent = vi.fn();
  const watched = await watchDirectory(dir.path, onEvent);
  await writeFile(join(dir.path, "a"), "");
  await vi.waitFor(() => expect(onEvent).toHaveBeenCalled());
  watched.close();
  await watched.rearm();
  onEvent.mockClear();
  await writeFile(join(dir.path, "b"), "");
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(onEvent).not.toHaveBeenCalled();
});

test("watchDirectory() finds a directory that is made or replaced later, on rearm()", async () => {
  await using dir = await scratch();
  const path = join(dir.path, "later");
  const onEvent = vi.fn();
  const watched = await watchDirectory(path, onEvent);
  for (const _round of [1, 2]) {
    await rm(path, { recursive: true, force: true });
    await mkdir(path);
    await watched.rearm();
    onEvent.mockClear();
    await writeFile(join(path, "a"), "");
    await vi.waitFor(() => expect(onEvent).toHaveBeenCalled());
  }
  watched.close();
});
