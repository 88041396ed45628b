import { readdir, readFile } from "node:fs/promises";
import { dirname, join, normalize, relative } from "node:path";
import { expect, test } from "vitest";
import { documentProblems } from "../scripts/documents.ts";

const engine = ["lib", "netlink", "cni", "npwg", "engine"];
const adapters = ["records", "host", "kube", "manifests", "devices"];

/**
 * Which folders of src/ each folder may import: ARCHITECTURE.md, "Folders and who may import whom".
 * The front ends share src/serving; plexusctl and plexus-standalone also read plexusd's files.
 */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  lib: [],
  netlink: ["lib"],
  cni: ["lib"],
  npwg: ["lib", "cni"],
  engine: ["lib", "netlink", "cni", "npwg"],
  protocol: ["lib"],
  grpc: ["lib"],
  records: [...engine, "protocol"],
  host: [...engine, "protocol"],
  kube: engine,
  manifests: engine,
  devices: [...engine, "grpc"],
  serving: [...engine, ...adapters, "protocol"],
  daemon: [...engine, ...adapters, "protocol", "serving"],
  standalone: [...engine, ...adapters, "protocol", "daemon/config"],
  docker: [...engine, ...adapters, "serving"],
  endpoints: ["lib", "npwg", "engine", "kube"],
  cli: [
    ...engine,
    ...adapters,
    ...["serving", "daemon/config", "daemon/cni-conf", "daemon/admin", "docker", "endpoints"],
  ],
};

/** What a folder's tests may import beyond that: plexusctl is tested against what the daemon serves. */
const testsMayImport: Readonly<Record<string, readonly string[]>> = { cli: ["daemon", "grpc"] };

/** The folders of src/engine, the lowest first: each imports only those before it. */
const engineFolders = [
  ...["ports", "record", "call", "plan", "inventory", "check", "network-status", "del", "add"],
  ...["hotplug", "leftovers", "gc", "status", "explain"],
];

/** The names that other folders import from one of src/engine, at most 15. */
const doors: Readonly<Record<string, readonly string[]>> = {
  call: [
    ...["CallContext", "CallTools", "PodFindings", "SandboxLocks", "asIoFailure", "callContext"],
    ...["callTools", "contextWithoutCall", "inSandbox", "linkNames", "netlinkTransport"],
    ...["sandboxAddresses", "sandboxFields", "sandboxLinks", "signOfBoot"],
  ],
  plan: [
    ...["AttachmentPlan", "PlanProblem", "PlannedAttachment", "checkSizeWithResults"],
    ...["defaultNetwork", "delegateSearchPath", "furtherDelegates", "networksOf"],
    ...["planAttachments", "planFurther", "readinessProblem", "requirePlugins", "resolvePod"],
    ...["selectedNetwork", "withCallParameters"],
  ],
  record: [
    ...["AttachmentRecord", "RecordedAttachment", "StoredRecord", "TeardownPlan", "addHasEnded"],
    ...["begunTeardown", "byAge", "calledUid", "isOfPod", "isOfSameAdd", "isSame", "mayRun"],
    ...["recordedList", "sandboxName", "usableRecord"],
  ],
};

/** Folders whose code does no I/O, and the Node modules that do none. */
const pureFolders = ["netlink", "cni", "npwg", "engine"];
const pureModules = ["path", "path/posix", "util", "buffer", "crypto", "zlib", "os", "url"];

/** The parts of the package `netlink` that may be imported: its codecs, which open no socket. */
const netlinkCodecs = /^netlink\/dist\/(constants|structs|rt\/gen_structs)\.js$/;

interface SourceFile {
  /** From the repository's root. */
  readonly path: string;
  readonly text: string;
}

const isTest = (path: string): boolean => /\.test\.ts$|\/testing\//.test(path);
const folderOf = (path: string): string => path.split("/")[1] ?? "";

/** Re-exports are rejected: each name is imported from the file that defines it. */
const reExport = /\bexport\s+(?:type\s+)?(?:\{[^}]*\}|\*(?:\s+as\s+\w+)?)\s*from\b/;

function importsOf(text: string): string[] {
  const pattern = /(?:\bfrom\s*|\bimport\s*\(?\s*)(["'])([^"'\n]+)\1/g;
  return [...text.matchAll(pattern)].map((match) => match[2] as string);
}

/** Everything that breaks the rules, one line each. */
function violations(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => {
    const { path, text } = file;
    const imports = importsOf(withoutComments(text));
    return [
      ...(path.endsWith("/index.ts") ? ["is a barrel"] : []),
      ...(reExport.test(withoutComments(text)) ? ["re-exports"] : []),
      ...(isTest(path) || path.endsWith("/main.ts") ? [] : processUses(withoutComments(text))),
      ...imports.flatMap((specifier) => importProblem(path, specifier) ?? []),
    ].map((problem) => `${path} ${problem}`);
  });
}

function importProblem(path: string, specifier: string): string | undefined {
  const problem = `imports ${specifier}`;
  if (specifier.startsWith("..")) return problem;
  if (isGrpcLibrary(specifier) && !(folderOf(path) === "grpc" || isTest(path))) return problem;
  if (specifier.startsWith("#")) return folderProblem(path, specifier) ? problem : undefined;
  if (/^netlink(\/|$)/.test(specifier)) {
    const isUser = folderOf(path) === "netlink" || isTest(path);
    return isUser && netlinkCodecs.test(specifier) ? undefined : problem;
  }
  const isPure = pureFolders.includes(folderOf(path)) && !isTest(path);
  const isNode = specifier.startsWith("node:");
  return isPure && isNode && !pureModules.includes(specifier.slice("node:".length))
    ? problem
    : undefined;
}

/** The gRPC library takes memory: only src/grpc imports it, and only when it is needed. */
function isGrpcLibrary(specifier: string): boolean {
  return specifier === "@grpc/grpc-js";
}

/** Tests may use the fakes and everything that their folder may; fakes are for tests alone. */
function folderProblem(path: string, specifier: string): boolean {
  const own = folderOf(path);
  if (specifier.includes("/testing/") && !isTest(path)) return true;
  const forTests = isTest(path) ? (testsMayImport[own] ?? []) : [];
  const allowed = [own, ...(mayImport[own] ?? []), ...forTests];
  return !allowed.some((each) => specifier === `#${each}` || specifier.startsWith(`#${each}/`));
}

/** Import cycles, direct or through other files, types included: `a.ts → b.ts → a.ts`. */
function cycles(files: readonly SourceFile[]): string[] {
  const imports = new Map(files.map(({ path, text }) => [path, importedFiles(path, text)]));
  const found: string[] = [];
  const seen = new Set<string>();
  const visit = (path: string, above: readonly string[]): void => {
    const start = above.indexOf(path);
    if (start >= 0) found.push([...above.slice(start), path].join(" → "));
    if (seen.has(path)) return;
    seen.add(path);
    for (const imported of imports.get(path) ?? []) visit(imported, [...above, path]);
  };
  for (const path of imports.keys()) visit(path, []);
  return found;
}

function importedFiles(path: string, text: string): string[] {
  return importsOf(withoutComments(text)).flatMap((specifier) => {
    if (specifier.startsWith("#")) return [`src/${specifier.slice(1)}`];
    return specifier.startsWith(".") ? [normalize(join(dirname(path), specifier))] : [];
  });
}

/** The names that a file imports from a folder. */
function namesFrom(text: string, folder: string): string[] {
  const imports = text.matchAll(/import\s+(?:type\s+)?\{([^}]*)\}\s*from\s*"([^"]+)"/g);
  const found = [...imports].filter(([, , from = ""]) => from.startsWith(folder));
  const names = found.flatMap(([, list = ""]) => list.split(","));
  return names.map((name) => name.replace("type ", "").trim()).filter((name) => name !== "");
}

/** The process's environment, arguments, streams and exit are for `main.ts` files alone. */
function processUses(text: string): string[] {
  const uses = text.matchAll(
    /\bprocess\.(env|argv|stdin|stdout|stderr|exit|exitCode|chdir|on|once)\b/g,
  );
  const imported = text.matchAll(
    /import\s*\{[^}]*\b(env|argv|stdin|stdout|stderr|exit)\b[^}]*\}\s*from\s*"node:process"/g,
  );
  return [...uses, ...imported].map((match) => `uses process.${match[1]}`);
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, "");
}

const root = join(import.meta.dirname, "..");

/** The folders to which the rules for cycles and sizes apply. */
const roots = ["src", "e2e", "bench", "scripts"];

/** Files that a folder may have; a test beside its subject does not count. */
const folderLimit = 15;

/** Every file below a folder of the repository, from the repository's root. */
async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(root, join(entry.parentPath, entry.name)));
}

async function sources(...folders: string[]): Promise<SourceFile[]> {
  const paths = (await Promise.all(folders.map(filesBelow))).flat();
  const modules = paths.filter((path) => path.endsWith(".ts"));
  return Promise.all(
    modules.map(async (path) => ({ path, text: await readFile(join(root, path), "utf8") })),
  );
}

/** Folders with too many files: `src/lib has 16 files`. */
function tooLarge(paths: readonly string[]): string[] {
  const all = new Set(paths);
  const isBesideSubject = (path: string): boolean =>
    path.endsWith(".test.ts") && all.has(path.replace(/\.test\.ts$/, ".ts"));
  const counted = paths.filter((path) => !isBesideSubject(path));
  const folders = Map.groupBy(counted, (path) => dirname(path));
  return [...folders]
    .filter(([, files]) => files.length > folderLimit)
    .map(([folder, files]) => `${folder} has ${files.length} files`);
}

test("files of src/ import only what mayImport allows, and only main.ts files use the process", async () => {
  const files = await sources("src");
  const inFolders = files.filter(({ path }) => path.split("/").length > 2);
  expect(inFolders.length).toBeGreaterThan(100);
  expect(violations(inFolders)).toEqual([]);
});

test("no files import each other in a cycle, not even for types", async () => {
  expect(cycles(await sources(...roots))).toEqual([]);
});

test("no folder of src/engine imports one above it, except for the records in the ports' types", async () => {
  const upward = (await sources("src/engine")).flatMap(({ path, text }) => {
    const level = engineFolders.indexOf(path.split("/")[2] ?? "");
    if (level < 0 || isTest(path)) return [];
    const imported = importedFiles(path, text).filter((each) => each.startsWith("src/engine/"));
    const folders = imported.map((each) => each.split("/")[2] ?? "");
    const isAbove = (folder: string): boolean => engineFolders.indexOf(folder) > level;
    return folders.filter(isAbove).map((folder) => `${path.split("/")[2]} → ${folder}`);
  });
  expect([...new Set(upward)]).toEqual(["ports → record"]);
});

test.each(Object.entries(doors))("src/engine/%s is used by its door", async (folder, door) => {
  const others = (await sources("src")).filter(
    ({ path }) => !isTest(path) && !path.startsWith(`src/engine/${folder}/`),
  );
  const names = others.flatMap(({ text }) => namesFrom(text, `#engine/${folder}/`));
  expect([...new Set(names)].toSorted()).toEqual(door);
  expect(door.length).toBeLessThanOrEqual(15);
});

test("npwg-conformance imports nothing outside of its folder, so that it can be packed", async () => {
  const suite = await sources("e2e/npwg-conformance");
  const imported = suite.flatMap(({ path, text }) => importedFiles(path, text));
  expect(imported.length).toBeGreaterThan(20);
  expect(imported.filter((path) => !path.startsWith("e2e/npwg-conformance/"))).toEqual([]);
});

test(`no folder has more than ${folderLimit} files, not counting their tests`, async () => {
  expect(tooLarge((await Promise.all(roots.map(filesBelow))).flat())).toEqual([]);
});

test("tooLarge() does not count a test beside its subject", () => {
  const names = (count: number, end: string): string[] =>
    Array.from({ length: count }, (_, n) => `src/a/${n}${end}`);
  expect(tooLarge([...names(15, ".ts"), ...names(15, ".test.ts")])).toEqual([]);
  expect(tooLarge(names(16, ".test.ts"))).toEqual(["src/a has 16 files"]);
  expect(tooLarge([...names(15, ".ts"), "src/a/x.c"])).toEqual(["src/a has 16 files"]);
});

test("cycles() reports each import cycle once", () => {
  const file = (path: string, ...imported: string[]): SourceFile => ({
    path,
    text: imported.map((specifier) => `import type { x } from "${specifier}";`).join("\n"),
  });
  expect(
    cycles([
      file("src/cni/main.ts", "./a.ts", "#lib/c.ts"),
      file("src/cni/a.ts", "./b.ts", "node:path"),
      file("src/cni/b.ts", "#cni/a.ts", "#lib/c.ts"),
      file("src/lib/c.ts"),
    ]),
  ).toEqual(["src/cni/a.ts → src/cni/b.ts → src/cni/a.ts"]);
});

test("documents name only files that exist, and their links resolve", () => {
  expect(documentProblems(root)).toEqual([]);
});

test("every folder of src/ is listed in mayImport", async () => {
  const entries = await readdir(join(root, "src"), { withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  expect(folders.filter((folder) => mayImport[folder] === undefined)).toEqual([]);
});

test("mayImport allows no import cycle between folders", () => {
  const reach = (folder: string): string[] =>
    (mayImport[folder.split("/")[0] ?? ""] ?? []).flatMap((each) => [each, ...reach(each)]);
  expect(Object.keys(mayImport).filter((folder) => reach(folder).includes(folder))).toEqual([]);
});

test.each([
  ["src/cni/conf/conf.ts", 'import { x } from "#npwg/nad.ts";', "imports #npwg/nad.ts"],
  [
    "src/engine/add/add.ts",
    'import { x } from "#records/file-store.ts";',
    "imports #records/file-store.ts",
  ],
  [
    "src/kube/client.ts",
    'import type { x } from "#manifests/documents.ts";',
    "imports #manifests/documents.ts",
  ],
  ["src/kube/client.ts", 'import { x } from "#protocol/frame.ts";', "imports #protocol/frame.ts"],
  ["src/devices/a.ts", 'import { x } from "@grpc/grpc-js";', "imports @grpc/grpc-js"],
  [
    "src/daemon/start.ts",
    'import { x } from "#standalone/serve.ts";',
    "imports #standalone/serve.ts",
  ],
  [
    "src/cli/inspect/status.ts",
    'import { x } from "#daemon/start.ts";',
    "imports #daemon/start.ts",
  ],
  ["src/lib/a.ts", 'import { x } from "#cni/names.ts";', "imports #cni/names.ts"],
  ["src/cni/a.ts", 'export { x } from "#cni/names.ts";', "re-exports"],
  ["src/cni/a.ts", 'export type {\n  X,\n} from "./names.ts";', "re-exports"],
  ["src/cni/a.test.ts", 'export * from "./names.ts";', "re-exports"],
  ["src/cni/a.ts", 'export * as names from "./names.ts";', "re-exports"],
  ["src/unheard-of/a.ts", 'import "#lib/json.ts";', "imports #lib/json.ts"],
  ["src/cni/a.test.ts", 'import { x } from "#engine/engine.ts";', "imports #engine/engine.ts"],
  [
    "src/engine/add/add.ts",
    'import { x } from "#engine/testing/fake-host.ts";',
    "imports #engine/testing/fake-host.ts",
  ],
  ["src/engine/add/add.ts", 'import { x } from "../ports.ts";', "imports ../ports.ts"],
  [
    "src/engine/add/default-route/testing/k.ts",
    'import {\n  x,\n} from "../codec.ts";',
    "imports ../codec.ts",
  ],
  [
    "src/engine/add/add.ts",
    'import { readFile } from "node:fs/promises";',
    "imports node:fs/promises",
  ],
  [
    "src/cni/runtime/chain.ts",
    'import { spawn } from "node:child_process";',
    "imports node:child_process",
  ],
  ["src/npwg/nad.ts", 'const net = await import("node:net");', "imports node:net"],
  [
    "src/engine/add/add.ts",
    'import { x } from "netlink/dist/structs.js";',
    "imports netlink/dist/structs.js",
  ],
  ["src/netlink/codec.ts", 'import { x } from "netlink";', "imports netlink"],
  ["src/host/a.ts", "const p = process.env['X'];", "uses process.env"],
  ["src/engine/a.ts", "process.stdout.write('x');", "uses process.stdout"],
  ["src/daemon/start.ts", 'import { argv } from "node:process";', "uses process.argv"],
  ["src/lib/index.ts", "export {};", "is a barrel"],
])("violations() rejects in %s: %s", (path, text, problem) => {
  expect(violations([{ path, text }])).toEqual([`${path} ${problem}`]);
});

test.each([
  [
    "src/netlink/codec.ts",
    'import { x } from "netlink/dist/rt/gen_structs.js";\nimport { y } from "./z.ts";',
  ],
  ["src/records/file-store.ts", 'import { x } from "#protocol/messages.ts";\nimport "node:fs";'],
  ["src/cli/inspect/config-check.ts", 'import { x } from "#daemon/config/parse.ts";'],
  ["src/daemon/main.ts", "process.exit(Number(process.env.X));"],
  [
    "src/daemon/a.test.ts",
    'process.env.X = "1"; import { x } from "#engine/testing/fake-host.ts";',
  ],
  [
    "src/engine/a.ts",
    '/** Like process.env. */\n// import { x } from "#kube/client.ts";\nimport "node:path/posix";',
  ],
  ["src/serving/call-server.ts", "const own = path + process.pid;"],
  ["src/cni/a.ts", 'import { x } from "./names.ts";\nexport const y = [x];'],
])("violations() accepts in %s: %s", (path, text) => {
  expect(violations([{ path, text }])).toEqual([]);
});
