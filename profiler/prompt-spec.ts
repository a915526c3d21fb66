/**
 * Prompts for language models. Their lengths come from exactly one of: the two distributions, the
 * classes, the recorded requests, or the file of conversations.
 */
export interface PromptSpec {
  readonly inputTokens: LengthDistribution
  readonly outputTokens: LengthDistribution
  /**
   * A mix of request classes, each with its own lengths. The distributions above are then ignored.
   */
  readonly classes?: readonly PromptClass[]
  /**
   * Requests of a trace, in order, starting again at the end. The distributions are then ignored.
   */
  readonly recorded?: readonly RecordedPrompt[]
  /**
   * Path of recorded conversations in the format of ShareGPT, whose texts are sent verbatim. The
   * distributions are then ignored.
   */
  readonly file?: string
  /**
   * Turns per conversation. Each prompt repeats the conversation so far, answers included, and adds
   * `inputTokens`. Absent: every prompt starts a new conversation.
   */
  readonly turns?: LengthDistribution
  /**
   * Interleaved conversations: the number of requests from one turn of a conversation to its next.
   * Default 32.
   */
  readonly conversations?: number
  /**
   * Tokens of a common prefix of all prompts (a system prompt), counted as input tokens. Default 0.
   */
  readonly sharedPrefixTokens?: number
  /** Number of different prefixes, used round robin. Default 1. */
  readonly prefixes?: number
  /**
   * Path of a `tokenizer.json`, so that prompts have exactly the drawn number of its tokens.
   * Absent: a common word counts as a token.
   */
  readonly tokenizer?: string
  /** Answers always have the drawn length, because the end token is ignored. Default true. */
  readonly ignoreEos?: boolean
}

/** One class of a mix of requests. */
export interface PromptClass {
  readonly name: string
  /** Share of all requests, 0-1. */
  readonly share: number
  readonly inputTokens: LengthDistribution
  readonly outputTokens: LengthDistribution
}

/**
 * A request of a trace: its lengths and, where the trace records them, the ids of the text blocks
 * that its prompt begins with. Equal ids mean equal text. `blockTokens` is the length of a block,
 * default `recordedBlockTokens`.
 */
export type RecordedPrompt = readonly [
  inputTokens: number,
  outputTokens: number,
  blocks?: readonly number[],
  blockTokens?: number,
]

/** Tokens of a block in Mooncake's traces (Qin et al., FAST 2025). */
export const recordedBlockTokens = 512

/** Distribution of lengths in tokens, truncated at `maxTokens` (default 32,768). */
export type LengthDistribution = { readonly maxTokens?: number } & (
  | { readonly kind: 'fixed'; readonly tokens: number }
  | { readonly kind: 'uniform'; readonly from: number; readonly to: number }
  | { readonly kind: 'normal'; readonly mean: number; readonly deviation: number }
  /** exp of a normal with mean ln(median) and deviation sigma. */
  | { readonly kind: 'lognormal'; readonly median: number; readonly sigma: number }
)
