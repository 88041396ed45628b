import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { readHostView, viewOf } from "./host-view.ts";

/** As the kernel writes it in a pod; a blank in a path is octal. */
const mountInfo = `1520 1400 0:210 / / ro,relatime - overlay overlay rw,lowerdir=/a
1521 1520 0:215 / /proc rw,nosuid - proc proc rw
1530 1520 253:1 /etc/cni/net.d /etc/cni/net.d rw,relatime - ext4 /dev/vda1 rw
1531 1520 253:1 /srv/my\\040plugins /srv/my\\040plugins ro,relatime - ext4 /dev/vda1 rw
`;

test("sees() is true in a container only for paths that are mounted into it", async () => {
  const root = await temporaryDirectory();
  await writeFile(join(root, "mountinfo"), mountInfo);
  const view = await readHostView({ imageDir: root, mountInfo: join(root, "mountinfo") });
  const paths = [
    "/etc/cni/net.d",
    "/etc/cni/net.d/10-calico.conflist",
    "/srv/my plugins/x",
    "/etc/cni",
    "/etc/cni/net.dd",
    "/etc/cni/net.d/../x",
    "/run/flannel/subnet.env",
  ];
  expect(paths.filter((path) => view.sees(path))).toEqual(paths.slice(0, 3));
});

test("sees() is true for every path if the process runs on the host", async () => {
  const view = await readHostView({ imageDir: "/nowhere/plexus" });
  expect(view.sees("/run/flannel/subnet.env")).toBe(true);
});

test("sees() accepts a directory with a trailing slash", () => {
  expect(viewOf(["/opt/cni/bin/"]).sees("/opt/cni/bin/")).toBe(true);
});
