import { readdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { type CliStreams, command, ExitCode, readInput } from "#cli/command.ts";
import { switchFlag, textFlag } from "#cli/flags.ts";
import { outputFlag, print } from "#cli/output-format.ts";
import { mergeConfigFiles, readConfigFiles } from "#daemon/config/config-files.ts";
import { readTextFile } from "#lib/files/read-file.ts";
import { type FileProblem, objectsIn } from "#manifests/file-objects.ts";
import { ObjectCheck } from "./object-check.ts";

/** kubectl plexus reads what --workloads prints. */
export const checkCommand = command({
  name: "check",
  positionals: "FILE...",
  summary: "check definitions and workloads in files, directories or stdin (-)",
  description: `Prints FILE:LINE: KEY: PROBLEM of what an ADD would refuse on any node. Nodes know their plugins, links,
devices and default network, which are not checked. Of a directory, reads the YAML and JSON files about networks.
A line "# Source: FILE" of stdin, as helm template prints it, names the file that follows.`,
  flags: {
    output: outputFlag,
    config: textFlag("FILE", "plexusd's configuration, by whose rules to check"),
    definitions: textFlag(
      "FILE",
      "the cluster's: kubectl get network-attachment-definitions -A -o yaml",
    ),
    namespace: { ...textFlag("NAMESPACE", "of objects that name none", "default"), short: "n" },
    workloads: switchFlag("print the networks that each workload requests instead"),
  },
  failsWhen: "there is a problem; warnings alone are 0",
  async run({ flags, positionals }, output) {
    const { config: path, definitions: cluster, namespace: home } = flags;
    const files = path === "" ? undefined : mergeConfigFiles(path, await readConfigFiles(path));
    // Of a definition in both, that of the files counts.
    const names = new Set([cluster, ...positionals].filter((each) => each !== ""));
    const texts = await Promise.all([...names].map((name) => textsOf(name, output)));
    const read = texts.flat().flatMap(([file, text]) => [...objectsIn(file, text)]);
    const check = new ObjectCheck({ config: files?.config.engine ?? {}, home, cluster });
    await check.run(read.filter((each) => "value" in each));
    const found = [...read.filter((each) => "problem" in each), ...check.problems];
    const problems = [...new Map(found.map((each) => [lineOf(each), each])).values()];
    problems.sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
    if (check.count === 0) output.err("there is no definition and no workload to check");
    if (flags.workloads) for (const each of check.workloads) output.out(each.join(" "));
    else print(output, flags.output, { value: problems, text: () => problems.map(lineOf) });
    const isFine = problems.every(({ severity }) => severity === "warning");
    return isFine || flags.workloads ? ExitCode.Done : ExitCode.Failed;
  },
});

type Text = readonly [file: string, text: string];

function lineOf({ file, line, key, severity, problem }: FileProblem): string {
  const parts = [severity === "warning" && severity, key, problem];
  return [`${file}:${line}`, ...parts.filter(Boolean)].join(": ");
}

/** The texts of an argument, each with the name of its file. */
async function textsOf(name: string, streams: CliStreams): Promise<Text[]> {
  if (name === "-") {
    const [first = "", ...named] = (await readInput(streams)).split(/^# Source: (.+)\n/m);
    const parts = named.map((file, i): Text => [file, named[i + 1] ?? ""]);
    return [["-", first], ...parts.filter((_, i) => i % 2 === 0)];
  }
  if (!statSync(name).isDirectory()) return [[name, readTextFile(name, "any")]];
  return readdirSync(name, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && /\.(ya?ml|json)$/.test(each.name))
    .map((each) => join(each.parentPath, each.name))
    .filter((file) => !/(^|\/)(\.|node_modules\/)/.test(relative(name, file)))
    .map((file): Text => [file, readTextFile(file, "any")])
    .filter(([, text]) => /cni\.cncf\.io|multus-cni\.io|plexus\.dev\//.test(text));
}
