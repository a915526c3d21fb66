/** The interface of engines behind the OpenAI protocol: a language model, real or emulated. */

/** Request for one answer, with its callbacks. */
export interface Completion {
  readonly maxTokens: number
  /** Ignores the model's end-of-sequence token: exactly `maxTokens` are produced. */
  readonly ignoreEos: boolean
  /**
   * Called for each token, or for several from one step, with their text. `end`: reason of the end,
   * with the last token.
   */
  token(text: string, end?: 'length' | 'stop', tokens?: number): void
  /** Called if the answer fails; no token follows. */
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
  /** Resolves when no request is queued or running. */
  waitUntilIdle(): Promise<void>
  close(): void | Promise<void>
}
