import { createHash } from "node:crypto";
import { readdir, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isAbsent } from "#lib/files/is-absent.ts";
import { readLink, readLinkNames, readRoutes } from "./ip-output.ts";
import type { FoundAtPath, LinkState, NetworkNamespaces } from "./namespaces.ts";
import { runProgram } from "./run-program.ts";

/** Where `ip netns` keeps namespaces. */
const netnsDir = "/run/netns";
/** NSFS_MAGIC of linux/magic.h: the filesystem of namespaces. */
const namespaceFilesystem = 0x6e736673;

/** Namespaces by the programs `ip` (iproute2) and `nsenter` (util-linux), in this process's own namespaces. */
export class IpCommand implements NetworkNamespaces {
  readonly #pid: number;
  /** What the names of this driver's namespaces begin with; those of others stay alone. */
  readonly #prefix: string;

  /** `pid` is this process's, as it sees itself; `owner` is what no other driver on the machine has. */
  constructor({ pid, owner }: { readonly pid: number; readonly owner: string }) {
    this.#pid = pid;
    const digest = createHash("sha256").update(owner).digest("hex");
    this.#prefix = `plexus-docker-${digest.slice(0, 8)}-`;
  }

  pathOf(name: string): string {
    return join(netnsDir, this.#prefix + name);
  }

  async find(path: string): Promise<FoundAtPath> {
    try {
      const { type } = await statfs(path);
      return type === namespaceFilesystem ? "namespace" : "other";
    } catch (error) {
      if (!isAbsent(error)) return "other";
      return (await isDirectory(dirname(path))) ? "nothing" : "hidden";
    }
  }

  async names(): Promise<string[]> {
    const found = await readdir(netnsDir).catch(() => []);
    return found
      .filter((name) => name.startsWith(this.#prefix))
      .map((name) => name.slice(this.#prefix.length));
  }

  async create(name: string): Promise<void> {
    if ((await this.find(this.pathOf(name))) === "namespace") return;
    // A file that lost its mount is in the way.
    await this.remove(name);
    await runProgram(["ip", "netns", "add", this.#prefix + name]);
  }

  async remove(name: string): Promise<void> {
    if (!(await this.names()).includes(name)) return;
    await runProgram(["ip", "netns", "delete", this.#prefix + name]);
  }

  async links(path?: string): Promise<string[]> {
    return readLinkNames(await this.#show(path, ["link", "show"]));
  }

  async state(path: string, ifName: string): Promise<LinkState> {
    const [found, routes4, routes6] = await Promise.all([
      this.#show(path, ["-d", "address", "show", "dev", ifName]),
      this.#show(path, ["-4", "route", "show", "dev", ifName]),
      this.#show(path, ["-6", "route", "show", "dev", ifName]),
    ]);
    const link = readLink(found, ifName);
    if (link === undefined) throw new Error(`there is no interface ${ifName} in ${path}`);
    return { ...link, routes: [...readRoutes(routes4, 4), ...readRoutes(routes6, 6)] };
  }

  async moveOut(from: string, ifName: string, ownName: string): Promise<void> {
    await this.#change(from, [
      `link set dev ${ifName} down`,
      `link set dev ${ifName} name ${ownName} netns ${this.#pid}`,
    ]);
  }

  async moveIn(
    into: string,
    link: { ownName: string; ifName: string; addresses: readonly string[] },
  ): Promise<void> {
    const { ownName, ifName } = link;
    await this.#change(undefined, [
      `link set dev ${ownName} down`,
      `link set dev ${ownName} name ${ifName} netns ${into}`,
    ]);
    await this.#addAddresses(into, link);
  }

  async addSubstitute(
    into: string,
    link: { ifName: string; addresses: readonly string[] },
  ): Promise<void> {
    await this.#change(into, [`link add ${link.ifName} type veth peer name substitute0`]);
    await this.#addAddresses(into, link);
  }

  async #addAddresses(
    path: string,
    { ifName, addresses }: { ifName: string; addresses: readonly string[] },
  ): Promise<void> {
    const commands = addresses.map((address) => `address add ${address} dev ${ifName}`);
    if (commands.length > 0) await this.#change(path, commands);
  }

  async #show(path: string | undefined, args: readonly string[]): Promise<unknown> {
    const { stdout } = await runProgram([...enter(path), "ip", "-j", ...args]);
    return stdout.trim() === "" ? [] : JSON.parse(stdout);
  }

  async #change(path: string | undefined, commands: readonly string[]): Promise<void> {
    await runProgram([...enter(path), "ip", "-batch", "-"], { input: `${commands.join("\n")}\n` });
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    (error) => !isAbsent(error),
  );
}

function enter(path: string | undefined): string[] {
  return path === undefined ? [] : ["nsenter", `--net=${path}`];
}
