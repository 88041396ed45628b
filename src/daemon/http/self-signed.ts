import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

const dayMs = 86_400_000;
/** Longer than any plexusd pod lives: nothing renews the certificate. */
const lifeMs = 3650 * dayMs;
/** Clocks of the nodes differ. */
const slackMs = dayMs;

const commonName = "2.5.4.3";
const subjectAltName = "2.5.29.17";
const ecdsaWithSha256 = "1.2.840.10045.4.3.2";

/** Makes a certificate for a host name that its own key signs (RFC 5280, ECDSA P-256). */
export function selfSigned(host: string): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = sequence(objectId(ecdsaWithSha256));
  const name = sequence(set(sequence(objectId(commonName), der(0x0c, host))));
  const now = Date.now();
  const altNames = sequence(der(0x82, host));
  const certificate = sequence(
    der(0xa0, integer([2])),
    integer([1, ...randomBytes(15)]),
    algorithm,
    name,
    sequence(time(now - slackMs), time(now + lifeMs)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(sequence(objectId(subjectAltName), der(0x04, altNames)))),
  );
  const signature = sign("sha256", certificate, privateKey);
  const signed = sequence(certificate, algorithm, der(0x03, Buffer.of(0), signature));
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: pem("CERTIFICATE", signed),
  };
}

function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString("base64").replaceAll(/.{64}/g, "$&\n").trimEnd();
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`;
}

/** A value of this tag in the Distinguished Encoding Rules (X.690). */
function der(tag: number, ...parts: readonly (Buffer | string)[]): Buffer {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
  return Buffer.concat([Buffer.of(tag, ...lengthOf(content.length)), content]);
}

/** As short as possible: Go refuses any other form. */
function lengthOf(length: number): number[] {
  if (length < 0x80) return [length];
  return length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
}

const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, ...parts);
const set = (...parts: readonly Buffer[]): Buffer => der(0x31, ...parts);
const integer = (bytes: readonly number[]): Buffer => der(0x02, Buffer.from(bytes));

function objectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  return der(0x06, Buffer.from([40 * first + second, ...rest.flatMap(inBase128)]));
}

function inBase128(value: number): number[] {
  const digits = [value & 0x7f];
  for (let left = value >> 7; left > 0; left >>= 7) digits.unshift((left & 0x7f) | 0x80);
  return digits;
}

/** UTCTime, which has two digits of the year and is required until 2049. */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/\D/g, "");
  return der(0x17, `${digits.slice(2, 14)}Z`);
}
