import { expect, test } from "vitest";
import { viewOf, wholeHost } from "#host/host-view.ts";
import { pathsToMount } from "./host-paths.ts";
import { parseConfig } from "./parse.ts";

const byDeploy = "is not mounted by the manifests in deploy/";

test.for([
  { where: "on a host", view: wholeHost, says: byDeploy },
  { where: "in a pod that only checks it", view: viewOf(["/proc", "/etc/hosts"]), says: byDeploy },
  {
    where: "in plexusd's pod",
    view: viewOf(["/var/lib/plexus", "/etc/cni/net.d", "/etc/cni/plexus/net.d"]),
    says: "is not mounted into plexusd's container",
  },
])("pathsToMount() says of a configuration $where only what it knows", ({ view, says }) => {
  const config = parseConfig("binDir: /usr/libexec/cni\ncniBinDir: /opt/cni/bin\n", "config.yaml");
  const about = (key: string) => expect.stringMatching(`^${key}: .* ${says}, so that plexusd `);
  expect(pathsToMount(config, view)).toContainEqual(about("binDir"));
  const usual = parseConfig("confDir: /etc/cni/plexus/net.d\n", "config.yaml");
  expect(pathsToMount(usual, view).filter((text) => text.includes("confDir"))).toEqual([]);
});
