// SPDX-License-Identifier: Apache-2.0

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../machine/run.ts";

/** A certificate and its key, as files. */
export interface KeyPair {
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
    await authority.#request("ca", [
      "-subj",
      "/CN=plexus-e2e",
      "-addext",
      "keyUsage=critical,keyCertSign",
    ]);
    return authority;
  }

  /** The authority's certificate. */
  get certificate(): string {
    return join(this.#directory, "ca.crt");
  }

  /** Makes a key and a certificate for a server and client of this name. */
  async issue(
    name: string,
    { commonName, organization, altNames = [] }: Identity,
  ): Promise<KeyPair> {
    const group = organization === undefined ? "" : `/O=${organization}`;
    const signer = ["-CA", this.certificate, "-CAkey", join(this.#directory, "ca.key")];
    const usage = ["-addext", "extendedKeyUsage=serverAuth,clientAuth"];
    const leaf = ["-addext", "basicConstraints=critical,CA:false", ...usage];
    const names = altNames.length > 0 ? ["-addext", `subjectAltName=${altNames.join(",")}`] : [];
    return this.#request(name, [
      "-subj",
      `${group}/CN=${commonName}`,
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
  async kubeconfig(path: string, server: string, identity: Identity): Promise<string> {
    const pair = await this.issue(identity.commonName.replaceAll(":", "-"), identity);
    const data = async (file: string): Promise<string> => (await readFile(file)).toString("base64");
    const user = {
      "client-certificate-data": await data(pair.certificate),
      "client-key-data": await data(pair.key),
    };
    const cluster = { server, "certificate-authority-data": await data(this.certificate) };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "e2e", cluster }],
      users: [{ name: "e2e", user }],
      contexts: [{ name: "e2e", context: { cluster: "e2e", user: "e2e" } }],
      "current-context": "e2e",
    };
    await writeFile(path, JSON.stringify(config, undefined, 2), { mode: 0o600 });
    return path;
  }

  async #request(name: string, args: readonly string[]): Promise<KeyPair> {
    const pair = {
      certificate: join(this.#directory, `${name}.crt`),
      key: join(this.#directory, `${name}.key`),
    };
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"];
    const output = ["-keyout", pair.key, "-out", pair.certificate];
    await run(["openssl", "req", "-x509", "-days", "30", ...key, ...output, ...args]);
    return pair;
  }
}
