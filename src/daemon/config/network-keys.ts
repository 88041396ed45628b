import * as z from "zod";
import { limits } from "#cni/limits.ts";
import { isPlainName } from "#cni/names.ts";
import { namespace, namespaces, networkKeys, nonEmptyText } from "#engine/config-keys.ts";
import type { ConfigKeys } from "#engine/config-table.ts";
import { delegateList } from "#engine/delegate-list.ts";
import { errorMessage } from "#lib/error-message.ts";
import type { JsonObject } from "#lib/json.ts";
import { checkNotMetaPlugin } from "#npwg/meta-plugins.ts";

/** A definition's name is also one that CNI permits. */
const reference = () =>
  nonEmptyText().refine((text) => text.startsWith("/") || isPlainName(text), {
    error: "must be the name of a network, or an absolute path",
  });

/** The default network is one of a pod's networks too. */
const others = limits.networks.max - 1;
const tooMany = { error: `a pod can have at most ${others} besides the default network` };

const { clusterNetwork, delegates, defaultNetworks } = networkKeys;
const { systemNamespaces, plexusNamespace, globalNamespaces } = networkKeys;

/**
 * In plexusd's file, values with which every ADD that uses them fails, and names that no namespace
 * can have, are invalid. Those of the runtime's conf are checked only by the ADD, because a DEL
 * reads that conf too.
 */
export const checkedKeys = {
  clusterNetwork: { ...clusterNetwork, schema: reference },
  delegates: { ...delegates, schema: () => delegates.schema().superRefine(refuseUnusable) },
  defaultNetworks: {
    ...defaultNetworks,
    schema: () => z.array(reference()).max(others, tooMany).readonly(),
  },
  systemNamespaces: { ...systemNamespaces, schema: namespaces },
  plexusNamespace: { ...plexusNamespace, schema: namespace },
  globalNamespaces: {
    ...globalNamespaces,
    schema: () => globalNamespaces.schema().pipe(namespaces()),
  },
} as const satisfies ConfigKeys;

function refuseUnusable(confs: readonly JsonObject[], ctx: z.RefinementCtx): void {
  for (const [index, conf] of confs.entries()) {
    try {
      const list = delegateList(conf, index);
      checkNotMetaPlugin(list, list.name);
    } catch (error) {
      ctx.addIssue({ code: "custom", path: [index], message: errorMessage(error) });
    }
  }
}
