/** Prompts for language models. */
export interface PromptSpec {
  readonly inputTokens: LengthDistribution
  readonly outputTokens: LengthDistribution
  /**
   * Kinds of requests side by side, each with its own lengths; the distributions above say nothing
   * then.
   */
  readonly classes?: readonly PromptClass[]
  /** Recorded requests, in their order, over and over; the distributions say nothing then. */
  readonly recorded?: readonly RecordedPrompt[]
  /**
   * Path of recorded conversations (ShareGPT's): what was said in them, word for word; the
   * distributions say nothing then.
   */
  readonly file?: string
  /**
   * Turns of a conversation: each prompt is all that was said before, answers too, and as much more
   * as `inputTokens` says. Absent: every prompt begins anew.
   */
  readonly turns?: LengthDistribution
  /** Conversations that take turns: so many requests lie between two prompts of one. Default 32. */
  readonly conversations?: number
  /**
   * Tokens that prompts have in common at their start, counted in their input tokens. Default 0.
   */
  readonly sharedPrefixTokens?: number
  /** Different prefixes, taken in turn. Default 1. */
  readonly prefixes?: number
  /**
   * Path of a `tokenizer.json`: prompts then have exactly so many of its tokens. Absent: a token is
   * a common word.
   */
  readonly tokenizer?: string
  /** Default true: answers of the drawn length, whatever the model would rather say. */
  readonly ignoreEos?: boolean
}

/** Requests of one kind. */
export interface PromptClass {
  readonly name: string
  /** Of all requests, 0-1. */
  readonly share: number
  readonly inputTokens: LengthDistribution
  readonly outputTokens: LengthDistribution
}

/**
 * What a trace tells of a request: its lengths, and which blocks it begins with, where it does
 * (equal numbers are equal text), with the tokens of a block where they are not
 * `recordedBlockTokens`.
 */
export type RecordedPrompt = readonly [
  inputTokens: number,
  outputTokens: number,
  blocks?: readonly number[],
  blockTokens?: number,
]

/** Of Mooncake's traces (Qin et al., FAST 2025). */
export const recordedBlockTokens = 512

/** Lengths in tokens, never above `most` (default 32,768). */
export type LengthDistribution = { readonly most?: number } & (
  | { readonly kind: 'fixed'; readonly tokens: number }
  | { readonly kind: 'uniform'; readonly from: number; readonly to: number }
  | { readonly kind: 'normal'; readonly mean: number; readonly deviation: number }
  /** exp of a normal with mean ln(median) and deviation sigma. */
  | { readonly kind: 'lognormal'; readonly median: number; readonly sigma: number }
)
