import { createHash } from "node:crypto";
import { readdir, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { LinkState } from "#docker/state.ts";
import { isAbsent } from "#lib/files/is-absent.ts";
import { runProgram } from "#lib/run-program.ts";
import { type NamedLink, readLinks, readRoutes } from "./ip-output.ts";
import { processNamespaces } from "./process-namespaces.ts";

/** Where `ip netns` keeps namespaces. */
const netnsDir = "/run/netns";
/** NSFS_MAGIC of linux/magic.h: the filesystem type of namespaces. */
const namespaceFilesystem = 0x6e736673;

/** An interface to move or add, with its addresses. */
export interface LinkAddresses {
  readonly ifName: string;
  readonly addresses: readonly string[];
}

/**
 * What is at a path. A namespace that is mounted where this process cannot see it is `other`. With
 * `hidden` even the directory is missing, so a missing file in it proves nothing.
 */
export type FoundAtPath = "namespace" | "other" | "nothing" | "hidden";

/** The interfaces that processes have. */
export interface LinksOfProcesses {
  readonly links: readonly NamedLink[];
  /** Whether this process could read the namespace of every process that it sees. */
  readonly isComplete: boolean;
}

/** The machine's network namespaces and their interfaces. Every method throws an Error. */
export type NetworkNamespaces = Pick<IpCommand, keyof IpCommand>;

/** Network namespaces through the programs `ip` (iproute2) and `nsenter` (util-linux). */
export class IpCommand {
  readonly #pid: number;
  /** Of the names of this driver's namespaces. */
  readonly #prefix: string;

  /** `pid` is this process's; `owner` is unique to this driver on the machine. */
  constructor({ pid, owner }: { readonly pid: number; readonly owner: string }) {
    this.#pid = pid;
    const digest = createHash("sha256").update(owner).digest("hex");
    this.#prefix = `plexus-docker-${digest.slice(0, 8)}-`;
  }

  /** The path of the staging namespace `name`, whether or not it exists. */
  pathOf(name: string): string {
    return join(netnsDir, this.#prefix + name);
  }

  async find(path: string): Promise<FoundAtPath> {
    try {
      const { type } = await statfs(path);
      return type === namespaceFilesystem ? "namespace" : "other";
    } catch (error) {
      if (!isAbsent(error)) return "other";
      // A path with a slash at its end exists only as a directory.
      return (await exists(`${dirname(path)}/`)) ? "nothing" : "hidden";
    }
  }

  /** The names of all namespaces from {@link create}, in any process, including unmounted ones. */
  async names(): Promise<string[]> {
    const found = await readdir(netnsDir).catch(() => []);
    return found
      .filter((name) => name.startsWith(this.#prefix))
      .map((name) => name.slice(this.#prefix.length));
  }

  /** Creates an empty namespace. Keeps an existing one, and replaces an unmounted one. */
  async create(name: string): Promise<void> {
    if ((await this.find(this.pathOf(name))) === "namespace") return;
    // The file of an unmounted namespace would make `ip netns add` fail.
    await this.remove(name);
    await runProgram(["ip", "netns", "add", this.#prefix + name]);
  }

  /** Removes a namespace and its interfaces, or its unmounted file, if it exists. */
  async remove(name: string): Promise<void> {
    if (!(await this.names()).includes(name)) return;
    await runProgram(["ip", "netns", "delete", this.#prefix + name]);
  }

  /** The names of a namespace's interfaces, with `lo`; by default of this process's namespace. */
  async links(path?: string): Promise<string[]> {
    return readLinks(await show(path, ["link", "show"])).map(({ ifName }) => ifName);
  }

  async state(path: string, ifName: string): Promise<LinkState> {
    const [found, routes4, routes6] = await Promise.all([
      show(path, ["-d", "address", "show", "dev", ifName]),
      show(path, ["-4", "route", "show", "dev", ifName]),
      show(path, ["-6", "route", "show", "dev", ifName]),
    ]);
    const named = readLinks(found).find((link) => link.ifName === ifName);
    if (named === undefined) throw new Error(`no interface ${ifName} in ${path}`);
    const { ifName: _, ...link } = named;
    return { ...link, routes: [...readRoutes(routes4, 4), ...readRoutes(routes6, 6)] };
  }

  /** Whether this process sees a process in the namespace at a path. */
  async hasProcess(path: string): Promise<boolean> {
    const { ino } = await stat(path);
    return (await processNamespaces()).paths.has(ino);
  }

  /** The interfaces of all other namespaces with processes, as far as this process sees them. */
  async linksOfProcesses(): Promise<LinksOfProcesses> {
    const { paths, isComplete } = await processNamespaces();
    paths.delete((await stat("/proc/self/ns/net")).ino);
    const links = await Promise.all([...paths.values()].map(linksOf));
    return { links: links.flat(), isComplete };
  }

  /** Moves an interface into this process's namespace and renames it. */
  async moveOut(from: string, ifName: string, hostIfName: string): Promise<void> {
    await change(from, [
      `link set dev ${ifName} down`,
      `link set dev ${ifName} name ${hostIfName} netns ${this.#pid}`,
    ]);
  }

  /** Moves an interface from this process's namespace, renames it, and restores its addresses. */
  async moveIn(into: string, link: LinkAddresses & { readonly hostIfName: string }): Promise<void> {
    const { hostIfName, ifName } = link;
    await change(undefined, [
      `link set dev ${hostIfName} down`,
      `link set dev ${hostIfName} name ${ifName} netns ${into}`,
    ]);
    await change(into, addAddresses(link));
  }

  /** Adds an interface with addresses to replace one that is gone. */
  async addSubstitute(into: string, link: LinkAddresses): Promise<void> {
    const add = `link add ${link.ifName} type veth peer name substitute0`;
    await change(into, [add, ...addAddresses(link)]);
  }
}

function addAddresses({ ifName, addresses }: LinkAddresses): string[] {
  return addresses.map((address) => `address add ${address} dev ${ifName}`);
}

/** The interfaces of the namespace at one of some paths; none when all its processes have ended. */
async function linksOf(paths: readonly string[]): Promise<NamedLink[]> {
  for (const path of paths) {
    try {
      return readLinks(await show(path, ["-d", "address", "show"]));
    } catch (error) {
      if (await exists(path)) throw error;
    }
  }
  return [];
}

async function show(path: string | undefined, args: readonly string[]): Promise<unknown> {
  const { stdout } = await runProgram([...enter(path), "ip", "-j", ...args]);
  return stdout.trim() === "" ? [] : JSON.parse(stdout);
}

async function change(path: string | undefined, commands: readonly string[]): Promise<void> {
  if (commands.length === 0) return;
  await runProgram([...enter(path), "ip", "-batch", "-"], { input: `${commands.join("\n")}\n` });
}

function enter(path: string | undefined): string[] {
  return path === undefined ? [] : ["nsenter", `--net=${path}`];
}

/** Also true for a path that cannot be examined. */
function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: unknown) => !isAbsent(error),
  );
}
