import * as z from "zod";
import { type Limit, limits } from "#cni/limits.ts";
import { fileKeys } from "#daemon/config/config.ts";
import { networkKeys } from "#engine/config-keys.ts";
import type { ConfigKey } from "#engine/config-table.ts";
import { defaultPaths } from "#lib/files/default-paths.ts";

interface Schema {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
}

const names = Object.keys(networkKeys);

const head = `<!-- Made by make docs from config-keys.ts in src/engine and daemon-keys.ts in src/daemon/config. Do not edit. -->

# Configuration

Your settings are the file \`config.yaml\` in the ConfigMap \`plexus-config\`. Everything is optional,
and upgrades keep it. For example, write this \`config.yaml\`:

\`\`\`yaml
namespaceIsolation: true
hotPlug: [vms]
\`\`\`

Check it ([in the image](../operations/upgrade.md#upgrade)), then apply it:

\`\`\`sh
plexusctl config check config.yaml
kubectl -n kube-system create configmap plexus-config --from-file=config.yaml --dry-run=client -o yaml | kubectl apply -f -
\`\`\`

With Helm, set \`config\` in the [chart's values](../operations/helm.md) instead, or use both for
different keys.

plexusd gets a change after about a minute, as \`${defaultPaths.configFile}\` (\`--config FILE\`), and
applies it without a restart. Only keys marked *start* need
\`kubectl -n kube-system rollout restart daemonset/plexus\`, which the chart does by itself. If a
changed file is invalid or has unknown keys, the previous configuration stays in effect, and the log
and an event on the Node give line, key and value. For one release, former keys only get a warning
in the log and of \`doctor\`.

Your keys override the ConfigMap \`plexus-platform\`, which has the directories of the distribution
and the chart's \`config\`.
Do not edit it, because an upgrade replaces it.

The runtime's configuration (\`"type": "plexus"\`) may have the keys from \`${names[0]}\` to
\`${names.at(-1)}\` too. This file overrides them. If it has \`clusterNetwork\` or \`delegates\`, it
overrides both. A list that plexusd did not write, such as nerdctl's, keeps its own
\`clusterNetwork\` or \`delegates\`, and then ignores \`auxiliaryCNIChainName\` and
\`readinessindicatorfile\` of this file.

| key | type | default | meaning |
|---|---|---|---|
`;

const limitsHead = `
## Limits

Plexus rejects longer input with code 100, before it attaches anything. The limits are fixed, so
that no pod delays the calls of others. They do not apply to DEL.

| input | maximum |
|---|---|
`;

/** The text of docs/user/configuration.md. */
export function renderConfigDocs(): string {
  return `${head}${keyRows().join("\n")}\n${limitsHead}${limitRows().join("\n")}\n`;
}

function limitRows(): string[] {
  return Object.values<Limit>(limits).map(
    ({ description, max, unit }) => `| ${description} | ${amountOf(max, unit)} |`,
  );
}

function amountOf(max: number, unit: Limit["unit"]): string {
  if (unit !== "bytes") return `${max}`;
  return max % (1 << 20) === 0 ? `${max >> 20} MiB` : `${max >> 10} KiB`;
}

/** The keys of plexusd's file. */
export function configKeys(): [name: string, key: ConfigKey][] {
  return Object.entries<ConfigKey>(fileKeys);
}

function keyRows(): string[] {
  return configKeys().map(([key, { schema, default: value, restart = false, description }]) => {
    const json = z.toJSONSchema(schema(), { unrepresentable: "any", io: "input" }) as Schema;
    const applied = value === undefined ? "" : `\`${JSON.stringify(value)}\``;
    const meaning = `${description}${restart ? " *start*" : ""}`;
    return `| \`${key}\` | ${typeOf(json)} | ${applied} | ${meaning} |`;
  });
}

function typeOf(schema: Schema): string {
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(", ");
  if (schema.anyOf !== undefined) {
    return [...new Set(schema.anyOf.map(typeOf))].join(" or ");
  }
  if (schema.items !== undefined)
    return `list of ${typeOf(schema.items)}${schema.items.enum === undefined ? "s" : ""}`;
  if (typeof schema.additionalProperties === "object") {
    return schema.additionalProperties.type === undefined
      ? "object"
      : `map of ${schema.additionalProperties.type}s`;
  }
  return schema.type ?? "string";
}
