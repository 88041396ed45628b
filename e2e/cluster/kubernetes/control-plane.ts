import { join } from "node:path";
import type { Daemon } from "../../support/daemon.ts";
import { onlyChildOf } from "../../support/processes.ts";
import { Host } from "../machine/host.ts";
import type { Command } from "../machine/run.ts";
import { addresses, controlPlaneBridge } from "./addresses.ts";
import type { CertificateAuthority } from "./pki.ts";
import type { Tools } from "./tools.ts";

/** What the control plane is made from. */
interface ControlPlaneOptions {
  readonly tools: Tools;
  /** The cluster's directory. */
  readonly directory: string;
  readonly logs: string;
  readonly authority: CertificateAuthority;
}

const admin = { commonName: "e2e-admin", organization: "system:masters" };

/** A bridge, so that the address is there before any node is plugged in. This host routes between the nodes' pods. */
const network = `
ip link add ${controlPlaneBridge} type bridge
ip address add ${addresses.controlPlane}/${addresses.linkPrefix} dev ${controlPlaneBridge}
ip link set ${controlPlaneBridge} up
echo 1 >/proc/sys/net/ipv4/ip_forward
`;

const etcdUrl = "http://127.0.0.1:2379";

type Commands = Readonly<Record<"apiServer" | "isReady", Command>>;

/** etcd, API server, controller manager and scheduler, on a separate host. */
export class ControlPlane {
  readonly host: Host;
  /** The administrator's kubeconfig. Its server can be reached from the cluster's hosts only. */
  readonly kubeconfig: string;
  readonly #commands: Commands;
  #apiServer: Daemon | undefined;

  private constructor(host: Host, kubeconfig: string, commands: Commands) {
    this.host = host;
    this.kubeconfig = kubeconfig;
    this.#commands = commands;
  }

  /** Starts all of it and waits until the API server is ready. */
  static async start(options: ControlPlaneOptions): Promise<ControlPlane> {
    const { tools, directory, logs, authority } = options;
    const { init } = tools;
    const serviceAccountKey = await authority.serviceAccountKey();
    const kubeconfig = await authority.kubeconfig(admin);
    const kubectl = join(tools.kubernetes, "kubectl");
    const commands: Commands = {
      apiServer: await apiServerCommand(options, serviceAccountKey),
      isReady: [kubectl, `--kubeconfig=${kubeconfig}`, "get", "--raw=/readyz"],
    };
    const host = await Host.start({ name: "control-plane", init, logs, setup: network });
    const controlPlane = new ControlPlane(host, kubeconfig, commands);
    try {
      await host.startDaemon("etcd", etcdCommand(tools, join(directory, "etcd")));
      await controlPlane.startApiServer();
      const start = async (name: string, ...flags: string[]): Promise<void> => {
        const own = await authority.kubeconfig({ commonName: `system:${name}` });
        const usual = [`--kubeconfig=${own}`, "--leader-elect=false", "--bind-address=127.0.0.1"];
        await host.startDaemon(name, [join(tools.kubernetes, name), ...usual, ...flags]);
      };
      await start("kube-scheduler");
      await start(
        "kube-controller-manager",
        `--service-account-private-key-file=${serviceAccountKey}`,
        `--root-ca-file=${authority.certificate}`,
        "--use-service-account-credentials",
      );
    } catch (error) {
      await host.kill();
      throw error;
    }
    return controlPlane;
  }

  /** Starts the API server unless it runs, and waits until it is ready. */
  async startApiServer(): Promise<void> {
    if (this.#apiServer?.running !== true) {
      this.#apiServer = await this.host.startDaemon("kube-apiserver", this.#commands.apiServer);
    }
    const daemon = this.#apiServer;
    const ready = async (): Promise<boolean> =>
      (await this.host.tryRun(this.#commands.isReady)).exitCode === 0;
    await daemon.waitUntil("the API server is ready", ready, { intervalMs: 200 });
  }

  /** The API server's process, and the nsenter that waits for it. @throws Error when it does not run */
  async apiServerPids(): Promise<readonly [server: number, nsenter: number]> {
    if (this.#apiServer === undefined) throw new Error("the API server does not run");
    const { pid } = this.#apiServer;
    return [await onlyChildOf(pid), pid];
  }

  /** Ends the API server as a crash does. */
  async killApiServer(): Promise<void> {
    await this.#apiServer?.stop("SIGKILL");
    this.#apiServer = undefined;
  }

  /** Writes a key that no API server reads: the version of all objects rises. */
  async writeToEtcd(key: string): Promise<void> {
    const body = JSON.stringify({ key: Buffer.from(key).toString("base64") });
    await this.host.run(["curl", "--fail", "--silent", `${etcdUrl}/v3/kv/put`, "--data", body]);
  }
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

async function apiServerCommand(
  { tools, authority }: ControlPlaneOptions,
  serviceAccountKey: string,
): Promise<Command> {
  const { controlPlane, apiServerPort, serviceRange, apiService } = addresses;
  const names = ["DNS:kubernetes.default.svc", "DNS:localhost"];
  const altNames = [`IP:${controlPlane}`, `IP:${apiService}`, ...names];
  const server = await authority.issue({ commonName: "kube-apiserver", altNames });
  const kubeletClient = await authority.issue({
    commonName: "kube-apiserver-kubelet-client",
    organization: "system:masters",
  });
  return [
    join(tools.kubernetes, "kube-apiserver"),
    `--etcd-servers=${etcdUrl}`,
    `--bind-address=${controlPlane}`,
    `--advertise-address=${controlPlane}`,
    `--secure-port=${apiServerPort}`,
    `--service-cluster-ip-range=${serviceRange}`,
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--allow-privileged",
    `--client-ca-file=${authority.certificate}`,
    `--tls-cert-file=${server.certificate}`,
    `--tls-private-key-file=${server.key}`,
    `--kubelet-certificate-authority=${authority.certificate}`,
    `--kubelet-client-certificate=${kubeletClient.certificate}`,
    `--kubelet-client-key=${kubeletClient.key}`,
    "--kubelet-preferred-address-types=InternalIP",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-account-key-file=${serviceAccountKey}`,
    `--service-account-signing-key-file=${serviceAccountKey}`,
    "--profiling=false",
    // Without kube-proxy, it reaches a webhook at its pods.
    "--enable-aggregator-routing",
  ];
}
