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
  if (!missingLink.test(text)) return error;
  const links = plugins
    .filter(({ type }) => type === pluginType)
    .flatMap(({ raw }) => linksOf(raw, text));
  if (links.length === 0) return error;
  return error.withMessage(`${message} (the configuration names ${links.join(", ")})`);
}

/** The links of a plugin's configuration that a text does not name. */
function linksOf(raw: JsonObject, text: string): string[] {
  const bonded = [raw.links].flat().filter(isJsonObject);
  const named = [
    ...linkKeys.map((key) => [key, raw[key]] as const),
    ...bonded.map(({ name }) => ["link", name] as const),
  ];
  const where = raw.linkInContainer === true ? " in the pod" : "";
  return named.flatMap(([key, name]) =>
    typeof name !== "string" || text.includes(name) ? [] : `${key} ${quoteValue(name)}${where}`,
  );
}
