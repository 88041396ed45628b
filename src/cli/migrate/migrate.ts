import { readFile } from "node:fs/promises";
import { stringify } from "yaml";
import { command, ExitCode } from "#cli/command.ts";
import { choiceFlag } from "#cli/flags.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { joinLines } from "#lib/one-line.ts";
import { convert, type Migration } from "./convert.ts";
import { findMultus, joinParts } from "./multus-files.ts";

const formats = {
  yaml: asYaml,
  values: asValues,
  configmap: asConfigMap,
  json: (migration: Migration) => JSON.stringify(migration, undefined, 2),
};

export const migrateCommand = command({
  name: "migrate",
  positionals: "FILE...",
  summary: "convert a configuration of Multus into one of plexusd",
  description: `FILE is a manifest with Multus's DaemonSet and ConfigMap, a CNI configuration of Multus from a node
(00-multus.conf, 00-multus.conflist), or the thick daemon's daemon-config.json; - is stdin. Several
files give one configuration. As with Multus, the daemon's file overrides the CNI configuration,
which overrides the DaemonSet's arguments. If the files do not tell what Multus uses, the command
fails and names the file of a node that does.

The configuration accepts what Multus accepts (strictness: multus). Comments at its end say when to
change that, and list each key, argument and plugin without a counterpart and what to do about it.`,
  flags: {
    output: choiceFlag(["yaml", "values", "configmap", "json"], {
      short: "o",
      help: 'yaml for plexusd\'s configuration file, values for helm --values, configmap for kubectl apply, json for {"configuration": …, "notes": […]}',
    }),
  },
  failsWhen:
    "a file contains no configuration of Multus, or one that Plexus cannot use, or the files do not tell which one Multus uses",
  async run({ flags, positionals }, output) {
    const found = [];
    for (const file of positionals) {
      const text = await readFile(file === "-" ? "/dev/stdin" : file, "utf8");
      found.push(findMultus(text, file));
    }
    const migration = convert(joinParts(found));
    // Reports values that Multus accepts and Plexus refuses here, before plexusd does on the node.
    parseConfig(stringify(migration.configuration), "the resulting configuration");
    output.out(formats[flags.output](migration).trimEnd());
    return ExitCode.Done;
  },
});

function asYaml({ configuration, notes }: Migration): string {
  // A line break in a name or key must not end the comment.
  const lines = notes.map(
    ({ source, key, note }) => `# ${joinLines(`${key} (${source}): ${note}`)}.`,
  );
  return [stringify(configuration).trimEnd(), "#", ...lines].join("\n");
}

/** The Helm chart's value. */
function asValues({ configuration, notes }: Migration): string {
  return asYaml({ configuration: { config: configuration }, notes });
}

function asConfigMap(migration: Migration): string {
  return stringify(
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      // Without Plexus's labels, which an `apply --prune` of its manifests may select.
      metadata: { name: "plexus-config", namespace: "kube-system" },
      data: { "config.yaml": `${asYaml(migration)}\n` },
    },
    { lineWidth: 0 },
  );
}
