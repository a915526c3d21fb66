/** The interface of engines behind the OpenAI protocol: a language model, real or emulated. */

/** Of one answer. */
export interface Completion {
  readonly maxTokens: number
  /** The end that the model itself would make is not heeded: exactly `maxTokens` are produced. */
  readonly ignoreEos: boolean
  /**
   * Called for each token, or for several from one step, with their text. `end`: reason of the end,
   * with the last token.
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
   * Starts a completion once a slot is free; prompt and answer must fit the longest sequence.
   * @returns a function that cancels it; undefined if the queue is full
   */
  add(prompt: Prompt, completion: Completion): (() => void) | undefined
  /** Resolves when nothing is under way. */
  waitUntilIdle(): Promise<void>
  close(): void | Promise<void>
}
