import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import type { Logger } from "#engine/ports.ts";
import { watchConfig } from "./watch.ts";

const silent: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silent,
};

/** A directory as the kubelet makes it for a ConfigMap: files are symlinks through `..data`. */
async function configMap(text: string) {
  const dir = await mkdtemp(join(tmpdir(), "plexus-config-"));
  let generation = 0;
  const update = async (content: string): Promise<void> => {
    const data = `..${generation++}`;
    await mkdir(join(dir, data));
    await writeFile(join(dir, data, "config.yaml"), content);
    await symlink(data, join(dir, "..data_tmp"));
    await rename(join(dir, "..data_tmp"), join(dir, "..data"));
  };
  await update(text);
  await symlink("..data/config.yaml", join(dir, "config.yaml"));
  const path = join(dir, "config.yaml");
  return { path, update, [Symbol.asyncDispose]: () => rm(dir, { recursive: true }) };
}

test("watchConfig() follows a ConfigMap's symlink swap", async () => {
  await using map = await configMap("logLevel: warn");
  const onChange = vi.fn();
  const watched = await watchConfig({ path: map.path, logger: silent, onChange, settleMs: 5 });
  expect(watched.current().logLevel).toBe("warn");
  await map.update("logLevel: debug");
  await vi.waitFor(() => expect(watched.current().logLevel).toBe("debug"));
  expect(onChange).toHaveBeenCalledOnce();
  watched.close();
});

test("watchConfig() keeps the old configuration when the new one is wrong, and says so once", async () => {
  await using map = await configMap("logLevel: warn");
  const onInvalid = vi.fn();
  const watched = await watchConfig({ path: map.path, logger: silent, onInvalid, settleMs: 5 });
  await map.update("logLevle: debug");
  await vi.waitFor(() => expect(onInvalid).toHaveBeenCalledOnce());
  expect(onInvalid.mock.lastCall?.[0].message).toContain("1: logLevle: unknown key");
  expect(watched.current().logLevel).toBe("warn");
  expect(watched.text()).toBe("logLevel: warn");
  await map.update("logLevel: error");
  await vi.waitFor(() => expect(watched.current().logLevel).toBe("error"));
  expect(onInvalid).toHaveBeenCalledOnce();
  watched.close();
});

test("watchConfig() notices a change by its poll where no watch reports it", async () => {
  await using map = await configMap("logLevel: warn");
  const options = { path: map.path, logger: silent, settleMs: 60_000, pollMs: 20 };
  const watched = await watchConfig(options);
  await map.update("logLevel: debug");
  await vi.waitFor(() => expect(watched.current().logLevel).toBe("debug"));
  watched.close();
});

test("watchConfig() refuses to start with a wrong or missing file", async () => {
  await using map = await configMap("nonsense: 1");
  await expect(watchConfig({ path: map.path, logger: silent })).rejects.toThrow("nonsense");
  await expect(watchConfig({ path: `${map.path}x`, logger: silent })).rejects.toThrow("ENOENT");
});
