/** What of an AbortSignal is needed to stop when told; whoever makes thousands a second makes something cheaper. */
export type Cancel = {
  readonly aborted: boolean;
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void;
  removeEventListener(type: "abort", listener: () => void): void;
};
