/** Tuned settings of speculative decoding; each server's preset translates them. */
import { defaultMethod, type SpeculativeMethod } from '../predictor/llm/speculative-methods.ts'
import type { Knobs } from './knobs.ts'

interface Draft {
  /** Tokens drafted for each answer in a step, at least 1. */
  readonly tokens: number
  /** One of `SpeculativeMethod`, or the user's own value. */
  readonly method: string
  /** Where the weights of the draft model are. */
  readonly model?: string
}

/** Settings of a server by method, for a number of draft tokens. */
export type DraftMethods<T> = Readonly<
  Partial<Record<SpeculativeMethod, (tokens: number, model: string) => T>>
>

/** Undefined if nothing is drafted. */
export function readDraft(knobs: Knobs): Draft | undefined {
  const tokens = knobs.number('speculativeTokens') ?? 0
  const method = String(knobs.value('speculativeMethod') ?? defaultMethod)
  const model = knobs.value('speculativeModel')
  return tokens > 0
    ? { tokens, method, ...(model !== undefined && { model: String(model) }) }
    : undefined
}

/**
 * Settings of a server for what was tuned; undefined without drafts, or for an unsupported method.
 */
export function writeDrafts<T>(methods: DraftMethods<T>, knobs: Knobs): T | undefined {
  const draft = readDraft(knobs)
  return (
    draft && methods[draft.method as SpeculativeMethod]?.(draft.tokens, draft.model ?? draftToFill)
  )
}

/** Placeholder for the weights of the draft model, which only the user knows. */
export const draftToFill = 'REPLACE_WITH_YOUR_DRAFT_MODEL'

/** Longest n-gram that is looked up in the prompt; the examples of vLLM and TensorRT-LLM use it. */
export const maxMatchedNgram = 4

/** Methods that draft with weights of their own. */
export const needsDraftModel = (method: string): boolean =>
  method === 'draft' || method === 'eagle3'
