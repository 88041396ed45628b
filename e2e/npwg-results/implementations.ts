import { findMultus } from "../../bench/peers/multus.ts";
import { distPath, nodeBinary } from "../support/paths.ts";
import { plexusdFlags } from "../support/plexusd.ts";

/** A column of the page: an implementation file of npwg-conformance. */
interface Column {
  readonly id: string;
  readonly file: object;
}

/** `{{dir}}` is the suite's scratch directory. */
const state = "{{dir}}/state";
const socket = "{{dir}}/plexus.sock";

const plexusFeatures = {
  isolation: { namespaceIsolation: true },
  readiness: { readinessindicatorfile: "{{readinessFile}}" },
};

const plexusConfiguration = {
  cniVersion: "1.0.0",
  name: "plexus",
  type: "plexus",
  clusterNetwork: "{{defaultNetworkFile}}",
  confDir: "{{confDir}}",
};

function plexusDaemon(): object {
  const flags = plexusdFlags({ socket, stateDir: state });
  const cluster = ["--kubeconfig", "{{kubeconfig}}", "--node", "{{nodeName}}"];
  return {
    name: "Plexus daemon",
    version: "this commit",
    plugin: distPath("plexus"),
    configuration: plexusConfiguration,
    environment: { PLEXUS_SOCKET: socket, PLEXUS_STATE_DIR: state, PLEXUS_STANDALONE: "" },
    daemon: {
      command: [nodeBinary(), distPath("plexusd.js"), ...flags, ...cluster],
      ready: { output: "plexusd serves" },
    },
    ...plexusFeatures,
  };
}

function plexusStandalone(): object {
  return {
    name: "Plexus standalone",
    version: "this commit",
    plugin: distPath("plexus"),
    configuration: { ...plexusConfiguration, kubeconfig: "{{kubeconfig}}" },
    environment: {
      PLEXUS_SOCKET: socket,
      PLEXUS_STATE_DIR: state,
      PLEXUS_STANDALONE: distPath("plexus-standalone"),
      NODE_NAME: "{{nodeName}}",
    },
    ...plexusFeatures,
  };
}

const multusConfiguration = {
  cniVersion: "1.0.0",
  name: "multus-cni-network",
  clusterNetwork: "{{defaultNetworkFile}}",
  confDir: "{{confDir}}",
  binDir: "{{binDir}}",
  cniDir: state,
  logLevel: "error",
};

function multusThin(program: string, version: string): object {
  return {
    name: "Multus thin",
    version,
    plugin: program,
    configuration: { ...multusConfiguration, type: "multus", kubeconfig: "{{kubeconfig}}" },
    ...plexusFeatures,
  };
}

/** As its DaemonSet starts it, but without a chroot. */
function multusThick(shim: string, program: string, version: string): object {
  const daemonSocketDir = "{{dir}}/multus/";
  const config = {
    cniVersion: "1.0.0",
    multusConfigFile: "auto",
    multusAutoconfigDir: "{{defaultNetworkDir}}",
    cniConfigDir: "{{dir}}/generated",
    socketDir: daemonSocketDir,
    binDir: "{{binDir}}",
    confDir: "{{confDir}}",
    cniDir: state,
    logLevel: "error",
    logToStderr: true,
  };
  const serviceAccount = "/run/secrets/kubernetes.io/serviceaccount";
  return {
    name: "Multus thick",
    version,
    plugin: shim,
    configuration: { ...multusConfiguration, type: "multus-shim", daemonSocketDir },
    files: {
      "{{dir}}/daemon.json": config,
      "{{dir}}/generated/.keep": "",
      [`${serviceAccount}/token`]: "{{apiToken}}",
      [`${serviceAccount}/ca.crt`]: "{{apiCertificate}}",
    },
    daemon: {
      command: [program, "--config", "{{dir}}/daemon.json"],
      environment: {
        MULTUS_NODE_NAME: "{{nodeName}}",
        KUBERNETES_SERVICE_HOST: "{{apiHost}}",
        KUBERNETES_SERVICE_PORT: "{{apiPort}}",
      },
      ready: { file: "{{dir}}/generated/00-multus.conf" },
    },
    ...plexusFeatures,
  };
}

/** The four columns. @throws Error when something is not built */
export async function allColumns(): Promise<Column[]> {
  const multus = await findMultus();
  if (multus === undefined) throw new Error("Multus cannot be built: see the message above");
  const { thin, shim, daemon } = multus;
  const version = multus.version.replace(/^v/, "");
  return [
    { id: "plexus-daemon", file: plexusDaemon() },
    { id: "plexus-standalone", file: plexusStandalone() },
    { id: "multus-thin", file: multusThin(thin, version) },
    { id: "multus-thick", file: multusThick(shim, daemon, version) },
  ];
}
