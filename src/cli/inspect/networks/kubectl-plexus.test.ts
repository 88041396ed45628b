import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { formatNetworkStatus, type NetworkStatus } from "#npwg/network-status.ts";

/* `networks` and `pods` of deploy/kubectl-plexus, with a scripted kubectl. */

const program = join(import.meta.dirname, "../../../../deploy/kubectl-plexus");

interface Cluster {
  /** What plexusctl prints on each node, by its name; a number: it fails so, with `error`. */
  readonly nodes?: Readonly<Record<string, string | number>>;
  /** The pods with a network-status: name, and status. */
  readonly pods?: readonly (readonly [pod: string, status: string])[];
  /** Shell code of the answer to a request for a definition, or for all. */
  readonly definition?: string;
  readonly definitions?: string;
  /** What another command of plexusctl prints on each node, and its exit code. */
  readonly others?: readonly (readonly [text: string, exitCode: number])[];
  readonly error?: string;
  readonly mayExec?: boolean;
  readonly mayListAll?: boolean;
}

const forbidden = (what: string): string =>
  `echo 'Error from server (Forbidden): pods is forbidden: User "jane" cannot ${what}' >&2; exit 1`;
const notFound = "echo 'Error from server (NotFound): not found' >&2; exit 1";

/** As `{{printf "%+q" .}}` of a kubectl template prints a text. */
function quoted(text: string): string {
  const hex = (char: string, length: number) =>
    char.charCodeAt(0).toString(16).padStart(length, "0");
  const escaped = text
    .replaceAll(/["\\\n\r\t]/g, (char) => JSON.stringify(char).slice(1, -1))
    .replaceAll(/[^ -\x7f]/g, (char) => (char < " " ? `\\x${hex(char, 2)}` : `\\u${hex(char, 4)}`));
  return `"${escaped}"`;
}

function recordsOf(pods: Cluster["pods"] = []): string {
  const records = pods.map(([pod, each]) => `${pod} node-1 2026-01-01T00:00:00Z ${quoted(each)}`);
  return `cat <<'END'\n${records.join("\n")}\nEND\n`;
}

/** Runs kubectl plexus in a cluster. */
async function run(line: string, cluster: Cluster = {}) {
  const { nodes = {}, definition = notFound, definitions = "true", mayExec = true } = cluster;
  const names = Object.keys(nodes);
  const answers: [pattern: string, answer: string][] = [
    ['*" auth can-i create pods --subresource=exec"*', mayExec ? "echo yes" : "echo no"],
    [
      `*"get pods -A -o go-template"*'printf "%+q" .'*`,
      cluster.mayListAll === false ? forbidden("list pods") : recordsOf(cluster.pods),
    ],
    [`*"get pods -o go-template"*'printf "%+q" .'*`, recordsOf(cluster.pods)],
    ['*"get network-attachment-definitions.k8s.cni.cncf.io -A "*', definitions],
    ['*"get network-attachment-definitions.k8s.cni.cncf.io -o "*', definitions],
    ['*"get network-attachment-definitions.k8s.cni.cncf.io "*', definition],
    ['*"get nodes "*', `printf '${names.map((name) => `${name}\\n`).join("")}'`],
    ['*"get node "*', "echo True"],
    ['*"get daemonset "*', `echo ${names.length}`],
    ...names.map((name): [string, string] => [
      `*"get pods -l"*"spec.nodeName=${name}"`,
      `printf 'plexus-${name} Running\\036'`,
    ]),
    ['*"get pods -l"*', `printf '${names.map((name) => `${name}\\n`).join("")}'`],
    ['*" networks --page"', "printf '<p>\\n@DATA@\\n</p>\\n'"],
    ...Object.entries(nodes).map(([name, answer]): [string, string] => [
      `*" exec plexus-${name} "*" networks"`,
      typeof answer === "number"
        ? `printf '%s\\n' '${cluster.error ?? "plexusctl networks: not listed"}' >&2; exit ${answer}`
        : `cat <<'END'\nNETWORK   USABLE  DETAILS\n${answer}\nEND\n`,
    ]),
    ...(cluster.others ?? []).map(([text, code], i): [string, string] => [
      `*" exec "*plexus-${names[i]}*`,
      `cat <<'END'\n${text}\nEND\nexit ${code}`,
    ]),
    ['*"get pod "*', "echo shop/web node-1"],
    ['*"get events "* | *"get configmap "*', "exit 1"],
    ["*", 'echo "unexpected: $*" >&2; exit 9'],
  ];
  const dir = await temporaryDirectory();
  const cases = answers.map(([pattern, answer]) => `${pattern}) ${answer} ;;`).join("\n");
  await writeFile(join(dir, "kubectl"), `#!/bin/sh\ncase "$*" in\n${cases}\nesac\n`);
  await chmod(join(dir, "kubectl"), 0o755);
  const env = { PATH: `${dir}:${process.env.PATH}`, TMPDIR: dir };
  const { exitCode, stdout, stderr } = await execa(program, line.split(" "), {
    reject: false,
    env,
  });
  return { exitCode, lines: stdout.split("\n"), stdout, stderr };
}

function status(...entries: Partial<NetworkStatus>[]): string {
  return formatNetworkStatus(
    entries.map((each) => ({ name: "cbr0", default: false, dns: {}, ...each })),
  );
}

const lan = {
  name: "shop/lan",
  interface: "net1",
  ips: ["10.1.0.5", "fd01::5"],
  mac: "02:00:00:00:00:05",
};
const pods = [
  ["shop/web", status({ interface: "eth0", ips: ["10.244.0.5"], default: true }, lan)],
  ["other/db", status({ interface: "eth0" }, { ...lan, ips: [] })],
] as const;
const trunk = 'the node has no link "br-trunk", also not as an alternative name';
const nodes = {
  "node-1": `shop/lan  yes\nshop/mv   no      ${trunk}`,
  "node-2": "shop/lan  yes     link storage is an alternative name of eth1\nshop/mv   yes",
  "node-3": "shop/lan  yes\nshop/mv   yes",
};

test("networks shows where each can be used, why not elsewhere, and how many pods are in it", async () => {
  expect(await run("networks", { nodes, pods })).toMatchObject({
    ...{ exitCode: 0, stderr: "" },
    lines: [
      "NETWORK   PODS  NODES                       DETAILS",
      "shop/lan  2     3 of 3: node-1,node-2,node-3  -",
      `shop/mv   0     2 of 3: node-2,node-3         node-1: ${trunk}`,
    ].map((each, i) => (i === 0 ? expect.stringMatching(/^NETWORK +PODS +NODES +DETAILS$/) : each)),
  });
});

test.each([
  ["networks shop/mv", ["shop/mv"]],
  ["networks mv", ["shop/mv", "other/mv"]],
  ["networks mv -n shop", ["shop/mv"]],
  ["networks -n shop", ["shop/lan", "shop/mv"]],
])("%s shows %j", async (line, names) => {
  const more = { "node-1": `other/mv  yes\n${nodes["node-1"]}` };
  const { lines } = await run(line, { nodes: more, pods });
  expect(lines.slice(1).map((each) => each.split(" ")[0])).toEqual(names.toSorted());
});

test("networks --node asks this node only, and fails if a network can be used nowhere", async () => {
  const { exitCode, lines } = await run("networks mv --node node-1", { nodes, pods });
  expect(exitCode).toBe(1);
  expect(lines[1]).toBe(`shop/mv  0     0 of 1  node-1: ${trunk}`);
});

test.each(["json", "yaml"])("networks -o %s has each node", async (format) => {
  const { stdout } = await run(`networks -o ${format} shop/mv`, { nodes, pods });
  const answer = format === "json" ? JSON.parse(stdout) : parse(stdout);
  const lacking = { node: "node-1", usable: false, details: trunk };
  const others = ["node-2", "node-3"].map((node) => ({ node, usable: true }));
  expect(answer).toEqual({
    networks: [{ network: "shop/mv", pods: 0, nodes: [lacking, ...others] }],
    unanswered: [],
  });
});

test("networks names five nodes, and all with -o wide, with what it knows of usable ones", async () => {
  const many = Object.fromEntries(
    Array.from({ length: 17 }, (_, i) => [
      `n${i + 10}`,
      i < 10 ? "a/b  yes     as eth1" : "a/b  no      none",
    ]),
  );
  const { lines } = await run("networks", { nodes: many });
  expect(lines[1]).toBe(
    "a/b      0     10 of 17: n10,n11,n12,n13,n14 and 5 more  n20,n21,n22,n23,n24 and 2 more: none",
  );
  const wide = (await run("networks -o wide", { nodes: many })).lines[1];
  expect(wide).toContain("10 of 17: n10,n11,n12,n13,n14,n15,n16,n17,n18,n19  n10,");
  expect(wide).toContain("n19: as eth1; n20,n21,n22,n23,n24,n25,n26: none");
});

test("networks says which nodes do not answer", async () => {
  const cluster = { nodes: { ...nodes, "node-2": 1 }, pods };
  const { exitCode, lines, stderr } = await run("networks lan", cluster);
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: "plexusctl networks: not listed" });
  expect(lines[1]).toBe("shop/lan  2     2 of 2: node-1,node-3  -");
  const { unanswered } = JSON.parse((await run("networks -o json", cluster)).stdout);
  expect(unanswered).toEqual([{ node: "node-2", reason: "plexusctl networks: not listed" }]);
});

test("networks shows no control character of what a node says", async () => {
  const evil = "a\tb\u001b[31m\u0001\r\u009b \\";
  const cluster = { nodes: { "node-1": `a/b  no      ${evil}`, "node-2": 1 }, error: evil };
  const clean = "a?b?[31m???";
  const { lines, stderr } = await run("networks", cluster);
  expect({ line: lines[1], stderr }).toEqual({
    line: `a/b      0     0 of 1  node-1: ${clean} \\`,
    stderr: `${clean} \\`,
  });
  const { networks, unanswered } = JSON.parse((await run("networks -o json", cluster)).stdout);
  expect(networks[0].nodes[0].details).toBe(`${clean} \\`);
  expect(unanswered).toEqual([{ node: "node-2", reason: `${clean} \\` }]);
  expect((await pageOf("networks --html", cluster)).data.unanswered).toEqual(unanswered);
});

test("networks -o wide names many nodes with long names", async () => {
  const names = Array.from({ length: 40 }, (_, i) => `${"n".repeat(220)}-${i + 10}`);
  const many = Object.fromEntries(names.map((name) => [name, "a/b  yes"]));
  const { lines } = await run("networks -o wide a/b", { nodes: many });
  expect(lines[1]).toBe(`a/b      0     40 of 40: ${names.join(",")}  -`);
});

test.each<[string, Cluster, string]>([
  [
    "the right to ask plexusd",
    { nodes, mayExec: false },
    "you may not create pods/exec in kube-system",
  ],
  ["a node that answers", { nodes: { "node-1": 1 } }, "no node answers"],
])("networks without %s shows which there are, and their pods", async (_, cluster, reason) => {
  const definitions = "printf -- '- shop/lan unknown\\n- shop/mv unknown\\n'";
  const { exitCode, lines, stderr } = await run("networks", { ...cluster, pods, definitions });
  expect(exitCode).toBe(2);
  expect(stderr).toContain(`kubectl plexus: ${reason}: where networks can be used is not known`);
  expect(lines.slice(1)).toEqual(["shop/lan  2     ?      -", "shop/mv   0     ?      -"]);
});

test("networks fails for a definition that is not there", async () => {
  const { exitCode, stderr } = await run("networks shop/nope", { nodes, pods });
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr: "kubectl plexus: there is no definition shop/nope",
  });
});

test("pods lists the pods in a network, as their network-status says", async () => {
  const definition = "printf shop/lan";
  const { exitCode, lines, stderr } = await run("pods lan", { pods, definition });
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  expect(lines).toEqual([
    "POD       INTERFACE  ADDRESSES         MAC                NODE    SINCE",
    "other/db  net1       -                 02:00:00:00:00:05  node-1  2026-01-01T00:00:00Z",
    "shop/web  net1       10.1.0.5,fd01::5  02:00:00:00:00:05  node-1  2026-01-01T00:00:00Z",
  ]);
  const json = await run("pods shop/lan -o json", { pods, definition });
  expect(JSON.parse(json.stdout)[1]).toEqual({
    ...{ pod: "shop/web", interface: "net1", addresses: ["10.1.0.5", "fd01::5"], mac: lan.mac },
    ...{ node: "node-1", since: "2026-01-01T00:00:00Z" },
  });
});

test("pods takes the name of a default network, which has no definition", async () => {
  const { lines } = await run("pods cbr0", { pods });
  expect(lines.slice(1).map((each) => each.split(/ +/).slice(0, 2))).toEqual([
    ["other/db", "eth0"],
    ["shop/web", "eth0"],
  ]);
});

test("pods of a tenant shows those that he may list", async () => {
  const { exitCode, lines, stderr } = await run("pods shop/lan", { pods, mayListAll: false });
  expect(exitCode).toBe(0);
  expect(lines).toHaveLength(3);
  expect(stderr).toBe(
    "kubectl plexus: you may not list all pods: pods of other namespaces are not shown",
  );
});

test("pods tells an empty network from none", async () => {
  const empty = await run("pods shop/new", { definition: "printf shop/new" });
  expect(empty).toMatchObject({ exitCode: 0, lines: [expect.stringMatching(/^POD +INTERFACE/)] });
  const none = await run("pods shop/nope", { pods });
  expect(none).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining("there is no network shop/nope"),
  });
});

test.each(["a/b/c", "/a", "a/", "a b'", "a\\n"])("pods refuses the name %j", async (name) => {
  const { exitCode, stdout } = await run(`pods ${name.replace(" ", "%")}`);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
});

test.each<[string, string, readonly string[]]>([
  ["no JSON", "{[", []],
  ["no list", '{"name": "shop/lan", "interface": "x"}', []],
  ["strings", '["name", "shop/lan"]', []],
  [
    "other keys with the same values",
    '[{"nam": "shop/lan", "x": {"name": "shop/lan"}, "y": ["shop/lan"]}]',
    [],
  ],
  [
    "nested objects and lists",
    '[{"dns": {"name": "x"}, "device-info": {"pci": {"ips": ["7"]}}, "name": "shop/lan", "ips": ["1"], "mac": "m", "interface": "i"}]',
    ["i", "1", "m"],
  ],
  [
    "control characters and escapes",
    '[{"name":"shop/lan","interface":"\\u001b[2J\u001b\u202e\t","mac":"\\"\\\\x","ips":[]}]',
    ["?001b[2J?1b?202e?", "-", "??x"],
  ],
  [
    "very long names, after which others are read",
    `[{"name":"shop/lan","interface":"${"i".repeat(9000)}","mac":"m","ips":["1"]}]`,
    ["i".repeat(253), "1", "m"],
  ],
  ["a text that is too long", `[{"name":"shop/lan","interface":"${"x".repeat(32_768)}"}]`, []],
])("pods reads a network-status with %s", async (_, text, cells) => {
  const { exitCode, lines } = await run("pods shop/lan", { pods: [["a/b", text], pods[0]] });
  expect(exitCode).toBe(0);
  const [first = ""] = lines.filter((each) => each.startsWith("a/b"));
  expect(first.split(/ +/).slice(1, 4)).toEqual(cells);
  expect(lines.at(-1)).toMatch(/^shop\/web +net1/);
  const json = await run("pods shop/lan -o json", { pods: [["a/b", text], pods[0]] });
  expect(JSON.parse(json.stdout)).toHaveLength(cells.length === 0 ? 1 : 2);
});

const forged =
  'victim/bank node-7 2026-01-01T00:00:00Z "[{\\"name\\":\\"shop/lan\\",\\"interface\\":\\"net1\\"}]"';

test.each(["\u001e", "\n", '"\n', '"\u001e', "\\\n", '\\"\n'])(
  "a network-status with %j makes no row of another pod",
  async (separator) => {
    const evil = ["tenant/evil", `[]${separator}${forged}`] as const;
    const { lines } = await run("pods shop/lan", { pods: [evil, pods[0]] });
    expect(lines.slice(1)).toEqual([expect.stringMatching(/^shop\/web/)]);
  },
);

test("pods takes little time for statuses made to take long", async () => {
  const texts = ['["', "[],", '"",', '{"":"",', "\n", '\\"'].map(
    (each) => `[${each.repeat(32_000 / (quoted(each).length - 2))}`,
  );
  const long = Array.from({ length: 90 }, (_, i) => [`a/b${i}`, texts[i % 6] ?? ""] as const);
  const { lines } = await run("pods shop/lan", { pods: [...long, pods[0]] });
  expect(lines).toHaveLength(2);
});

const lacking = `Cannot attach shop/mv: ${trunk}. Set the definition's master.`;
const table = [
  "NETWORK   INTERFACE  STATE",
  "cbr0      -          not attached",
  "shop/lan  -          not attached",
  `shop/mv   -          ${trunk}`,
];

test("explain names the nodes that have what the pod's networks need", async () => {
  const text = [lacking, "", ...table].join("\n");
  const { exitCode, stdout, stderr } = await run("explain web", { nodes, others: [[text, 1]] });
  expect(exitCode).toBe(1);
  expect(stderr).toBe("asking 3 nodes whether they have what the pod's networks need");
  expect(stdout).toBe(`${text}\n\nnodes that have what these networks need: node-2 node-3`);
  const nowhere = {
    "node-1": nodes["node-1"],
    "node-2": "shop/lan  yes\nshop/mv   no      it lacks it",
  };
  const { lines } = await run("explain web", { nodes: nowhere, others: [[text, 1]] });
  expect(lines.at(-1)).toBe("nodes that have what these networks need: none");
  // Of a plugin that a plugin calls.
  const unknown = { "node-1": "shop/lan  yes\nshop/mv   yes" };
  expect((await run("explain web", { nodes: unknown, others: [[text, 1]] })).stdout).toBe(text);
});

test.each(["json", "yaml"])("explain -o %s has nothing but plexusctl's answer", async (format) => {
  const text = JSON.stringify({ problem: lacking });
  const { exitCode, stdout } = await run(`explain web -o ${format}`, {
    nodes,
    others: [[text, 1]],
  });
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: text });
});

test.each([
  ["has another problem", "Cannot attach shop/mv: it is invalid.", 1],
  ["is attached", "The pod is attached.", 0],
])("explain asks no other node about a pod that %s", async (_, sentence, code) => {
  const text = [sentence, "", ...table].join("\n");
  const { exitCode, stdout, stderr } = await run("explain web", { nodes, others: [[text, code]] });
  expect({ exitCode, stdout, stderr }).toEqual({ exitCode: code, stdout: text, stderr: "" });
});

const found = (...networks: string[]): readonly [string, number] => [
  ["ok       running pods  none", ...networks.map((each) => `ok       network ${each}`)].join("\n"),
  0,
];

test("doctor names networks that no node has, rather than those that one node lacks", async () => {
  const [mv, all] = [`shop/mv  ${trunk}`, "shop/all  it is invalid: {"];
  const others = [found(all, mv), found(all), found(all)];
  const { exitCode, lines } = await run("doctor", { nodes, others });
  expect(exitCode).toBe(0);
  expect(lines.slice(-3)).toEqual([
    "ok       running pods  none",
    "WARNING  network shop/all  can be used on no node: it is invalid: {",
    "== 3 of 3 nodes without a problem",
  ]);
  expect(lines.join()).not.toContain("shop/mv");
  const one = await run("doctor node-1", { nodes, others });
  expect(one.lines).toEqual([
    expect.stringContaining("running pods"),
    ...[all, mv].map((each) => `ok       network ${each}`),
  ]);
});

test("doctor counts only nodes on which plexusd answers", async () => {
  const others = [found("shop/mv  no link"), ["PROBLEM  plexusd  it does not answer", 1] as const];
  const two = { "node-1": "", "node-2": "" };
  const { lines } = await run("doctor", { nodes: two, others });
  expect(lines.at(-2)).toBe("WARNING  network shop/mv  can be used on no node: no link");
  const known = await run("doctor", { nodes: two, others: [others[0] ?? found(), found()] });
  expect(known.stdout).not.toContain("shop/mv");
});

/** What `networks --html` puts into the page: lines before and after it, and the data. */
async function pageOf(line: string, cluster: Cluster) {
  const { stdout, exitCode, stderr } = await run(line, cluster);
  const [, text = ""] = /^<p>\n([\s\S]*)\n<\/p>$/.exec(stdout) ?? [];
  return { exitCode, stderr, text, data: JSON.parse(text) };
}

test("networks --html is a page with what networks and pods show", async () => {
  const { exitCode, stderr, data } = await pageOf("networks --html", { nodes, pods });
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  expect(data).toMatchObject({
    made: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]+Z$/),
    unanswered: [],
    networks: [
      { network: "shop/lan", pods: 2, nodes: [{ node: "node-1", usable: true }, {}, {}] },
      { network: "shop/mv", nodes: [{ usable: false, details: trunk }, {}, {}] },
    ],
  });
  const start = "2026-01-01T00:00:00Z";
  expect(data.rows).toContainEqual([
    ...["shop/lan", "shop/web", "net1", "10.1.0.5,fd01::5", lan.mac, "node-1", start],
  ]);
  expect(data.rows).toHaveLength(4);
  const one = await pageOf("networks shop/lan --html", { nodes, pods });
  expect(one.data.rows.map(([network]: string[]) => network)).toEqual(["shop/lan", "shop/lan"]);
});

test("networks --html: nothing in a status or a reason ends the data of the page [S-310]", async () => {
  const evil = '</script><script>alert("1")</script><!--';
  const { text, data } = await pageOf("networks --html", {
    nodes: { "node-1": `shop/mv  no  ${evil}\\` },
    pods: [["shop/web", status({ ...lan, interface: evil, mac: "a\tb\u0001" })]],
  });
  expect(text).not.toContain("<");
  expect(data.networks[0].nodes[0].details).toBe(`${evil}\\`);
  expect(data.rows[0][2]).toBe(evil.replaceAll('"', "?"));
});

test("networks --html is a page without networks where there is no definition", async () => {
  const { data } = await pageOf("networks --html", { nodes: { "node-1": "" } });
  expect(data).toMatchObject({ networks: [], unanswered: [], rows: [] });
});

test("networks --html says which nodes do not answer, and needs one that does", async () => {
  const some = await pageOf("networks --html", { nodes: { ...nodes, "node-3": 1 } });
  expect(some).toMatchObject({ exitCode: 2, data: { unanswered: [{ node: "node-3" }] } });
  expect(await run("networks --html", { nodes: { "node-1": 1 } })).toMatchObject({
    ...{ exitCode: 2, stdout: "" },
    stderr: expect.stringContaining("a page needs a plexusd that answers: no node answers"),
  });
  expect(await run("pods shop/lan --html")).toMatchObject({
    ...{ exitCode: 2, stderr: "kubectl plexus: --html is for networks" },
  });
});
