// SPDX-License-Identifier: Apache-2.0

import type { Host } from "../machine/host.ts";
import type { Command } from "../machine/run.ts";

/** The container runtime of a node. */
export interface NodeRuntime {
  /** Where it listens, on the node. */
  readonly socket: string;
  /** Writes its files into the directory that keeps what a reboot leaves. */
  writeFiles(root: string): Promise<void>;
  /** Starts it, which must not be running, and waits until it answers. */
  start(host: Host): Promise<void>;
  /** Stops it. Pods go on running. */
  stop(): Promise<void>;
  /** The command that imports the image archives it is given. To be run on the node. */
  importCommand(): Command;
}
