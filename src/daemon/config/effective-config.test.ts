import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { openEffectiveConfig } from "./effective-config.ts";
import { parseConfig } from "./parse.ts";

/** A directory as the kubelet makes it for a ConfigMap: files are symlinks through `..data`. */
async function configMap(text: string) {
  const dir = await temporaryDirectory();
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
  return { path, update };
}

/** The configuration of a file, with the metrics and log levels that it sets. */
async function open(config: string, times: { settleMs?: number; pollMs?: number } = {}) {
  const reloads: boolean[] = [];
  const levels: string[] = [];
  const logger = new FakeLogger();
  const effective = await openEffectiveConfig({
    flags: {
      config,
      source: { kind: "api" },
      socket: "",
      stateDir: "",
      kubeletDir: "",
      cniConfDir: "/flag/net.d",
    },
    logger,
    metrics: { configReloaded: (isValid) => reloads.push(isValid) },
    setLogLevel: (level) => levels.push(level),
    settleMs: 5,
    ...times,
  });
  onTestFinished(() => effective.close());
  return { effective, reloads, levels, logger };
}

test("the configuration follows a ConfigMap's symlink swap, and flags override it", async () => {
  const map = await configMap("logLevel: warn\ncniConfDir: /srv/net.d");
  const { effective, reloads, levels } = await open(map.path);
  const onChange = vi.fn();
  effective.onChange(onChange);
  expect(effective.current()).toMatchObject({
    logLevel: "warn",
    nodeConf: { cniConfDir: "/flag/net.d" },
  });
  await map.update("logLevel: debug");
  await eventually(() => expect(effective.current().logLevel).toBe("debug"));
  expect(onChange).toHaveBeenCalledOnce();
  expect([reloads, levels]).toEqual([[true], ["warn", "debug"]]);
});

test("settings() has each key's value in effect and its source; some are read at the start only", async () => {
  const map = await configMap("logLevel: warn\nstrictness: multus\napiTimeoutMs: 1000");
  await writeFile(join(dirname(map.path), "platform.yaml"), "logLevel: debug\nbinDir: /opt/x");
  const { effective } = await open(map.path);
  await map.update("logLevel: error\napiTimeoutMs: 2000");
  await eventually(() => expect(effective.current().logLevel).toBe("error"));
  const found = effective.settings({ namespaceIsolation: true, binDir: "/else", type: "plexus" });
  const sources = new Map(found.map(({ key, value, source }) => [key, [value, source]]));
  expect(Object.fromEntries(sources)).toMatchObject({
    logLevel: ["error", map.path],
    apiTimeoutMs: [1000, map.path],
    binDir: ["/opt/x", join(dirname(map.path), "platform.yaml")],
    cniConfDir: ["/flag/net.d", "command line"],
    namespaceIsolation: [true, "the CNI configuration"],
    strictness: ["standard", "default"],
  });
});

test("former keys of both files have no effect, and the log says what applies instead", async () => {
  const map = await configMap("statusOf: requested\nlogLevel: warn");
  await writeFile(join(dirname(map.path), "platform.yaml"), "delBudgetMs: 1");
  const { effective, logger } = await open(map.path);
  expect(logger.at("warn")).toEqual([
    expect.stringMatching(
      /platform\.yaml:1: delBudgetMs: .*: all plugins of a DEL have 50 seconds/,
    ),
    expect.stringMatching(/config\.yaml:1: statusOf: .*: every pod gets network-status/),
  ]);
  expect(effective.text()).toBe('{"logLevel":"warn"}');
  const keys = effective.settings({}).map(({ key }) => key);
  expect(keys).not.toContain("statusOf");
  await map.update("statusOf: all");
  await eventually(() => expect(logger.at("warn")).toHaveLength(4));
  expect(effective.warnings()).toHaveLength(2);
});

test("an invalid configuration is reported once, and the previous one stays in effect", async () => {
  const map = await configMap("logLevel: warn");
  const { effective, reloads } = await open(map.path);
  const onInvalid = vi.fn();
  effective.onInvalid(onInvalid);
  await map.update("logLevle: debug");
  await eventually(() => expect(onInvalid).toHaveBeenCalledOnce());
  expect(onInvalid.mock.lastCall?.[0]).toContain("1: logLevle: unknown key");
  expect(effective.current().logLevel).toBe("warn");
  expect(effective.text()).toBe("logLevel: warn");
  expect(effective.problem()).toContain("1: logLevle: unknown key");
  await map.update("logLevel: error");
  await eventually(() => expect(effective.current().logLevel).toBe("error"));
  expect(effective.problem()).toBeUndefined();
  expect(reloads).toEqual([false, true]);
});

test("a file that was missing counts as reloaded when the same text is back", async () => {
  const map = await configMap("logLevel: warn");
  const { effective, reloads } = await open(map.path, { pollMs: 20 });
  await rename(map.path, `${map.path}.away`);
  await eventually(() => expect(reloads).toContain(false));
  expect(effective.problem()).toContain("ENOENT");
  await rename(`${map.path}.away`, map.path);
  await eventually(() => expect(reloads.at(-1)).toBe(true));
  expect(effective.problem()).toBeUndefined();
});

test("the operator's keys override the installation's, and each file may be absent", async () => {
  const map = await configMap("cniBinDir: /opt/bin\nhotPlug: true");
  const platform = join(dirname(map.path), "platform.yaml");
  await writeFile(platform, "cniBinDir: /k3s/bin\nplexusNamespace: plexus");
  const { effective } = await open(map.path, { pollMs: 20 });
  const engine = { plexusNamespace: "plexus", hotPlug: true };
  expect(effective.current()).toMatchObject({ engine, nodeConf: { shimDir: "/opt/bin" } });
  const forStandalone = { engine, nodeConf: { shimDir: "/opt/bin" } };
  expect(parseConfig(effective.text(), "text")).toMatchObject(forStandalone);

  await rm(map.path);
  await eventually(() => expect(effective.current().nodeConf.shimDir).toBe("/k3s/bin"));
  expect(effective.current().engine).toEqual({ plexusNamespace: "plexus" });
  await writeFile(map.path, "plexusNamespace: [own");
  await eventually(() => expect(effective.problem()).toContain(`${map.path}:1: `));
  await writeFile(map.path, "multusNamespace: own");
  await eventually(() => expect(effective.current().engine.plexusNamespace).toBe("own"));
});

test("an error in the installation's file names it", async () => {
  const map = await configMap("hotPlug: true");
  await writeFile(join(dirname(map.path), "platform.yaml"), "cniBindir: /k3s/bin");
  await expect(open(map.path)).rejects.toThrow("platform.yaml:1: cniBindir: unknown key");
});

test("polling detects a change that no watch reports", async () => {
  const map = await configMap("logLevel: warn");
  const { effective } = await open(map.path, { settleMs: 60_000, pollMs: 20 });
  await map.update("logLevel: debug");
  await eventually(() => expect(effective.current().logLevel).toBe("debug"));
});

test("an invalid or missing file fails the start", async () => {
  const map = await configMap("nonsense: 1");
  await expect(open(map.path)).rejects.toThrow("nonsense");
  await expect(open(`${map.path}x`)).rejects.toThrow("ENOENT");
});
