import { type Frame, ProtocolError } from "./frame.ts";

/** The `NAME=VALUE` fields of an environment. */
export function envFields(env: Readonly<Record<string, string>>): string[] {
  return Object.entries(env).map(([name, value]) => `${name}=${value}`);
}

/** @throws ProtocolError for a field without a name */
export function decodeEnv(fields: readonly Buffer[]): Record<string, string> {
  const env: Record<string, string> = {};
  for (const entry of fields) {
    const text = entry.toString();
    const equals = text.indexOf("=");
    if (equals < 1)
      throw new ProtocolError(`environment entry ${JSON.stringify(text)} has no name`);
    env[text.slice(0, equals)] = text.slice(equals + 1);
  }
  return env;
}

/** @throws ProtocolError when the frame has another type */
export function expectType(frame: Frame, type: number): void {
  if (frame.type !== type) {
    throw new ProtocolError(`frame of type ${frame.type} where type ${type} was expected`);
  }
}

/** @throws ProtocolError when the frame has no such field */
export function field(frame: Frame, index: number): Buffer {
  const value = frame.fields[index];
  if (value === undefined) {
    throw new ProtocolError(`frame of type ${frame.type} lacks field ${index}`);
  }
  return value;
}

/** A field of decimal digits. @throws ProtocolError */
export function number(frame: Frame, index: number): number {
  const text = field(frame, index).toString();
  if (!/^\d{1,15}$/.test(text)) {
    throw new ProtocolError(
      `field ${index} of frame type ${frame.type} is ${JSON.stringify(text)}, not a number`,
    );
  }
  return Number(text);
}

/** A field that is one of the known words. @throws ProtocolError */
export function oneOf<T extends string>(known: readonly T[], value: Buffer): T {
  const text = value.toString();
  const found = known.find((word) => word === text);
  if (found === undefined) throw new ProtocolError(`unknown word ${JSON.stringify(text)}`);
  return found;
}
