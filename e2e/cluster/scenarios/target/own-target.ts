// SPDX-License-Identifier: Apache-2.0

import { type Cluster, startCluster } from "../../kubernetes/cluster.ts";
import { busyboxImage } from "../../machine/images.ts";
import type { Command, RunResult } from "../../machine/run.ts";
import { defaultPlexusImage, writePlexusImage } from "./plexus-image.ts";
import type { Target } from "./target.ts";

/** A cluster of one node on this machine, which goes with the tests. */
export class OwnTarget implements Target {
  readonly podImage = busyboxImage;
  readonly plexusImage = defaultPlexusImage;
  readonly own: Cluster;

  private constructor(own: Cluster) {
    this.own = own;
  }

  static async start(): Promise<OwnTarget> {
    const image = await writePlexusImage();
    const cluster = await startCluster();
    try {
      await cluster.loadImage(image);
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return new OwnTarget(cluster);
  }

  get nodeName(): string {
    return this.own.node.name;
  }

  async kubectl(...args: string[]): Promise<string> {
    return this.own.kubectl(...args);
  }

  async tryKubectl(...args: string[]): Promise<RunResult> {
    return this.own.tryKubectl(...args);
  }

  async apply(manifest: string | object): Promise<string> {
    return this.own.apply(manifest);
  }

  async inNode(command: Command): Promise<string> {
    return this.own.inNode(command);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.own.stop();
  }
}
