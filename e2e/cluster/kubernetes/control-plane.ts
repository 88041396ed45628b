// SPDX-License-Identifier: Apache-2.0

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Daemon } from "../../support/daemon.ts";
import { Host } from "../machine/host.ts";
import type { Command } from "../machine/run.ts";
import { addresses, apiServerUrl, controlPlaneBridge } from "./addresses.ts";
import type { CertificateAuthority, Identity, KeyPair } from "./pki.ts";
import type { Tools } from "./tools.ts";

/** What the control plane is made from. */
export interface ControlPlaneOptions {
  readonly tools: Tools;
  /** The cluster's directory. */
  readonly directory: string;
  readonly logs: string;
  readonly authority: CertificateAuthority;
}

const admin = { commonName: "e2e-admin", organization: "system:masters" };

/** A bridge, so that the address is there before any node is plugged in. */
const network = `
ip link add ${controlPlaneBridge} type bridge
ip address add ${addresses.controlPlane}/${addresses.linkPrefix} dev ${controlPlaneBridge}
ip link set ${controlPlaneBridge} up
ip route add ${addresses.podRange} via ${addresses.node}
`;

const etcdUrl = "http://127.0.0.1:2379";

/** etcd, API server, controller manager and scheduler, on a separate host. */
export class ControlPlane {
  readonly host: Host;
  /** The administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly #tools: Tools;
  readonly #apiServerCommand: Command;
  readonly #controllerKubeconfigs: Readonly<Record<string, string>>;
  #apiServer: Daemon | undefined;

  private constructor(host: Host, tools: Tools, files: ControlPlaneFiles) {
    this.host = host;
    this.kubeconfig = files.kubeconfig;
    this.#tools = tools;
    this.#apiServerCommand = apiServerCommand(tools, files);
    this.#controllerKubeconfigs = files.controllers;
  }

  /** Starts all of it and waits until the API server is ready. */
  static async start(options: ControlPlaneOptions): Promise<ControlPlane> {
    const { tools, directory, logs } = options;
    const files = await writeFiles(options);
    const host = await Host.start({
      name: "control-plane",
      init: tools.init,
      logs,
      setup: network,
    });
    const controlPlane = new ControlPlane(host, tools, files);
    try {
      await host.startDaemon("etcd", etcdCommand(tools, join(directory, "etcd")));
      await controlPlane.startApiServer();
      await controlPlane.#startControllers(files.serviceAccountKey, options.authority.certificate);
    } catch (error) {
      await host.kill();
      throw error;
    }
    return controlPlane;
  }

  /** Starts the API server, which must not be running, and waits until it is ready. */
  async startApiServer(): Promise<void> {
    const daemon = await this.host.startDaemon("kube-apiserver", this.#apiServerCommand);
    this.#apiServer = daemon;
    const probe: Command = [
      join(this.#tools.kubernetes, "kubectl"),
      `--kubeconfig=${this.kubeconfig}`,
      "get",
      "--raw=/readyz",
    ];
    await daemon.waitUntil(
      "the API server is ready",
      async () => (await this.host.tryRun(probe)).exitCode === 0,
      { intervalMs: 200 },
    );
  }

  /** Stops the API server. The signal SIGKILL makes it a crash. */
  async stopApiServer(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    await this.#apiServer?.stop(signal);
    this.#apiServer = undefined;
  }

  async #startControllers(serviceAccountKey: string, rootCertificate: string): Promise<void> {
    const extra: Record<string, readonly string[]> = {
      "kube-controller-manager": [
        `--service-account-private-key-file=${serviceAccountKey}`,
        `--root-ca-file=${rootCertificate}`,
        "--use-service-account-credentials",
      ],
      "kube-scheduler": [],
    };
    for (const [name, flags] of Object.entries(extra)) {
      await this.host.startDaemon(name, [
        join(this.#tools.kubernetes, name),
        `--kubeconfig=${this.#controllerKubeconfigs[name]}`,
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        ...flags,
      ]);
    }
  }
}

interface ControlPlaneFiles {
  readonly kubeconfig: string;
  readonly controllers: Readonly<Record<string, string>>;
  readonly certificateAuthority: string;
  readonly server: KeyPair;
  readonly kubeletClient: KeyPair;
  readonly serviceAccountKey: string;
}

async function writeFiles(options: ControlPlaneOptions): Promise<ControlPlaneFiles> {
  const { directory, authority } = options;
  const kubeconfig = (name: string, identity: Identity): Promise<string> =>
    authority.kubeconfig(join(directory, `${name}.kubeconfig`), apiServerUrl, identity);
  const controllers: Record<string, string> = {};
  for (const name of ["kube-controller-manager", "kube-scheduler"]) {
    controllers[name] = await kubeconfig(name, { commonName: `system:${name}` });
  }
  await mkdir(join(directory, "etcd"), { mode: 0o700 });
  return {
    kubeconfig: await kubeconfig("admin", admin),
    controllers,
    certificateAuthority: authority.certificate,
    server: await authority.issue("kube-apiserver", {
      commonName: "kube-apiserver",
      altNames: [
        `IP:${addresses.controlPlane}`,
        `IP:${addresses.apiService}`,
        "DNS:kubernetes.default.svc",
      ],
    }),
    kubeletClient: await authority.issue("kubelet-client", {
      commonName: "kube-apiserver-kubelet-client",
      organization: "system:masters",
    }),
    serviceAccountKey: await authority.serviceAccountKey(),
  };
}

/** Without fsync: the data need not survive the machine, and syncing takes most of etcd's time. */
function etcdCommand(tools: Tools, data: string): Command {
  return [
    tools.etcd,
    `--data-dir=${data}`,
    `--listen-client-urls=${etcdUrl}`,
    `--advertise-client-urls=${etcdUrl}`,
    "--listen-peer-urls=http://127.0.0.1:2380",
    "--unsafe-no-fsync",
    "--log-level=warn",
  ];
}

function apiServerCommand(tools: Tools, files: ControlPlaneFiles): Command {
  return [
    join(tools.kubernetes, "kube-apiserver"),
    `--etcd-servers=${etcdUrl}`,
    `--bind-address=${addresses.controlPlane}`,
    `--advertise-address=${addresses.controlPlane}`,
    `--secure-port=${addresses.apiServerPort}`,
    `--service-cluster-ip-range=${addresses.serviceRange}`,
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--allow-privileged",
    `--client-ca-file=${files.certificateAuthority}`,
    `--tls-cert-file=${files.server.certificate}`,
    `--tls-private-key-file=${files.server.key}`,
    `--kubelet-certificate-authority=${files.certificateAuthority}`,
    `--kubelet-client-certificate=${files.kubeletClient.certificate}`,
    `--kubelet-client-key=${files.kubeletClient.key}`,
    "--kubelet-preferred-address-types=InternalIP",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-account-key-file=${files.serviceAccountKey}`,
    `--service-account-signing-key-file=${files.serviceAccountKey}`,
    // Without it a server that gets a SIGTERM waits a minute for its clients to close their watches.
    "--shutdown-watch-termination-grace-period=1s",
    "--profiling=false",
  ];
}
