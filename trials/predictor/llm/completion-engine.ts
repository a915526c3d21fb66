/** What runs completions behind the OpenAI protocol: a language model, computed or emulated. */

/** Of one answer. */
export interface Completion {
  readonly maxTokens: number
  /** The end that the model itself would make is not heeded: exactly `maxTokens` are produced. */
  readonly ignoreEos: boolean
  /**
   * A token is there, or several from one step, as the text that they add; `end`: it was the last,
   * and why.
   */
  token(text: string, end?: 'length' | 'stop', tokens?: number): void
  /** Nothing more comes. */
  failed(error: Error): void
}

/** `Prompt`: a text as the engine's tokens. */
export interface CompletionEngine<Prompt extends { readonly length: number }> {
  readonly provenance: 'measured' | 'emulated'
  /** 'NVIDIA L4 × 2 (emulated)'. */
  readonly device: string
  /** Longest sequence, prompt and answer, tokens. */
  readonly maxModelLength: number
  read(text: string): Prompt
  /**
   * Begins as soon as there is a place; prompt and answer fit the longest sequence.
   * @returns what forgets it, for a client that leaves; undefined when too many wait
   */
  add(prompt: Prompt, completion: Completion): (() => void) | undefined
  /** Resolves when nothing is under way. */
  drained(): Promise<void>
  close(): void | Promise<void>
}
