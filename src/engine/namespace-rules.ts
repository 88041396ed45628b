import { quoteValue } from "#lib/json.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type AttachmentPolicy, restrictedPlugins } from "#npwg/attachment-policy.ts";
import { matchesPattern } from "#npwg/name-pattern.ts";
import type { EngineConfig } from "./config.ts";

type Rule = EngineConfig["byNamespace"][number];

/** The first rule for a namespace that has the setting. */
function ruleWith(
  { byNamespace }: Pick<EngineConfig, "byNamespace">,
  namespace: string,
  setting: keyof Rule,
): Rule | undefined {
  return byNamespace.find(
    (rule) =>
      rule[setting] !== undefined &&
      rule.namespaces.some((each) => matchesPattern(each, namespace)),
  );
}

/** The configuration for the pods of a namespace, which may have separate networks. */
export function configOfNamespace(
  config: EngineConfig,
  namespace: string | undefined,
): EngineConfig {
  if (namespace === undefined || config.byNamespace.length === 0) return config;
  const clusterNetwork = ruleWith(config, namespace, "clusterNetwork")?.clusterNetwork;
  const defaultNetworks = ruleWith(config, namespace, "defaultNetworks")?.defaultNetworks;
  const delegates = clusterNetwork === undefined ? undefined : [];
  return { ...config, ...omitUndefined({ clusterNetwork, delegates, defaultNetworks }) };
}

/** What the definitions of a namespace may contain; undefined for anything. */
export function policyFor(
  config: Pick<EngineConfig, "attachmentPolicy" | "byNamespace" | "plexusNamespace">,
  namespace: string,
): AttachmentPolicy | undefined {
  const rule = ruleWith(config, namespace, "attachmentPolicy");
  if (rule === undefined && namespace === config.plexusNamespace) return undefined;
  const { attachmentPolicy: policy = "trusted" } = rule ?? config;
  if (policy === "trusted") return undefined;
  const plugins = policy === "restricted" ? restrictedPlugins : policy;
  const name = rule === undefined ? "" : ` of byNamespace ${quoteValue(rule.name)}`;
  return { rule: `attachmentPolicy${name}`, plugins };
}
