import { mkdtempDisposable, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodeInterface } from "../cluster/kubernetes/addresses.ts";
import type { Cluster } from "../cluster/kubernetes/cluster.ts";
import { unpackedPackages } from "../cluster/machine/debian.ts";
import { writeImage } from "../cluster/machine/images.ts";
import { run } from "../cluster/machine/run.ts";
import { rootFileSystem } from "../fresh/root-fs.ts";
import { outputOf } from "./suite.ts";

/** multi-networkpolicy-nftables and its own cases, from a directory with its source. */
export class Enforcer {
  readonly #source: string;
  readonly #manifest: string;
  /** The cases' images; the last one is the enforcer's. */
  readonly #images: readonly string[];

  private constructor(source: string, manifest: string, images: readonly string[]) {
    this.#source = source;
    this.#manifest = manifest;
    this.#images = images;
  }

  /** @throws Error when SUITE_SRC does not name the source */
  static async find(): Promise<Enforcer> {
    const source = process.env.SUITE_SRC ?? "";
    const path = join(source, "e2e/multi-network-policy-nftables-e2e.yml");
    if (source === "") throw new Error("set SUITE_SRC to a clone of multi-networkpolicy-nftables");
    const manifest = await readFile(path, "utf8");
    const names = (await readdir(join(source, "e2e/tests"))).filter((name) =>
      name.endsWith(".yml"),
    );
    const read = (name: string): Promise<string> =>
      readFile(join(source, "e2e/tests", name), "utf8");
    const texts = [...(await Promise.all(names.map(read))), manifest];
    const images = texts.flatMap((text) =>
      [...text.matchAll(/ image: (\S+)/g)].map(([, image = ""]) => image),
    );
    return new Enforcer(source, manifest, [...new Set(images)]);
  }

  /** An image with `nc`, `nft` and `ip`. */
  get image(): string {
    return this.#images[0] ?? "";
  }

  /**
   * The names of its files of cases that contain CASES, but for those of a plugin that is no reference plugin.
   * @throws Error when there is none
   */
  async cases(): Promise<string[]> {
    const names = await readdir(join(this.#source, "e2e/tests"));
    const part = process.env.CASES ?? "";
    const cases = names.filter(
      (name) => name.endsWith(".bats") && name !== "bond-cni.bats" && name.includes(part),
    );
    if (cases.length === 0) throw new Error(`CASES=${part}: no file of cases has this name`);
    return cases;
  }

  /** Builds and installs it as its own cases do. */
  async install(cluster: Cluster): Promise<void> {
    await using root = await mkdtempDisposable(join(tmpdir(), "plexus-enforcer-"));
    await run(["cp", "-a", `${await rootFileSystem("bookworm", "policies")}/.`, root.path]);
    const program = join(root.path, "multi-networkpolicy-nftables");
    const env = { CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false" };
    await run(["go", "build", "-o", program, "./cmd/main.go"], { cwd: this.#source, env });
    for (const reference of this.#images) {
      const archive = join(cluster.directory, "enforcer.tar");
      await writeImage({ reference, root: root.path, archive, stopSignal: "SIGKILL" });
      await cluster.node.loadImage(archive);
    }
    // Some of its cases name the interface of kind's nodes.
    await cluster.inNode([
      "ip",
      "link",
      "property",
      "add",
      "dev",
      nodeInterface,
      "altname",
      "eth0",
    ]);
    const crd = join(this.#source, "pkg/controller/config/crd/multi-networkpolicies.yml");
    await cluster.kubectl("apply", "--filename", crd);
    const { socket } = cluster.node.runtime;
    await cluster.apply(this.#manifest.replaceAll("/run/containerd/containerd.sock", socket));
    const daemonSet = ["daemonset/multi-networkpolicy-ds-amd64", "--namespace=kube-system"];
    await cluster.kubectl("rollout", "status", ...daemonSet, "--timeout=120s");
  }

  /** Runs one of its files of cases. @returns what Bats prints, with `not ok` for a case that fails */
  async run(cluster: Cluster, name: string): Promise<string> {
    const packages = await unpackedPackages({ name: "debian-bats", fromRelease: ["bats"] });
    const bats = join(packages, "usr/bin/bats");
    const file = join(this.#source, "e2e/tests", name);
    return outputOf(cluster.administratorCommand(bats, "--formatter", "tap", file));
  }
}
