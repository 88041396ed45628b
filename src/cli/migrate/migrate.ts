import { open } from "node:fs/promises";
import { stringify } from "yaml";
import { type Command, ExitCode, stringFlag } from "#cli/command.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { errorMessage } from "#lib/error-message.ts";
import { convert, type Migration } from "./convert.ts";
import { findMultusConfigurations } from "./multus-files.ts";

/** How the configuration is printed. */
const formats: Readonly<Record<string, (migration: Migration) => string>> = {
  yaml: asYaml,
  configmap: asConfigMap,
  json: (migration) => JSON.stringify(migration, undefined, 2),
};

/** `plexusctl migrate FILE…`. */
export const migrateCommand: Command = {
  name: "migrate",
  synopsis: "[-o yaml|configmap|json] FILE…",
  summary: "turn a configuration of Multus into one of plexusd",
  help: `FILE is a CNI configuration of Multus (00-multus.conf, 00-multus.conflist), the thick daemon's
daemon-config.json, or a manifest with ConfigMaps that hold them; - is stdin. Several files give one
configuration: what the daemon's file says holds against the CNI configuration, as with Multus.

  -o, --output   yaml: plexusd's configuration file (default); configmap: for kubectl apply;
                 json: {"configuration": …, "notes": […]}

The configuration accepts what Multus accepts (undeclaredRequests, ignoredRequests, missingDevice). A comment at
the end says when to remove these keys, and lists each key without a counterpart and what to do about it.
Exit code 1: a file holds no configuration of Multus, or one that Plexus cannot use.`,
  flags: { output: { type: "string", short: "o", default: "yaml" } },
  choices: { output: Object.keys(formats) },
  argumentCount: "one or more",
  async run(args, output) {
    const found = [];
    for (const file of args.positionals) {
      found.push(...findMultusConfigurations(await readText(file), file));
    }
    const migration = convert(found);
    refuseUnusable(migration);
    const print = formats[stringFlag(args, "output")] ?? asYaml;
    output.out(print(migration).trimEnd());
    return ExitCode.Done;
  },
};

async function readText(file: string): Promise<string> {
  const handle = await open(file === "-" ? "/dev/stdin" : file);
  try {
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
}

/** A value that Multus took may be one that Plexus refuses: said here, not by plexusd on the node. */
function refuseUnusable({ configuration }: Migration): void {
  try {
    parseConfig(stringify(configuration), "the resulting configuration");
  } catch (cause) {
    throw new Error(errorMessage(cause), { cause });
  }
}

function asYaml({ configuration, notes }: Migration): string {
  const lines = notes.map(({ source, key, note }) => `# ${key} (${source}): ${note}.`);
  return [stringify(configuration).trimEnd(), "#", ...lines].join("\n");
}

function asConfigMap(migration: Migration): string {
  return stringify(
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: {
        name: "plexus-config",
        namespace: "kube-system",
        labels: { "app.kubernetes.io/name": "plexus" },
      },
      data: { "config.yaml": `${asYaml(migration)}\n` },
    },
    { lineWidth: 0 },
  );
}
