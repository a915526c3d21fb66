/** Prompts for language models. */
export interface PromptSpec {
  readonly inputTokens: LengthDistribution
  readonly outputTokens: LengthDistribution
  /** Lengths of recorded requests, in their order, over and over; the distributions say nothing then. */
  readonly recorded?: readonly (readonly [inputTokens: number, outputTokens: number])[]
  /** Tokens that prompts have in common at their start, counted in their input tokens. Default 0. */
  readonly sharedPrefixTokens?: number
  /** Different prefixes, taken in turn. Default 1. */
  readonly prefixes?: number
  /** Path of a `tokenizer.json`: prompts then have exactly so many of its tokens. Absent: a token is a common word. */
  readonly tokenizer?: string
  /** Default true: answers of the drawn length, whatever the model would rather say. */
  readonly ignoreEos?: boolean
}

/** Lengths in tokens, never above `most` (default 32,768). */
export type LengthDistribution = { readonly most?: number } & (
  | { readonly kind: 'fixed'; readonly tokens: number }
  | { readonly kind: 'uniform'; readonly from: number; readonly to: number }
  | { readonly kind: 'normal'; readonly mean: number; readonly deviation: number }
  /** exp of a normal with mean ln(median) and deviation sigma. */
  | { readonly kind: 'lognormal'; readonly median: number; readonly sigma: number }
)
