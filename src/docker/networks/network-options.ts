import * as z from "zod";
import type { NetworkState } from "#docker/state.ts";
import { nonEmptyText } from "#engine/config-keys.ts";
import { fieldPath, problemsOf } from "#lib/parsing/parse-with.ts";

const prefix = "plexus.";
/** Where dockerd puts the options of `-o`. */
const genericKey = "com.docker.network.generic";
const internalKey = "com.docker.network.internal";

const schema = z
  .strictObject({
    network: nonEmptyText(),
    mode: z.enum(["staged", "direct"]).default("staged"),
    gateway: z.enum(["auto", "none", "docker"]).default("auto"),
    // dockerd appends a number, and the kernel has room for 15 characters.
    ifprefix: z
      .string()
      .regex(/^[a-z][a-z0-9_-]{0,11}$/i, { error: "must be up to 12 letters, digits, _ and -" })
      .exactOptional(),
  })
  // In direct mode the plugins set the routes.
  .refine(({ mode, gateway }) => mode === "staged" || gateway === "auto", {
    path: ["gateway"],
    error: "needs staged mode",
  });

/** Ignores keys without Plexus's prefix. @throws Error naming every invalid option */
export function parseNetworkOptions(
  given: Readonly<Record<string, unknown>>,
): NetworkState["options"] {
  const generic = given[genericKey] ?? {};
  if (typeof generic !== "object" || generic === null) {
    throw new Error(`option ${genericKey}: must be an object`);
  }
  const parsed = schema.safeParse(plexusOptions(generic));
  if (!parsed.success) throw new Error(optionProblems(parsed.error, "-o"));
  const { ifprefix, ...options } = parsed.data;
  const internal = given[internalKey] === true;
  if (internal && options.mode === "direct") {
    throw new Error("--internal needs staged mode: in direct mode the plugins set the routes");
  }
  return {
    ...options,
    // dockerd counts the names eth0, eth1 … without looking at interfaces that it did not create.
    ifPrefix: ifprefix ?? (options.mode === "direct" ? "net" : "eth"),
    internal,
  };
}

/** The options with Plexus's prefix, without it; the case of keys does not matter. */
export function plexusOptions(options: object): Record<string, unknown> {
  const lower = Object.entries(options).map(([key, value]) => [key.toLowerCase(), value] as const);
  const plexus = lower.filter(([key]) => key.startsWith(prefix));
  return Object.fromEntries(plexus.map(([key, value]) => [key.slice(prefix.length), value]));
}

/** What is wrong with options, without their values; `flag` is how the user passed them. */
export function optionProblems(error: z.ZodError, flag: string): string {
  const problems = problemsOf(error, undefined);
  return problems
    .map((each) => `${flag} ${prefix}${fieldPath(each.path)}: ${each.reason}`)
    .join("; ");
}
