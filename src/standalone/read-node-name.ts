import { readFile } from "node:fs/promises";
import { dnsSubdomainProblem } from "#lib/dns-name.ts";

/** The node's name that plexusd keeps; undefined if it is missing or invalid. */
export async function readNodeName(path: string): Promise<string | undefined> {
  const name = await readFile(path, "utf8").catch(() => "");
  return dnsSubdomainProblem(name) === undefined ? name : undefined;
}
