import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { prepareTools } from "../cluster/kubernetes/tools.ts";
import { unpackedPackages } from "../cluster/machine/debian.ts";
import { builtModule, type GoModule } from "../cluster/machine/go-module.ts";
import { writeImageOnBusybox } from "../cluster/machine/images.ts";

/** A primary CNI that is installed as its project documents it. */
export interface Primary {
  /** The file that its agent writes into /etc/cni/net.d. */
  readonly conf: string;
  /** Its agent. */
  readonly namespace: string;
  readonly daemonSet: string;
  /** The ConfigMap and the key that this file is made from. */
  readonly configMap: readonly [name: string, key: string];
  /** The module with its manifest. */
  readonly module: GoModule;
  /** The manifest's path in the module. */
  readonly manifest: string;
  /** Makes the manifest fit for the test cluster. */
  readonly adapt: (manifest: string) => string;
  /** What its images have: the file or the directory to copy, by the path in the image. */
  readonly files: (module: string) => Promise<Readonly<Record<string, string>>>;
}

/** What the agents execute, and its libraries. */
const programPackages = ["iptables", "ipset", "runit"];
const libraries = "libc6 libip4tc2 libip6tc2 libipset13 libmnl0 libnftnl11 libxtables12".split(" ");

const debian = { name: "debian-primary", fromRelease: [...programPackages, ...libraries] };

/** The names by which iptables is called, which Debian makes only when the package is installed. */
const iptables = ["iptables", "ip6tables"].flatMap((name) =>
  ["", "-save", "-restore"].map((suffix) => `${name}${suffix}`),
);

/** Builds a primary CNI; returns its manifest, and an archive with both of the images that the manifest names. */
export async function preparePrimary(
  primary: Primary,
  directory: string,
): Promise<{ manifest: string; archive: string }> {
  const { busybox } = await prepareTools();
  const packages = await unpackedPackages(debian);
  const module = await builtModule(primary.module);
  const manifest = primary.adapt(await readFile(join(module, primary.manifest), "utf8"));
  const images = [...manifest.matchAll(/ image: (\S+)/g)].map(([, image = ""]) => image);
  const [reference = "", alias = "", ...more] = new Set(images);
  if (alias === "" || more.length > 0) {
    throw new Error(`${primary.manifest} names these images: ${images.join(", ")}`);
  }
  const multi = join(packages, "usr/sbin/xtables-nft-multi");
  const archive = await writeImageOnBusybox(busybox, {
    reference,
    alias,
    archive: join(directory, "primary.tar"),
    files: {
      ...(await programs(packages)),
      ...Object.fromEntries(iptables.map((name) => [`usr/bin/${name}`, multi])),
      "usr/bin/which": busybox,
      ...(await primary.files(module)),
    },
  });
  return { manifest, archive };
}

/** What packages have, but for their configuration. */
async function programs(packages: string): Promise<Record<string, string>> {
  const names = (await readdir(packages)).filter((name) => name !== "etc");
  return Object.fromEntries(names.map((name) => [name, join(packages, name)]));
}
