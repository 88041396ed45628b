import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import type { TLSSocket } from "node:tls";

/** Files of a certificate and its key. */
export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Writes a self-signed certificate that is valid for a day, for 127.0.0.1 as a server. */
export function writeCertificate(name: string, { certFile, keyFile }: CertificateFiles): void {
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
  const key = [...curve, "-nodes", "-keyout", keyFile];
  const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
  const args = ["req", "-x509", "-days", "1", ...key, ...subject, "-out", certFile];
  execFileSync("openssl", args, { stdio: "ignore" });
}

/** What a client showed of itself with one request. */
export interface SeenClient {
  /** The common name in its certificate. */
  readonly certificate: string | undefined;
  readonly authorization: string | undefined;
}

/** A server that takes any client's certificate, and remembers whom it has seen. */
export async function tlsServer(files: CertificateFiles, seen: SeenClient[]): Promise<Server> {
  const [cert, key] = await Promise.all(
    [files.certFile, files.keyFile].map((path) => readFile(path)),
  );
  const options = { cert, key, requestCert: true, rejectUnauthorized: false };
  const server = createServer(options, (request, response) => {
    const certificate = (request.socket as TLSSocket).getPeerCertificate().subject?.CN;
    seen.push({ certificate: certificate as string, authorization: request.headers.authorization });
    response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}
