import * as z from "zod";
import { DriverError } from "#docker/driver-error.ts";
import { nonEmptyText } from "#engine/config-keys.ts";

/** How an endpoint's interface comes into its container; docs/user/docker.md, "Modes". */
type Mode = "staged" | "direct";

/** Who gives a container its default route. */
export type GatewayChoice = "auto" | "none" | "docker";

/** What a network was created with: its `-o` options, and what engines send beside them. */
export interface NetworkOptions {
  /** A definition, a file or a configuration in JSON. */
  readonly network: string;
  /** A directory of manifests in place of the driver's own source of definitions. */
  readonly manifests?: string;
  readonly mode: Mode;
  readonly gateway: GatewayChoice;
  /** What the names of interfaces in containers begin with. */
  readonly ifPrefix: string;
  /** `docker network create --internal`: no way out of the network. */
  readonly internal: boolean;
}

const prefix = "plexus.";
/** Where the engine puts the options of `-o`. */
const genericKey = "com.docker.network.generic";
const internalKey = "com.docker.network.internal";

const options = z.strictObject({
  network: nonEmptyText,
  manifests: z
    .string()
    .startsWith("/", { error: "must be the absolute path of a directory" })
    .exactOptional(),
  mode: z.enum(["staged", "direct"]).default("staged"),
  gateway: z.enum(["auto", "none", "docker"]).default("auto"),
  // The engine appends a number, and the kernel has room for 15 characters.
  ifprefix: z
    .string()
    .regex(/^[a-z][a-z0-9_-]{0,11}$/i, { error: "must be up to 12 letters, digits, _ and -" })
    .exactOptional(),
});

/** Inside a container the plugins' own routes are set. */
const schema = options.refine(({ mode, gateway }) => mode === "staged" || gateway === "auto", {
  path: ["gateway"],
  error: "is for the staged mode",
});

/**
 * Reads the options of a network. Keys of other owners are passed over.
 * @throws DriverError naming every option that is wrong or that Plexus does not have
 */
export function parseNetworkOptions(given: Readonly<Record<string, unknown>>): NetworkOptions {
  const generic = given[genericKey] ?? {};
  if (typeof generic !== "object" || generic === null) {
    throw new DriverError(`option ${genericKey}: must be an object`);
  }
  const parsed = schema.safeParse(ownOptions(generic, prefix));
  if (!parsed.success) throw new DriverError(optionProblems(parsed.error, "-o"));
  const { ifprefix, ...own } = parsed.data;
  const internal = given[internalKey] === true;
  if (internal && own.mode === "direct") {
    throw new DriverError("--internal is for the staged mode: the plugins set the routes here");
  }
  return {
    ...own,
    // The engine counts the names eth0, eth1 … without looking at interfaces that it has not made.
    ifPrefix: ifprefix ?? (own.mode === "direct" ? "net" : "eth"),
    internal,
  };
}

/** The options of a map that are Plexus's, without their prefix; the case of keys does not count. */
export function ownOptions(options: object, ownPrefix: string): Record<string, unknown> {
  const lower = Object.entries(options).map(([key, value]) => [key.toLowerCase(), value] as const);
  const own = lower.filter(([key]) => key.startsWith(ownPrefix));
  return Object.fromEntries(own.map(([key, value]) => [key.slice(ownPrefix.length), value]));
}

/** What is wrong with options, in one line; `flag` is how the user gave them. */
export function optionProblems({ issues }: z.ZodError, flag: string): string {
  const lines = issues.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys") {
      return [`${flag} ${prefix}${issue.path.join(".")}: ${issue.message}`];
    }
    return issue.keys.map((key) => `${flag} ${prefix}${key}: there is no such option`);
  });
  return lines.join("; ");
}
