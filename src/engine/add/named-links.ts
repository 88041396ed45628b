import type { NetConfList } from "#cni/conf/conf.ts";
import { DelegateError } from "#cni/runtime/delegate-error.ts";
import { isJsonObject, type JsonObject, quoteValue } from "#lib/json.ts";

/** The kernel's words and those of the netlink library, which do not name the link. */
const missingLink = /link not found|no such network interface|no such device/i;

/** Keys of plugins with the name of an existing link. */
const linkKeys = ["master", "device", "bridge"];

/** Adds the links that the plugin's configuration names to the error of a plugin that misses one. */
export function namingLinks(error: unknown, { plugins }: NetConfList): unknown {
  if (!(error instanceof DelegateError) || error.reason !== undefined) return error;
  const { message, text, pluginType } = error;
  const plugin = plugins.find(({ type }) => type === pluginType);
  if (plugin === undefined || !missingLink.test(text)) return error;
  const unnamed = linksOf(plugin.raw).filter(([, name]) => !text.includes(name));
  if (unnamed.length === 0) return error;
  const links = unnamed.map(([key, name]) => `${key} ${quoteValue(name)}`).join(", ");
  const where = plugin.raw.linkInContainer === true ? " in the pod" : "";
  return error.withMessage(`${message} (the configuration names ${links}${where})`);
}

function linksOf(raw: JsonObject): (readonly [key: string, name: string])[] {
  const bonded = Array.isArray(raw.links) ? raw.links.filter(isJsonObject) : [];
  const named = [
    ...linkKeys.map((key) => [key, raw[key]] as const),
    ...bonded.map(({ name }) => ["link", name] as const),
  ];
  return named.flatMap(([key, name]) =>
    typeof name === "string" && name !== "" ? [[key, name] as const] : [],
  );
}
