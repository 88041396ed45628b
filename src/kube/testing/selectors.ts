import { isJsonObject, type Json, type JsonObject } from "#lib/json.ts";
import { metadataOf } from "./collection.ts";

/** The parameters of a request's URL. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

type Term = readonly [key: string, value: string];

/**
 * Whether an object has the query's labels and fields of its spec or metadata. A field that it does
 * not have is an empty text, as on the real server.
 */
export function isSelected(object: JsonObject, { fieldSelector, labelSelector }: Query): boolean {
  const fields = termsOf(fieldSelector).map(([path, value]) => ({ path: path.split("."), value }));
  return (
    fields.every(({ path: [part = "", field = ""], value }) =>
      hasAll(object[part], [[field, value]]),
    ) && hasAll(metadataOf(object).labels, termsOf(labelSelector))
  );
}

function termsOf(selector: Query[string] = ""): Term[] {
  const terms = `${selector}`.split(",").filter((term) => term !== "");
  return terms.map((term) => {
    const [key = "", value = ""] = term.split("=");
    return [key, value];
  });
}

function hasAll(object: Json | undefined, terms: readonly Term[]): boolean {
  const fields = isJsonObject(object) ? object : {};
  return terms.every(([key, value]) => (fields[key] ?? "") === value);
}
