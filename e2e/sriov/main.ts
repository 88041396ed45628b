import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quoted, runInGuest } from "../guest/guest.ts";
import { guestImage } from "../guest/image.ts";
import { repositoryRoot } from "../support/paths.ts";
import { guestPlugins } from "./plugins.ts";

/** Runs the tests of the project `sriov` in a guest. Arguments are passed to vitest: `-t "vlan:"`. */
const script = (args: readonly string[], plugins: string, report: boolean): string => `
cd ${quoted(repositoryRoot)}
export PATH=${quoted(join(repositoryRoot, "node_modules/.bin"))}:$PATH CI=true NO_COLOR=1 PLEXUS_GUEST=yes
export PLEXUS_GUEST_PLUGINS=${quoted(plugins)}
${report ? "export PLEXUS_TEST_REPORTS=/run/share" : ""}
exec vitest run --project sriov ${args.map(quoted).join(" ")}
`;

const reports = process.env.PLEXUS_TEST_REPORTS;
const [image, plugins] = await Promise.all([guestImage(), guestPlugins()]);
await using share = await mkdtempDisposable(join(tmpdir(), "plexus-guest-"));
process.exitCode = await runInGuest(image, {
  script: script(process.argv.slice(2), plugins, reports !== undefined),
  share: share.path,
});
