import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** A new directory, which is removed after the test. */
export async function temporaryDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "plexus-test-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}
