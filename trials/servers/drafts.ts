/**
 * Speculative decoding in the words of each server of language models, of the versions that
 * `language-programs.ts` names.
 */
import { defaultMethod, type SpeculativeMethod } from '../predictor/llm/speculative-methods.ts'
import type { Knobs } from './knobs.ts'

/** What is drafted, as it was tuned. */
interface Drafts {
  /** Tokens of each answer in a step, at least 1. */
  readonly tokens: number
  /** One of `SpeculativeMethod`, or what the user wrote in its place. */
  readonly method: string
  /** Place of the draft model's weights. */
  readonly model?: string
}

/** Undefined where nothing is drafted. */
export function draftsOf(knobs: Knobs): Drafts | undefined {
  const tokens = knobs.number('speculativeTokens') ?? 0
  const method = String(knobs.value('speculativeMethod') ?? defaultMethod)
  const model = knobs.value('speculativeModel')
  return tokens > 0
    ? { tokens, method, ...(model !== undefined && { model: String(model) }) }
    : undefined
}

type Flags = readonly (readonly [string, string])[]
type ByMethod<T> = Readonly<
  Partial<Record<SpeculativeMethod, (tokens: number, model: string) => T>>
>

/**
 * Longest words that are looked for before, where a server asks for it: vLLM's and TensorRT-LLM's
 * own examples have it.
 */
const longestMatch = 4

const vllmConfig = (config: Readonly<Record<string, string | number>>): Flags => [
  ['speculative-config', JSON.stringify(config)],
]

/**
 * A chain, not a tree: `tokens` passes of the draft model, and the model's own token beside them.
 */
const sglangChain =
  (algorithm: string) =>
  (tokens: number, model: string): Flags => [
    ['speculative-algorithm', algorithm],
    ['speculative-draft-model-path', model],
    ['speculative-num-steps', String(tokens)],
    ['speculative-eagle-topk', '1'],
    ['speculative-num-draft-tokens', String(tokens + 1)],
  ]

/**
 * Methods that a server has, as its flags. vLLM 0.11 refuses draft models; TGI takes heads that it
 * finds in the weights, and words that were said before.
 */
export const draftFlags = {
  vllm: {
    ngram: (tokens) =>
      vllmConfig({
        method: 'ngram',
        num_speculative_tokens: tokens,
        prompt_lookup_max: longestMatch,
      }),
    eagle3: (tokens, model) =>
      vllmConfig({ method: 'eagle3', model, num_speculative_tokens: tokens }),
  },
  sglang: {
    ngram: (tokens) => [
      ['speculative-algorithm', 'NGRAM'],
      ['speculative-num-draft-tokens', String(tokens + 1)],
    ],
    draft: sglangChain('STANDALONE'),
    eagle3: sglangChain('EAGLE3'),
  },
  tgi: { ngram: (tokens) => [['speculate', String(tokens)]] },
} as const satisfies Readonly<Record<string, ByMethod<Flags>>>

/**
 * As groups of TensorRT-LLM's file of options. Drafts of another pass keep its scheduler from
 * running ahead; `Eagle` is EAGLE-3 to its PyTorch backend.
 */
export const trtllmDrafts: ByMethod<
  Readonly<Record<string, boolean | Readonly<Record<string, string | number>>>>
> = {
  ngram: (tokens) => ({
    disable_overlap_scheduler: true,
    speculative_config: {
      decoding_type: 'NGram',
      max_draft_len: tokens,
      max_matching_ngram_size: longestMatch,
    },
  }),
  draft: (tokens, model) => ({
    disable_overlap_scheduler: true,
    speculative_config: {
      decoding_type: 'DraftTarget',
      max_draft_len: tokens,
      speculative_model_dir: model,
    },
  }),
  eagle3: (tokens, model) => ({
    speculative_config: {
      decoding_type: 'Eagle',
      max_draft_len: tokens,
      speculative_model_dir: model,
    },
  }),
}

/**
 * What a server is told of its drafts; undefined without any, or of a method that it does not have.
 */
export function told<T>(methods: ByMethod<T>, drafts: Drafts | undefined): T | undefined {
  return (
    drafts &&
    methods[drafts.method as SpeculativeMethod]?.(drafts.tokens, drafts.model ?? draftToFill)
  )
}

/** Stands where only the user knows the draft model's weights. */
export const draftToFill = 'REPLACE_WITH_YOUR_DRAFT_MODEL'

/** Methods that draft with weights of their own. */
export const needsDraftModel = (method: string): boolean =>
  method === 'draft' || method === 'eagle3'
