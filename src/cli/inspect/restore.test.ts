import { chmod, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import type { JsonObject } from "#lib/json.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

/* `restore` of deploy/kubectl-plexus, with a scripted kubectl. */

const program = join(import.meta.dirname, "../../../deploy/kubectl-plexus");

interface Cluster {
  /** What plexusctl lost-definitions prints on each node, by its name; undefined: it fails. */
  readonly nodes: Readonly<Record<string, readonly string[] | undefined>>;
  /** Shell code of the answer to a request for the definitions that exist. */
  readonly existing?: string;
}

function manifest(name: string, config = "{}"): JsonObject {
  const metadata = { namespace: "shop", name, labels: { "made-by": "Helm" } };
  return { kind: "NetworkAttachmentDefinition", metadata, spec: { config } };
}

const line = (name: string, object = manifest(name)): string =>
  `shop/${name} ${JSON.stringify(object)}`;

/** Runs kubectl plexus restore, and returns what it has created, by path. */
async function restore(flags: string, { nodes, existing = "true" }: Cluster) {
  const names = Object.keys(nodes);
  const dir = await temporaryDirectory();
  const told = async (name: string, lines: readonly string[] = []): Promise<string> => {
    const path = join(dir, `${name}.lines`);
    await writeFile(path, lines.map((each) => `${each}\n`).join(""));
    return path;
  };
  const ofNodes = Object.entries(nodes).map(async ([name, lines]): Promise<string> => {
    const answer = lines === undefined ? "exit 3" : `cat ${await told(name, lines)}`;
    return `*" exec plexus-${name} "*" lost-definitions"*) echo "$*" >>${dir}/asked; ${answer} ;;
*"get pods -l"*"spec.nodeName=${name}"*) printf 'plexus-${name} Running\\036' ;;`;
  });
  const text = `#!/bin/sh
case "$*" in
${(await Promise.all(ofNodes)).join("\n")}
*"get network-attachment-definitions.k8s.cni.cncf.io -A "*) ${existing} ;;
*"get namespaces "*) echo shop ;;
*"get nodes "*) printf '${names.map((name) => `${name}\\n`).join("")}' ;;
*"get node "*) echo True ;;
*"get daemonset "*) echo ${names.length} ;;
*"get pods -l"*) printf '${names.map((name) => `${name}\\n`).join("")}' ;;
*"create --raw "*)
	for last; do :; done
	grep -q refused "$last" && echo 'Error from server (Forbidden): the policy says no' >&2 && exit 1
	cp "$last" "${dir}/created-$(echo "$3" | tr / _)-$$"
	;;
*) echo "unexpected: $*" >&2; exit 9 ;;
esac
`;
  await writeFile(join(dir, "kubectl"), text);
  await chmod(join(dir, "kubectl"), 0o755);
  const env = { PATH: `${dir}:${process.env.PATH}`, TMPDIR: dir };
  const args = ["restore", ...flags.split(" ").filter(Boolean)];
  const { exitCode, stdout, stderr } = await execa(program, args, { reject: false, env });
  const files = (await readdir(dir)).filter((name) => name.startsWith("created-"));
  const created = await Promise.all(
    files.map(async (name) => {
      const [, path = ""] = /^created-(.*)-\d+$/.exec(name) ?? [];
      return [path.replaceAll("_", "/"), JSON.parse(await readFile(join(dir, name), "utf8"))];
    }),
  );
  const asked = await readFile(join(dir, "asked"), "utf8").catch(() => "");
  return { exitCode, stdout, stderr, created, asked };
}

const path = "/apis/k8s.cni.cncf.io/v1/namespaces/shop/network-attachment-definitions";

test("restore creates what nodes have lost, as they have it, and nothing that exists", async () => {
  const nodes = { "node-1": [line("a"), line("b")], "node-2": [line("b")] };
  const found = await restore("", { nodes, existing: "echo shop/a" });
  expect(found).toMatchObject({ exitCode: 0, stderr: "" });
  expect(found.created).toEqual([[path, manifest("b")]]);
  expect(found.stdout.split("\n")).toEqual([
    "DEFINITION  NODES  RESULT",
    "shop/a      1      exists",
    "shop/b      2      created",
  ]);
});

test("restore --dry-run creates nothing, and prints manifests", async () => {
  const nodes = { "node-1": [line("a"), line("b")] };
  const found = await restore("--dry-run", { nodes });
  expect(found).toMatchObject({ exitCode: 0, created: [] });
  expect(found.stdout).toContain("shop/a      1      would be created");
  const { stdout } = await restore("--dry-run -o json", { nodes });
  const items = [manifest("a"), manifest("b")];
  expect(JSON.parse(stdout)).toEqual({ apiVersion: "v1", kind: "List", items });
  expect(await restore("-o json", { nodes })).toMatchObject({ exitCode: 2, created: [] });
});

test("restore does not choose between versions: --node does", async () => {
  const other = line("a", manifest("a", "{ }"));
  const nodes = { "node-1": [line("a")], "node-2": [other], "node-3": [line("a")] };
  const found = await restore("", { nodes });
  expect(found).toMatchObject({ exitCode: 1, created: [] });
  expect(found.stdout).toContain(
    "2      not restored: another version on node-2: choose with --node",
  );
  const chosen = await restore("--node node-2", { nodes });
  expect(chosen.created).toEqual([[path, manifest("a", "{ }")]]);
});

test("restore names a missing namespace and what the API server refuses, and does the rest", async () => {
  const elsewhere = line("a").replace("shop/a", "gone/a");
  const nodes = { "node-1": [elsewhere, line("refused"), line("b")] };
  const found = await restore("", { nodes });
  expect(found.exitCode).toBe(1);
  expect(found.stdout).toMatch(/^gone\/a +1 +not restored: there is no namespace gone$/m);
  expect(found.stdout).toMatch(/^shop\/refused .*not restored: .*the policy says no$/m);
  expect(found.created).toEqual([[path, manifest("b")]]);
});

test("restore creates nothing by a name that no definition can have [S-122]", async () => {
  const nodes = { "node-1": [line("a").replace("shop/a", "shop/../../x"), "not a definition"] };
  const found = await restore("", { nodes });
  expect(found).toMatchObject({ exitCode: 0, stdout: "", created: [] });
  expect(found.stderr).toBe("no definition was deleted with its CRD");
});

test("restore says that the CRD is missing, and asks no node", async () => {
  const message = `error: the server doesn't have a resource type "network-attachment-definitions"`;
  const existing = `echo '${message.replace("'", `'\\''`)}' >&2; exit 1`;
  const found = await restore("", { nodes: { "node-1": [line("a")] }, existing });
  expect(found).toMatchObject({ exitCode: 2, created: [], asked: "" });
  expect(found.stderr).toBe(
    "kubectl plexus: the API server does not know NetworkAttachmentDefinitions: first apply their CRD (kubectl apply -f crds/)",
  );
});

test("restore says which node does not answer", async () => {
  const found = await restore("", { nodes: { "node-1": [line("a")], "node-2": undefined } });
  expect(found.exitCode).toBe(2);
  expect(found.created).toEqual([[path, manifest("a")]]);
  expect(found.stderr).toContain("node-2");
});

test("restore --discard has the nodes give them up, also without the CRD", async () => {
  const nodes = { "node-1": [line("a")], "node-2": [] };
  const found = await restore("--discard", { nodes, existing: "exit 1" });
  expect(found).toMatchObject({ exitCode: 0, stdout: "shop/a: given up", created: [] });
  expect(found.asked.match(/lost-definitions --discard/g)).toHaveLength(2);
});
