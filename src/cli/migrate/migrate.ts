import { readFile } from "node:fs/promises";
import { stringify } from "yaml";
import { command, ExitCode } from "#cli/command.ts";
import { choiceFlag } from "#cli/flags.ts";
import { parseConfig } from "#daemon/config/parse.ts";
import { convert, type Migration } from "./convert.ts";
import { findMultusConfigurations } from "./multus-files.ts";

const formats = {
  yaml: asYaml,
  configmap: asConfigMap,
  json: (migration: Migration) => JSON.stringify(migration, undefined, 2),
};

export const migrateCommand = command({
  name: "migrate",
  positionals: "FILE...",
  summary: "convert a configuration of Multus into one of plexusd",
  description: `FILE is a CNI configuration of Multus (00-multus.conf, 00-multus.conflist), the thick daemon's
daemon-config.json, or a manifest with ConfigMaps that contain them; - is stdin. Several files give
one configuration; as with Multus, the daemon's file overrides the CNI configuration.

The configuration accepts what Multus accepts (undeclaredRequests, ignoredRequests, missingDevice).
Comments at its end say when to remove these keys, and list each key that has no counterpart and
what to do about it.`,
  flags: {
    output: choiceFlag(["yaml", "configmap", "json"], {
      short: "o",
      help: 'yaml for plexusd\'s configuration file, configmap for kubectl apply, json for {"configuration": …, "notes": […]}',
      fallback: "yaml",
    }),
  },
  failsWhen: "a file contains no configuration of Multus, or one that Plexus cannot use",
  async run({ flags, positionals }, output) {
    const found = [];
    for (const file of positionals) {
      const text = await readFile(file === "-" ? "/dev/stdin" : file, "utf8");
      found.push(...findMultusConfigurations(text, file));
    }
    const migration = convert(found);
    // Reports values that Multus accepts and Plexus refuses here, before plexusd does on the node.
    parseConfig(stringify(migration.configuration), "the resulting configuration");
    output.out(formats[flags.output](migration).trimEnd());
    return ExitCode.Done;
  },
});

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
