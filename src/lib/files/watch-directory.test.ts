import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { eventually } from "#lib/testing/eventually.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { watchDirectory } from "./watch-directory.ts";

test("watchDirectory() reports changes until it is closed", async () => {
  const dir = await temporaryDirectory();
  const onEvent = vi.fn();
  const watched = await watchDirectory(dir, onEvent);
  await writeFile(join(dir, "a"), "");
  await eventually(() => expect(onEvent).toHaveBeenCalled());
  watched.close();
  await watched.rearm();
  onEvent.mockClear();
  await writeFile(join(dir, "b"), "");
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(onEvent).not.toHaveBeenCalled();
});

test("watchDirectory() watches a directory that was created or replaced, after rearm()", async () => {
  const dir = await temporaryDirectory();
  const path = join(dir, "later");
  const onEvent = vi.fn();
  const watched = await watchDirectory(path, onEvent);
  for (const _round of [1, 2]) {
    await rm(path, { recursive: true, force: true });
    await mkdir(path);
    await watched.rearm();
    onEvent.mockClear();
    await writeFile(join(path, "a"), "");
    await eventually(() => expect(onEvent).toHaveBeenCalled());
  }
  watched.close();
});
