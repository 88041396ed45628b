import { chmod, mkdir, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { eventually } from "#lib/testing/eventually.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { ManifestDirectory } from "./directory-source.ts";

let base: string;
let dir: string;
let logger: FakeLogger;

beforeEach(async () => {
  base = await temporaryDirectory();
  dir = join(base, "manifests");
  await mkdir(dir);
  logger = new FakeLogger();
});

afterEach(async () => {
  await chmod(dir, 0o700).catch(() => undefined);
});

const web = { namespace: "default", name: "web" };

function podYaml(networks: string, metadata = ""): string {
  return `apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n${metadata}  annotations: {networks: ${networks}}\n`;
}

async function opened(files: Record<string, string> = {}): Promise<ManifestDirectory> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  return ManifestDirectory.open(dir, logger);
}

const networksOf = async (from: ManifestDirectory): Promise<string | undefined> =>
  (await from.getPod(web))?.annotations.networks;

test("getPod() and getNad() read *.yaml, *.yml and *.json files, and no others", async () => {
  const nad = {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name: "n" },
  };
  const from = await opened({
    "a.yaml": podYaml("a"),
    "b.yml": `${podYaml("b").replace("web", "other")}---\n${podYaml("not the first")}`,
    "c.json": JSON.stringify(nad),
    "d.txt": "not read",
    ".hidden.yaml": "{",
  });
  await mkdir(join(dir, "sub.d"));
  expect(await networksOf(from)).toBe("a");
  expect(await from.getPod({ namespace: "default", name: "other" })).toBeDefined();
  expect(await from.getNad({ namespace: "default", name: "n" })).toMatchObject({ name: "n" });
  expect(await from.getPod({ namespace: "else", name: "web" })).toBeUndefined();
  expect(from.notReadyReason()).toBeUndefined();
});

test("getPod() requires the UID of the manifest; without one it returns the runtime's UID", async () => {
  const from = await opened({ "a.yaml": podYaml("a") });
  expect(await from.getPod({ ...web, uid: "u7" })).toMatchObject({ uid: "u7" });
  expect(await from.getPod(web)).toMatchObject({ uid: "" });
  await writeFile(join(dir, "a.yaml"), podYaml("a", "  uid: u1\n"));
  await eventually(async () => expect((await from.getPod(web))?.uid).toBe("u1"));
  expect(await from.getPod({ ...web, uid: "u1" })).toBeDefined();
  expect(await from.getPod({ ...web, uid: "u2" })).toBeUndefined();
});

test("getPod() notices that a file is changed or removed", async () => {
  const from = await opened({ "a.yaml": podYaml("old") });
  await writeFile(join(dir, "a.yaml"), podYaml("new"));
  await eventually(async () => expect(await networksOf(from)).toBe("new"));
  await rm(join(dir, "a.yaml"));
  await eventually(async () => expect(await from.getPod(web)).toBeUndefined());
});

test("getPod() notices a change of the same length whose tool sets the time of the old content", async () => {
  const path = join(dir, "a.yaml");
  const put = async (networks: string): Promise<void> => {
    await writeFile(path, podYaml(networks));
    await utimes(path, 1, 1);
  };
  await put("a");
  const from = await opened();
  expect(await networksOf(from)).toBe("a");
  await put("b");
  await eventually(async () => expect(await networksOf(from)).toBe("b"));
});

test("an invalid file keeps its last valid content, is logged once, and makes the source not ready until it is fixed", async () => {
  const from = await opened({ "a.yaml": podYaml("good") });
  await writeFile(join(dir, "a.yaml"), "{kind: Pod");
  await eventually(async () => {
    await from.getPod(web);
    expect(from.notReadyReason()).toMatch(/^manifests: a\.yaml:1: /);
  });
  expect(await networksOf(from)).toBe("good");
  await from.getPod({ namespace: "default", name: "unknown" });
  expect(logger.at("error")).toEqual([expect.stringMatching(/^manifests: a\.yaml:1: /)]);
  await writeFile(join(dir, "a.yaml"), podYaml("mended"));
  await eventually(async () => expect(await networksOf(from)).toBe("mended"));
  expect(from.notReadyReason()).toBeUndefined();
});

test("files that are invalid or unreadable at the start do not affect other files", async () => {
  await mkdir(join(dir, "a.yaml"));
  const from = await opened({ "b.yaml": podYaml("b"), "c.yaml": "{" });
  expect(await networksOf(from)).toBe("b");
  expect(from.notReadyReason()).toMatch(
    /a\.yaml: cannot be read: .* is not a regular file; c\.yaml:1: /,
  );
});

test("a missing directory makes the source not ready, and unknown pods fail with code 11", async () => {
  const from = await opened({ "a.yaml": podYaml("a") });
  await rename(dir, `${dir}.away`);
  await eventually(async () => {
    await expect(from.getPod({ ...web, name: "unknown" })).rejects.toThrow(
      expect.objectContaining({ code: 11, message: expect.stringContaining(dir) }),
    );
  });
  expect(from.notReadyReason()).toContain(dir);
  await rename(`${dir}.away`, dir);
  expect(await from.getPod({ ...web, name: "unknown" })).toBeUndefined();
  expect(from.notReadyReason()).toBeUndefined();
});

/** Replaces a link at once, as a ConfigMap's volume does. */
async function pointTo(target: string, link: string): Promise<void> {
  await symlink(target, `${link}.next`);
  await rename(`${link}.next`, link);
}

/** Two directories besides the one that is read, each with the file. */
async function twoVersions(): Promise<void> {
  for (const [name, networks] of Object.entries({ v1: "old", v2: "new" })) {
    await mkdir(join(base, name));
    await writeFile(join(base, name, "a.yaml"), podYaml(networks));
  }
}

test.each<[string, () => Promise<unknown>, () => Promise<unknown>]>([
  [
    "the directory is replaced",
    () => writeFile(join(dir, "a.yaml"), podYaml("old")),
    async () => {
      await rename(dir, `${dir}.old`);
      await rename(join(base, "v2"), dir);
    },
  ],
  [
    "the link in its place leads to another directory",
    async () => {
      await rm(dir, { recursive: true });
      await pointTo("v1", dir);
    },
    () => pointTo("v2", dir),
  ],
  [
    "a file's link leads to another file",
    () => pointTo("../v1/a.yaml", join(dir, "a.yaml")),
    () => pointTo("../v2/a.yaml", join(dir, "a.yaml")),
  ],
  [
    "the file behind a link is changed",
    () => pointTo("../v1/a.yaml", join(dir, "a.yaml")),
    () => writeFile(join(base, "v1/a.yaml"), podYaml("new")),
  ],
  [
    "the link ..data of a ConfigMap's volume is switched",
    async () => {
      await pointTo("../v1", join(dir, "..data"));
      await pointTo("..data/a.yaml", join(dir, "a.yaml"));
    },
    () => pointTo("../v2", join(dir, "..data")),
  ],
])("getPod() sees at once that %s", async (_, prepare, change) => {
  await twoVersions();
  await prepare();
  const from = await opened();
  expect(await networksOf(from)).toBe("old");
  await change();
  expect(await networksOf(from)).toBe("new");
});

test("a definition is not missing while a file is invalid that may have it", async () => {
  const from = await opened({ "a.yaml": podYaml("a"), "net.json": "{" });
  await expect(from.getNad({ namespace: "default", name: "lan" })).rejects.toThrow(
    expect.objectContaining({
      code: 11,
      message: expect.stringMatching(
        /^no valid file has NetworkAttachmentDefinition default\/lan; manifests: net\.json:1: /,
      ),
    }),
  );
  await rm(join(dir, "net.json"));
  expect(await from.getNad({ namespace: "default", name: "lan" })).toBeUndefined();
});

test("notReadyReason() sees a mended file without a lookup", async () => {
  const from = await opened({ "a.yaml": "{" });
  expect(from.notReadyReason()).toContain("a.yaml");
  await writeFile(join(dir, "a.yaml"), podYaml("a"));
  expect(from.notReadyReason()).toBeUndefined();
});

test("each of many concurrent lookups sees the files written before it", async () => {
  const from = await opened();
  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      await writeFile(join(dir, `q${i}.yaml`), podYaml("x").replace("web", `q${i}`));
      return from.getPod({ namespace: "default", name: `q${i}` });
    }),
  );
  expect(answers.filter((answer) => answer === undefined)).toEqual([]);
});

test("open() fails and names the directory if it does not exist", () => {
  expect(() => ManifestDirectory.open(join(dir, "none"), logger)).toThrow(
    expect.objectContaining({ code: 5, message: expect.stringContaining(join(dir, "none")) }),
  );
});
