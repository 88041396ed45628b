import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../machine/run.ts";
import { apiServerUrl } from "./addresses.ts";

/** A certificate and its key, as files. */
interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** Whom a certificate is for. */
export interface Identity {
  /** The user, to Kubernetes. */
  readonly commonName: string;
  /** The group, to Kubernetes. */
  readonly organization?: string;
  /** Names and addresses of a server: `DNS:localhost`, `IP:127.0.0.1`. */
  readonly altNames?: readonly string[];
}

/** The certificate authority of one cluster: openssl in a directory. */
export class CertificateAuthority {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Makes the directory and the authority's own key pair. */
  static async create(directory: string): Promise<CertificateAuthority> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const authority = new CertificateAuthority(directory);
    const usage = ["-addext", "keyUsage=critical,keyCertSign"];
    await authority.#request("ca", ["-subj", "/CN=plexus-e2e", ...usage]);
    return authority;
  }

  /** The authority's certificate. */
  get certificate(): string {
    return join(this.#directory, "ca.crt");
  }

  /** Makes a key and a certificate for a server and client. */
  async issue({ commonName, organization, altNames = [] }: Identity): Promise<KeyPair> {
    const group = organization === undefined ? "" : `/O=${organization}`;
    const signer = ["-CA", this.certificate, "-CAkey", join(this.#directory, "ca.key")];
    const usage = ["-addext", "extendedKeyUsage=serverAuth,clientAuth"];
    const leaf = ["-addext", "basicConstraints=critical,CA:false", ...usage];
    const names = altNames.length > 0 ? ["-addext", `subjectAltName=${altNames.join(",")}`] : [];
    const subject = ["-subj", `${group}/CN=${commonName}`];
    return this.#request(commonName.replaceAll(":", "-"), [
      ...subject,
      ...signer,
      ...leaf,
      ...names,
    ]);
  }

  /** Makes the key pair that service account tokens are signed and verified with; returns its one file. */
  async serviceAccountKey(): Promise<string> {
    const path = join(this.#directory, "service-account.key");
    await run(["openssl", "genrsa", "-out", path, "2048"]);
    return path;
  }

  /** Makes a key pair and a kubeconfig for a user of the API; returns the kubeconfig's path. */
  async kubeconfig(identity: Identity): Promise<string> {
    const { certificate, key } = await this.issue(identity);
    const user = { "client-certificate": certificate, "client-key": key };
    const cluster = { server: apiServerUrl, "certificate-authority": this.certificate };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "e2e", cluster }],
      users: [{ name: "e2e", user }],
      contexts: [{ name: "e2e", context: { cluster: "e2e", user: "e2e" } }],
      "current-context": "e2e",
    };
    const path = certificate.replace(/crt$/, "kubeconfig");
    await writeFile(path, JSON.stringify(config, undefined, 2), { mode: 0o600 });
    return path;
  }

  async #request(name: string, args: readonly string[]): Promise<KeyPair> {
    const certificate = join(this.#directory, `${name}.crt`);
    const key = join(this.#directory, `${name}.key`);
    const algorithm = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"];
    const output = ["-keyout", key, "-out", certificate];
    await run(["openssl", "req", "-x509", "-days", "30", ...algorithm, ...output, ...args]);
    return { certificate, key };
  }
}
