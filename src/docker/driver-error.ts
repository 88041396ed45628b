/** An operation of the engine that is refused; its user reads the message. */
export class DriverError extends Error {
  override readonly name = "DriverError";
}
