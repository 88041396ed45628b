import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";

/* `check` of deploy/kubectl-plexus, with a scripted kubectl, and plexusctl itself in the pods. */

const root = join(import.meta.dirname, "../../../..");

const definition = (name: string, spec = `{config: '{"type": "macvlan"}'}`) => `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: ${name}, namespace: shop}
spec: ${spec}
`;

function deployment(name: string, networks: string): string {
  return `kind: Deployment
metadata: {name: ${name}}
spec:
  template:
    metadata:
      annotations: {k8s.v1.cni.cncf.io/networks: "${networks}"}
`;
}

const trunk = 'the node has no link "br-trunk"';
const answers = {
  n1: `shop/lan  yes\nshop/mv   no      ${trunk}`,
  n2: "shop/lan  yes\nshop/mv   yes",
};

/** Runs `kubectl plexus check` in a directory with these files. */
async function run(words: string, files: Readonly<Record<string, string>>, input = "") {
  const dir = await temporaryDirectory();
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  const names = Object.keys(answers);
  await writeFile(join(dir, "nads"), `kind: List\nitems:\n${["lan", "mv"].map(asItem).join("")}`);
  await writeFile(join(dir, "config"), "namespaceIsolation: true\n");
  const cases = [
    `*" exec "*" check "*) while [ "$1" != /plexus/plexusctl.js ]; do shift; done; shift 4
      exec node ${root}/src/cli/main.ts check --config ${dir}/config "$@" ;;`,
    ...Object.entries(answers).map(
      ([name, answer]) =>
        `*" exec plexus-${name} "*" networks"*) printf 'NETWORK\\n${answer}\\n' ;;`,
    ),
    ...names.map((name) => `*"spec.nodeName=${name}"*) printf 'plexus-${name} Running\\036' ;;`),
    `*"get nodes "*) printf '${names.join("\\n")}\\n' ;;`,
    '*"get node "*) echo True ;;',
    `*"get daemonset "*) echo ${names.length} ;;`,
    `*"get pods -l"*) printf '${names.join("\\n")}\\n' ;;`,
    `*"get network-attachment-definitions.k8s.cni.cncf.io -A -o yaml") cat ${dir}/nads ;;`,
    '*"config view"*) printf shop ;;',
    '*) echo "unexpected: $*" >&2; exit 9 ;;',
  ];
  await writeFile(join(dir, "kubectl"), `#!/bin/sh\ncase "$*" in\n${cases.join("\n")}\nesac\n`);
  await chmod(join(dir, "kubectl"), 0o755);
  const env = { PATH: `${dir}:${process.env.PATH}`, TMPDIR: dir };
  const options = { reject: false, env, input, cwd: dir } as const;
  const { exitCode, stdout, stderr } = await execa(
    join(root, "deploy/kubectl-plexus"),
    ["check", ...words.split(" ")],
    options,
  );
  return { exitCode, lines: stdout.split("\n"), stdout, stderr };
}

function asItem(name: string): string {
  return definition(name)
    .trim()
    .split("\n")
    .map((line, i) => `${i === 0 ? "- " : "  "}${line}\n`)
    .join("");
}

test("check says where workloads can be attached, and why not elsewhere", async () => {
  const files = { "a.yaml": deployment("web", "lan,mv"), "b.yaml": deployment("db", "lan") };
  expect(await run("a.yaml b.yaml", files)).toMatchObject({
    ...{ exitCode: 0, stderr: "" },
    lines: [
      "WORKLOAD             NODES         DETAILS",
      "Deployment/shop/db   2 of 2: n1,n2  -",
      `Deployment/shop/web  1 of 2: n2     n1: shop/mv: ${trunk}`,
    ].map((line, i) => (i === 0 ? expect.stringMatching(/^WORKLOAD +NODES +DETAILS$/) : line)),
  });
});

test("check fails for problems of files, by the cluster's rules, and for workloads that fit nowhere", async () => {
  const files = {
    "a.yaml": `${deployment("web", "new,mv")}---${definition("new")}`,
    "b.yaml": deployment("db", "lan,lam"),
    "c.yaml": deployment("app", "other/lan"),
    "d.txt": "[",
  };
  const { exitCode, lines } = await run(".", files);
  const key = "spec.template.metadata.annotations.k8s.v1.cni.cncf.io/networks";
  expect({ exitCode, lines: lines.toSpliced(2, 2) }).toEqual({
    exitCode: 1,
    lines: [
      expect.stringMatching(
        `^\\./b.yaml:6: ${key}: there is no .* shop/lam, .* did you mean lan\\?$`,
      ),
      expect.stringMatching(
        `^\\./c.yaml:6: ${key}: namespace isolation: a pod of namespace "shop"`,
      ),
      "Deployment/shop/db   0 of 2  n1,n2: shop/lam: not in the cluster yet",
      `Deployment/shop/web  0 of 2  n1: shop/new: not in the cluster yet; shop/mv: ${trunk}; n2: shop/new: not in the cluster yet`,
    ],
  });
});

test("check -o json of stdin has problems, and workloads with each node; -n names the namespace", async () => {
  const input = `${deployment("web", "shop/mv")}---${definition("x", "{conf: ''}")}`;
  const { exitCode, stdout } = await run("-n shop -o json -", {}, input);
  expect({ exitCode, answer: JSON.parse(stdout) }).toEqual({
    exitCode: 1,
    answer: {
      workloads: [
        {
          workload: "Deployment/shop/web",
          nodes: [
            { node: "n1", usable: false, details: `shop/mv: ${trunk}` },
            { node: "n2", usable: true },
          ],
        },
      ],
      unanswered: [],
      problems: [
        { file: "stdin", line: 11, key: "spec.conf", problem: "unknown key", severity: "error" },
      ],
    },
  });
});

test("check names a file that is not there", async () => {
  expect(await run("b.yaml", {})).toMatchObject({
    exitCode: 2,
    stderr: "kubectl plexus: there is no file b.yaml that you may read",
  });
});

test("kubectl completes the names of files", async () => {
  const { stdout } = await execa(join(root, "deploy/kubectl_complete-plexus"), [
    "check",
    "a.yaml",
    "",
  ]);
  expect(stdout).toBe(":0");
});
