import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../cluster/machine/run.ts";
import { quoted, runInGuest } from "../guest/guest.ts";
import { guestImage } from "../guest/image.ts";
import { repositoryRoot } from "../support/paths.ts";
import { arm64Modules } from "./modules.ts";

/**
 * In an arm64 guest: builds the shim, runs its unit tests, assembles the image and starts plexusd in it, then runs
 * tests in namespaces with real plugins. Arguments, such as the path of a test file, are passed to vitest.
 */
const script = (args: readonly string[], modules: string): string => `
set -ex
cd ${quoted(repositoryRoot)}
mount --bind ${quoted(join(modules, "node_modules"))} node_modules
export PATH=$PWD/node_modules/.bin:$PATH CI=true NO_COLOR=1
# Packages that are only unpacked have not chosen what iptables is.
for name in iptables ip6tables; do ln -sf xtables-nft-multi "/usr/sbin/$name"; done
make -s -B -C shim OUT=../dist/plexus
make -s -C shim unit OUT=/tmp/shim/plexus
ln -sf /run/share/plexus-standalone dist/plexus-standalone
node scripts/image.ts --rootfs /tmp/image
chroot /tmp/image /plexus/node /plexus/plexusd.js --version
exec vitest run --project netns ${args.map(quoted).join(" ")}
`;

/** Each program of Plexus, with real plugins: links, the record, the plan, and what kills leave. */
const defaultTests = [
  ...["crash", "without-daemon"].map((name) => `e2e/netns/detach/${name}.test.ts`),
  "e2e/netns/plugins/reference-plugins.test.ts",
  ...["-t", "real plugins|middle of a DEL|after a reboot|macvlan"],
];

const [image, modules] = await Promise.all([guestImage("arm64"), arm64Modules()]);
await using share = await mkdtempDisposable(join(tmpdir(), "plexus-guest-"));
const bun = join(modules, "node_modules/@oven/bun-linux-aarch64/bin/bun");
const standalone = ["--standalone", "--bun", bun, "--out", join(share.path, "plexus-standalone")];
await run(["node", "scripts/bundle.ts", ...standalone], { cwd: repositoryRoot });
const args = process.argv.slice(2);
process.exitCode = await runInGuest(image, {
  script: script(args.length === 0 ? defaultTests : args, modules),
  share: share.path,
});
