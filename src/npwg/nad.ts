/** What is used of a NetworkAttachmentDefinition (multi-network specification v1.1 §3.2). */
export interface NetworkAttachmentDefinition {
  readonly namespace: string;
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
  /** `spec.config`: a CNI conf or conflist as JSON text; absent or empty = look on disk by name. */
  readonly config?: string;
}
