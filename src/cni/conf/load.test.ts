import { expect, test, vi } from "vitest";
import { type NetConfList, toJson } from "./conf.ts";
import type { ConfReader } from "./conf-file.ts";
import {
  loadAuxiliaryChain,
  loadFirstNetwork,
  loadNetworkByName,
  loadNetworkFile,
} from "./load.ts";

/** Files by path; reading a value that is not a string fails. */
class MemoryFiles implements ConfReader {
  readonly #files: ReadonlyMap<string, unknown>;

  constructor(files: Readonly<Record<string, unknown>>) {
    this.#files = new Map(Object.entries(files));
  }

  list(dir: string): Promise<string[]> {
    if (this.#files.has(dir)) return Promise.reject(new Error(`ENOTDIR: scandir '${dir}'`));
    const inside = [...this.#files.keys()].filter((path) => path.startsWith(`${dir}/`));
    const names = inside.map((path) => path.slice(dir.length + 1).split("/")[0] ?? "");
    return Promise.resolve([...new Set(names)].sort());
  }

  read(path: string): Promise<string> {
    const file = this.#files.get(path);
    if (typeof file === "string") return Promise.resolve(file);
    return Promise.reject(new Error(`EACCES: permission denied, open '${path}'`));
  }

  kind(path: string): Promise<"file" | "directory" | "absent"> {
    if (this.#files.has(path)) return Promise.resolve("file");
    const isDir = [...this.#files.keys()].some((file) => file.startsWith(`${path}/`));
    return Promise.resolve(isDir ? "directory" : "absent");
  }
}

const conf = (name: string, type = "bridge"): string =>
  JSON.stringify({ cniVersion: "1.0.0", name, type });
const list = (name: string, extra: object = { plugins: [{ type: "bridge" }] }): string =>
  JSON.stringify({ cniVersion: "1.0.0", name, ...extra });

/** Loads by name from /net; gives the types of the plugins and the warnings. */
async function byName(
  files: Readonly<Record<string, unknown>>,
  name = "n",
): Promise<{ types: string[]; warnings: string[]; list: NetConfList }> {
  const warnings: string[] = [];
  const onWarning = (message: string): number => warnings.push(message);
  const found = await loadNetworkByName({
    dir: "/net",
    name,
    files: new MemoryFiles(files),
    onWarning,
  });
  return { types: found.plugins.map(({ type }) => type), warnings, list: found };
}

const of = (type: string): string => list("n", { plugins: [{ type }] });

test.each<[string, Record<string, string>, string]>([
  ["finds a .conf file", { "10.conf": conf("n", "ptp") }, "ptp"],
  ["finds a .json file", { "10.json": conf("n", "ptp") }, "ptp"],
  ["prefers a .conflist", { "00.conf": conf("n", "ptp"), "50.conflist": of("first") }, "first"],
  [
    "takes the first of several files and ignores other extensions",
    {
      ...{ "05.conflist.bak": of("no"), "06.CONFLIST": of("no") },
      ...{ "10.conflist": of("first"), "20.conflist": of("second") },
    },
    "first",
  ],
  [
    "ignores a file without an extension",
    { conflist: of("no"), "first.conflist": of("first") },
    "first",
  ],
  ["finds a file that is called .conflist", { ".conflist": of("first") }, "first"],
])("loadNetworkByName() %s [L-01] [L-02] [L-09]", async (_, files, type) => {
  const paths = Object.entries(files).map(([name, text]) => [`/net/${name}`, text]);
  const { types, warnings, list: found } = await byName(Object.fromEntries(paths));
  expect({ types, warnings }).toEqual({ types: [type], warnings: [] });
  expect(found).toMatchObject({ name: "n", cniVersion: "1.0.0" });
});

test("loadNetworkByName() skips unusable files with a warning [R-1.1-05]", async () => {
  const files = {
    "/net/10.conflist": "{",
    "/net/20.conflist": list("x", { plugins: [{}] }),
    "/net/25.conflist": undefined,
    "/net/30.conflist": list("n"),
    "/net/40.conflist": "{",
  };
  expect((await byName(files)).warnings).toEqual([
    expect.stringMatching(
      /skipped: invalid network configuration in \/net\/10.conflist: not valid JSON/,
    ),
    "network configuration skipped: invalid network configuration in /net/20.conflist: plugins[0].type: is missing",
    "network configuration skipped: error reading /net/25.conflist: EACCES: permission denied, open '/net/25.conflist'",
  ]);
});

test("loadNetworkByName() fails if the file that contains the network is invalid [L-04]", async () => {
  const files = { "/net/10.conflist": list("n", { plugins: [{}] }), "/net/20.conf": conf("n") };
  await expect(byName(files)).rejects.toMatchObject({
    code: 7,
    message: "invalid network configuration in /net/10.conflist: plugins[0].type: is missing",
  });
});

test.each([
  [{}, "no net configurations found in /net"],
  [{ "/net/nested/10.conf": conf("n") }, "no net configurations found in /net"],
  [{ "/net/10.conf": conf("other") }, 'no net configuration with name "n" in /net'],
  [{ "/net/10.conflist": list("other") }, 'no net configuration with name "n" in /net'],
  [{ "/net/d.conflist/10.conf": conf("n") }, 'no net configuration with name "n" in /net'],
  [
    { "/net/10.conf": "[]" },
    'no net configuration with name "n" in /net; skipped: invalid network configuration in /net/10.conf: must be an object, got []',
  ],
])("loadNetworkByName() fails without a matching network: %j [L-03]", async (files, message) => {
  await expect(byName(files)).rejects.toMatchObject({ code: 7, message });
});

test.each([
  ["../x", "invalid characters found in network name"],
  ["", "missing network name:"],
  ["a/b", "invalid characters found in network name"],
  ["n\n", "invalid characters found in network name"],
])("loadNetworkByName() rejects the name %j [L-08] [L-11] [R-1.1-06]", async (name, message) => {
  const files = { "/x/10.conf": conf("n") };
  await expect(byName(files, name)).rejects.toMatchObject({ code: 7, message });
});

const inline = { plugins: [{ type: "inline" }] };
const inlineOnly = { ...inline, loadOnlyInlinedPlugins: true };

test.each([
  { name: "only side-loaded ones", body: {}, beside: ["a.conf"], types: ["a"] },
  { name: "only inline ones", body: inline, beside: [], types: ["inline"] },
  { name: "not with other extensions", body: inline, beside: ["x.json"], types: ["inline"] },
  {
    name: "after inline ones",
    body: inline,
    beside: ["b.conf", "a.conf"],
    types: ["inline", "a", "b"],
  },
  { name: "not with loadOnlyInlined", body: inlineOnly, beside: ["a.conf"], types: ["inline"] },
])("it side-loads: $name [R-1.1-04] [R-1.1-05] [L-08] [L-10]", async ({ body, beside, types }) => {
  const extra = beside.map((file) => [`/net/n/${file}`, JSON.stringify({ type: file[0] })]);
  const found = await byName({
    "/net/10.conflist": list("n", body),
    ...Object.fromEntries(extra),
  });
  expect(found.types).toEqual(types);
  expect(toJson(found.list).plugins).toHaveLength(types.length);
});

const none = list("n", {});

test.each([
  [none, {}, 'no plugin configs found for network "n"'],
  [
    none,
    { "/net/n/a.conf": "{}" },
    "invalid plugin configuration in /net/n/a.conf: type: is missing",
  ],
  [none, { "/net/n/a.conf": undefined }, "error reading /net/n/a.conf: EACCES"],
  [list("n", { loadOnlyInlinedPlugins: true }), {}, "plugins: is missing"],
  [list("n", { plugins: [] }), {}, "plugins: no plugins in list"],
])("loadNetworkByName() rejects incomplete lists: %j and %j [L-05] [L-08]", async (...row) => {
  const [text, beside, message] = row;
  await expect(byName({ "/net/10.conflist": text, ...beside })).rejects.toThrow(message);
});

test("loadNetworkByName() warns of keys that only a runtime may set [R-1.0-03]", async () => {
  const plugins = [{ type: "a" }, { type: "b", prevResult: {}, runtimeConfig: {} }];
  expect((await byName({ "/net/10.conflist": list("n", { plugins }) })).warnings).toEqual([
    "/net/10.conflist: plugins[1].prevResult is ignored: only a runtime may set it",
    "/net/10.conflist: plugins[1].runtimeConfig is ignored: only a runtime may set it",
  ]);
});

test("loadNetworkFile() loads the network of a file with its side-loaded plugins", async () => {
  const files = new MemoryFiles({
    "/net/10.conflist": list("n"),
    "/net/n/a.conf": '{"type":"tuning"}',
    "/net/20.conf": conf("single"),
    "/net.conf.d/list": list("other"),
    "/net/30.conf": list("wrong"),
    "/net/40.conflist": conf("wrong"),
    "/net/50.conflist": list("beside-a-file"),
    "/net/beside-a-file": "",
  });
  const options = { files, onWarning: (): void => undefined };
  const loaded = await Promise.all(
    ["/net/10.conflist", "/net/20.conf", "/net.conf.d/list", "/net/50.conflist"].map((path) =>
      loadNetworkFile(path, options),
    ),
  );
  expect(loaded.map(({ name, plugins }) => [name, plugins.length])).toEqual([
    ["n", 2],
    ["single", 1],
    ["other", 1],
    ["beside-a-file", 1],
  ]);
  await expect(loadNetworkFile("/net/30.conf", options)).rejects.toThrow(
    "belongs in a .conflist file",
  );
  await expect(loadNetworkFile("/net/40.conflist", options)).rejects.toThrow(
    "belongs in a .conf file",
  );
  await expect(loadNetworkFile("/net/none", options)).rejects.toMatchObject({
    code: 5,
    cause: new Error("EACCES: permission denied, open '/net/none'"),
  });
});

const many = (length: number): object => ({
  plugins: Array.from({ length }, () => inline.plugins[0]),
});

test.each([
  ["plugins", list("n", many(33)), "/net/10.conflist: plugins has 33 plugins"],
  ["plugins with those beside", list("n", many(31)), 'network "n": plugins has 33 plugins'],
  [
    "bytes",
    list("n", { ...inline, filler: "x".repeat(131_072) }),
    "/net/10.conflist has 131147 bytes",
  ],
])("loadNetworkFile() refuses too many %s, unless it is unlimited", async (_, text, over) => {
  const message = expect.stringContaining(`${over}, more than the limit of`);
  const beside = { "/net/n/a.conf": '{"type":"a"}', "/net/n/b.conf": '{"type":"b"}' };
  const files = new MemoryFiles({ "/net/10.conflist": text, ...beside });
  const load = async (options: { unlimited?: boolean }): Promise<NetConfList> =>
    await loadNetworkFile("/net/10.conflist", { files, onWarning: () => undefined, ...options });
  await expect(load({})).rejects.toMatchObject({ code: 100, message });
  await expect(load({ unlimited: false })).rejects.toMatchObject({ code: 100, message });
  expect((await load({ unlimited: true })).plugins.at(-1)).toMatchObject({ type: "b" });
});

test("loadFirstNetwork() returns the first usable network that the filter accepts", async () => {
  const warnings: string[] = [];
  const options = {
    files: new MemoryFiles({
      "/net/00-plexus.conflist": list("plexus", { plugins: [{ type: "plexus" }] }),
      "/net/10-broken.conf": "{",
      "/net/15-long.conflist": list("long", many(62)),
      "/net/20-first.conf": conf("first"),
      "/net/30-second.conflist": list("second"),
    }),
    onWarning: (message: string): number => warnings.push(message),
  };
  expect((await loadFirstNetwork("/net", options)).name).toBe("plexus");
  const accept = ({ plugins }: NetConfList): boolean => plugins[0]?.type !== "plexus";
  expect((await loadFirstNetwork("/net", { ...options, accept })).name).toBe("first");
  expect(warnings).toEqual([
    expect.stringContaining("/net/10-broken.conf"),
    expect.stringContaining("/net/15-long.conflist: plugins has 62 plugins"),
  ]);
  await expect(loadFirstNetwork("/empty", options)).rejects.toThrow(
    "no net configurations found in /empty",
  );
  await expect(loadFirstNetwork("/net", { ...options, accept: () => false })).rejects.toThrow(
    "no net configurations found in /net; skipped: ",
  );
});

test.each([
  ["an absent directory", { "/net/10.conf": conf("n") }],
  ["a file of that name", { "/net/chain": "" }],
  ["a directory without .conf files", { "/net/chain/a.json": '{"type":"a"}' }],
])("loadAuxiliaryChain() finds none in %s, without a warning", async (_, stored) => {
  const onWarning = vi.fn();
  const files = new MemoryFiles(stored);
  const options = { dir: "/net", name: "chain", cniVersion: "1.0.0", files, onWarning };
  expect(await loadAuxiliaryChain(options)).toBeUndefined();
  expect(onWarning).not.toHaveBeenCalled();
});
