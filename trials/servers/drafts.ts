/** Speculative decoding as it was tuned. Each server's preset says it in the server's own words. */
import { defaultMethod, type SpeculativeMethod } from '../predictor/llm/speculative-methods.ts'
import type { Knobs } from './knobs.ts'

interface Draft {
  /** Tokens drafted for each answer in a step, at least 1. */
  readonly tokens: number
  /** One of `SpeculativeMethod`, or what the user wrote in its place. */
  readonly method: string
  /** Where the weights of the draft model are. */
  readonly model?: string
}

/** By method, how a server is told to draft so many tokens. */
export type DraftMethods<T> = Readonly<
  Partial<Record<SpeculativeMethod, (tokens: number, model: string) => T>>
>

/** Undefined where nothing is drafted. */
export function draftsOf(knobs: Knobs): Draft | undefined {
  const tokens = knobs.number('speculativeTokens') ?? 0
  const method = String(knobs.value('speculativeMethod') ?? defaultMethod)
  const model = knobs.value('speculativeModel')
  return tokens > 0
    ? { tokens, method, ...(model !== undefined && { model: String(model) }) }
    : undefined
}

/** Settings of a server for what was tuned; undefined without drafts, or for an unsupported method. */
export function writeDrafts<T>(methods: DraftMethods<T>, knobs: Knobs): T | undefined {
  const draft = draftsOf(knobs)
  return (
    draft && methods[draft.method as SpeculativeMethod]?.(draft.tokens, draft.model ?? draftToFill)
  )
}

/** Stands where only the user knows the weights of the draft model. */
export const draftToFill = 'REPLACE_WITH_YOUR_DRAFT_MODEL'

/** Longest n-gram that is looked up in the prompt; the examples of vLLM and TensorRT-LLM use it. */
export const maxMatchedNgram = 4

/** Methods that draft with weights of their own. */
export const needsDraftModel = (method: string): boolean =>
  method === 'draft' || method === 'eagle3'
